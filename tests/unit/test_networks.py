"""Networks that pods claim or select: GKE makes them if a machine has them, or refusals say so."""

from typing import Any

import pytest

from shared.model import labels
from shared.model.decisions import Reason
from shared.model.workloads import Requirement
from shared.settings import Settings
from tests.builders import settings
from tests.demands import a_demand, a_pool_body
from tests.unit.asked_shapes import refuse_shape

AUTO = {"acceleratorNetworkProfile": "auto"}
OWN = {"additionalNodeNetworkConfigs": [{"network": "n", "subnetwork": "s"}]}
PROFILE = {labels.NETWORK_PROFILE: "auto"}
H100: dict[str, Any] = {
    "accelerator": None,
    "topology": None,
    "chips": 0,
    "gpus": 8,
    "selectors": {labels.GPU_ACCELERATOR: "nvidia-h100-80gb"},
}


def networks(use: Settings | None = None, **shape: Any) -> tuple[dict[str, str], Any]:
    """The labels and the networks of the pool for a pod."""
    chosen = use or settings()
    demand = a_demand(use=chosen, **shape)
    body = a_pool_body(demand, use=chosen)
    assert demand.node_labels.items() <= body["config"]["labels"].items()
    return demand.node_labels, body.get("networkConfig")


def refusal(use: Settings | None = None, **shape: Any) -> str:
    found = refuse_shape(use, **shape)
    assert found.reason == Reason.SELECTOR_UNSUPPORTED
    return found.message


def test_networks_of_the_operator_s_own_are_used() -> None:
    assert networks(settings(node_additional_networks=("n:s",)))[1] == OWN


@pytest.mark.parametrize(
    "wanted", [PROFILE, {"cloud.google.com/gke-networking-dra-driver": "true"}], ids=["profile", "driver"]
)
def test_a_machine_without_such_networks_is_refused(wanted: dict[str, str]) -> None:
    message = refusal(selectors=wanted)

    assert next(iter(wanted)) in message
    assert "remove this selector" in message


@pytest.mark.parametrize(
    "wanted",
    [
        {"selectors": {labels.METADATA_SERVER: "true"}},
        {"node_terms": ((Requirement(labels.METADATA_SERVER, "Exists"),),)},
    ],
)
def test_the_metadata_server_is_there_as_the_setting_says(wanted: dict[str, Any]) -> None:
    assert networks(**wanted) == ({}, None)
    assert "node_workload_identity" in refusal(settings(node_workload_identity=False), **wanted)


def test_nodes_without_the_metadata_server_are_refused() -> None:
    assert labels.METADATA_SERVER in refusal(selectors={labels.METADATA_SERVER: "false"})
