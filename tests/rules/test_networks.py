"""Networks that pods claim or select: GKE makes them if a machine has them, or refusals say so."""

from typing import Any

import pytest

from shared.model import labels
from shared.model.decisions import Reason
from shared.model.workloads import Requirement
from shared.settings import Settings
from tests.builders import settings
from tests.demands import a_demand, a_pool_body
from tests.rules.asked_shapes import refuse_shape

OWN = {"additionalNodeNetworkConfigs": [{"network": "n", "subnetwork": "s"}]}


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


@pytest.mark.parametrize("key", [labels.NETWORK_PROFILE, "cloud.google.com/gke-networking-dra-driver"])
def test_a_machine_without_such_networks_is_refused_and_the_operator_s_are_used(key: str) -> None:
    message = refusal(selectors={key: "auto" if key == labels.NETWORK_PROFILE else "true"})

    assert key in message
    assert "remove this selector" in message
    assert networks(settings(node_additional_networks=("n:s",)))[1] == OWN


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
    assert labels.METADATA_SERVER in refusal(selectors={labels.METADATA_SERVER: "false"})
