"""Networks that pods claim or select: GKE makes them if a machine has them, or refusals say so."""

from typing import Any

import pytest

from shared.model import labels
from shared.model.decisions import Reason
from shared.model.topology_terms import Requirement
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
    "container_gpus": (8,),
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


@pytest.mark.parametrize("how", ["selector", "any value"])
def test_the_profile_that_pods_select_is_what_the_nodes_have(how: str) -> None:
    selected = {"selectors": H100["selectors"] | PROFILE}
    shape = H100 | (selected if how == "selector" else {"node_affinity": {labels.NETWORK_PROFILE: ()}})

    assert networks(**shape) == (PROFILE, AUTO)


def test_a_selected_profile_is_used_instead_of_the_operator_s_networks() -> None:
    use = settings(node_additional_networks=("n:s",))

    assert networks(use, **H100 | {"selectors": H100["selectors"] | PROFILE}) == (PROFILE, AUTO)


def test_networks_that_the_pods_name_are_used_instead_of_the_profile() -> None:
    use, named = settings(allowed_node_networks=("*",)), {labels.ADDITIONAL_NODE_NETWORKS: "n:s"}
    shape = H100 | {"selectors": H100["selectors"] | PROFILE}

    assert networks(use, annotations=named, **shape) == (PROFILE, OWN)


@pytest.mark.parametrize(
    "wanted", [PROFILE, {"cloud.google.com/gke-networking-dra-driver": "true"}], ids=["profile", "driver"]
)
def test_a_machine_without_such_networks_is_refused(wanted: dict[str, str]) -> None:
    message = refusal(selectors=wanted)

    assert next(iter(wanted)) in message
    assert "remove this selector" in message


def test_another_value_of_the_profile_is_refused() -> None:
    assert labels.NETWORK_PROFILE in refusal(selectors={labels.NETWORK_PROFILE: "none"})


def test_a_label_that_is_spelled_like_the_profile_s_names_it() -> None:
    assert labels.NETWORK_PROFILE in refusal(selectors={"networks.gke.io/accelerator-network-profile": "auto"})


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
