"""What GKE says of a cluster: its release channel, and where its Kubernetes API is."""

import json

import pytest

from shared.edges.cluster import KubernetesCluster
from shared.edges.gke import CLUSTER_SECONDS, open_apis
from shared.edges.google import GoogleAccount
from shared.model.errors import ClusterNotFound, Unavailable
from shared.settings import ClusterSettings, Credentials
from tests.builders import CLUSTER, NOW
from tests.clocks import StepClock
from tests.contract.gke_world import Edge, open_edge
from tests.raw_server import Socket, answer

PLACES = {
    "dnsEndpointConfig": {"endpoint": "gke-1.us-east5.gke.goog"},
    "ipEndpointsConfig": {"privateEndpoint": "10.0.0.2"},
}
ON = {"releaseChannel": {"channel": "STABLE"}, "controlPlaneEndpointsConfig": PLACES}
ON |= {"name": "c", "masterAuth": {"clusterCaCertificate": "LS0tLS1C"}}
STABLE, OFF = (answer(json.dumps(body).encode()) for body in (ON, {"name": "c", "releaseChannel": {}}))
NAMELESS, BUSY = answer(b"{}"), answer(status="503 Service Unavailable")


@pytest.fixture
def clock() -> StepClock:
    return StepClock(NOW)


@pytest.fixture
def edge(server: Socket, clock: StepClock) -> Edge:
    return open_edge(server.url, clock)


def test_a_cluster_is_read_again_in_each_tick_only(server: Socket, edge: Edge, clock: StepClock) -> None:
    server.answers = [STABLE, OFF]

    assert [edge.find_channel(CLUSTER) for _ in range(3)] == ["STABLE"] * 3
    clock.pause(CLUSTER_SECONDS)
    assert edge.find_channel(CLUSTER) == "STABLE"
    assert server.requests == 1

    clock.pause(1)
    assert edge.find_channel(CLUSTER) == ""
    assert server.requests == 2


def test_an_answer_that_is_none_is_not_kept(server: Socket, edge: Edge) -> None:
    server.answers = [BUSY, NAMELESS, OFF]

    for _ in range(2):
        with pytest.raises(Unavailable):
            edge.find_channel(CLUSTER)
    assert edge.find_channel(CLUSTER) == ""


def test_gke_says_where_the_kubernetes_api_is_and_who_signs_it(server: Socket, edge: Edge) -> None:
    server.answers = [STABLE]

    assert edge.locate(CLUSTER) == ("https://gke-1.us-east5.gke.goog", "")
    assert edge.locate(CLUSTER, private=True) == ("https://10.0.0.2", "LS0tLS1C")


@pytest.mark.parametrize(("private", "way"), [(False, "DNS endpoint"), (True, "private address")])
def test_a_cluster_without_such_an_endpoint_is_named(server: Socket, edge: Edge, private: bool, way: str) -> None:
    server.answers = [OFF]

    with pytest.raises(Unavailable, match=f"cluster {CLUSTER} has no {way}"):
        edge.locate(CLUSTER, private=private)


def test_a_cluster_that_is_gone_is_never_taken_for_an_object_that_is(server: Socket, edge: Edge) -> None:
    server.answers = [answer(status="404 Not Found")]
    apis = open_apis({CLUSTER: ClusterSettings()}, edge, GoogleAccount(Credentials.ANONYMOUS))

    with pytest.raises(ClusterNotFound):
        KubernetesCluster(apis[CLUSTER]).get_workload("JobSet", "team-a", "train")
