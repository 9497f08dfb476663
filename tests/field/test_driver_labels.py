"""The nodes of the local cloud have the labels by which drivers and old manifests place pods."""

import pytest

from demo.objects import describe_node
from demo.settings import LOCATION, ZONE
from standins.google.gke.nodes import labels_of_host

PLACES = {
    "topology.kubernetes.io/zone": "us-east5-a",
    "topology.gke.io/zone": "us-east5-a",
    "failure-domain.beta.kubernetes.io/zone": "us-east5-a",
    "topology.kubernetes.io/region": "us-east5",
    "failure-domain.beta.kubernetes.io/region": "us-east5",
    "node.kubernetes.io/instance-type": "ct6e-standard-4t",
    "beta.kubernetes.io/instance-type": "ct6e-standard-4t",
    "kubernetes.io/arch": "amd64",
    "beta.kubernetes.io/arch": "amd64",
    "kubernetes.io/os": "linux",
    "beta.kubernetes.io/os": "linux",
}


@pytest.mark.parametrize("key", PLACES)
def test_a_host_has_the_label(key: str) -> None:
    assert labels_of_host("ct6e-standard-4t", "amd64", "us-east5-a")[key] == PLACES[key]


@pytest.mark.parametrize("key", PLACES)
def test_the_cpu_node_has_it_too(key: str) -> None:
    own = describe_node()["metadata"]["labels"]
    places = {"us-east5-a": ZONE, "us-east5": LOCATION, "ct6e-standard-4t": "n2-standard-64"}

    assert own[key] == places.get(PLACES[key], PLACES[key])
