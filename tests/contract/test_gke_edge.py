"""Our GKE edge and the official client against one control plane: the same world, the same errors.

What every implementation of the port keeps, the fake of the component tests too, is in
`test_node_pools_port`. The rows are the errors that an idempotent caller must tell apart:
https://cloud.google.com/kubernetes-engine/docs/troubleshooting/concurrent-operations and public
issue threads.
"""

from typing import Any

import pytest

from shared.model import labels
from shared.model.errors import NotFound, Unavailable
from shared.model.pools import PoolStatus
from tests.builders import CLUSTER, settings
from tests.contract.gke_world import Gke, LeapingClock, a_body, lost, open_edge
from tests.contract.test_google_calls_once import CALLS


@pytest.mark.parametrize("how", ["drop", "unavailable", "deadline"])
def test_a_lost_reply_is_unavailable_and_sent_once_and_the_pool_is_there(gke: Gke, how: str) -> None:
    body = a_body()
    lost(how)(gke, body["name"])
    with pytest.raises(Unavailable):
        gke.edge.create(CLUSTER, body)

    assert gke.calls(body["name"], "CreateNodePool") == 1
    found = gke.edge.get(CLUSTER, body["name"])
    assert found is not None
    assert found.status == PoolStatus.PROVISIONING


def test_a_control_plane_out_of_reach_is_unavailable() -> None:
    edge = open_edge("http://127.0.0.1:9")

    for call in (lambda: edge.list(CLUSTER), lambda: edge.get(CLUSTER, "n"), lambda: edge.delete(CLUSTER, "n")):
        with pytest.raises(Unavailable):
            call()


def test_an_answer_that_is_no_json_is_unavailable(gke: Gke) -> None:
    edge = open_edge(f"{gke.url}/admin/pools?")

    with pytest.raises(Unavailable, match="cannot be read"):
        edge.get(CLUSTER, "n")


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"selectors": {labels.SPOT: "true"}},
        {"selectors": {labels.RESERVATION_NAME: "r"}},
        {"selectors": {labels.RESERVATION_NAME: "r", labels.RESERVATION_PROJECT: "other-project"}},
        {"topology": "2x4", "chips": 8},
        {"accelerator": "tpu7x", "topology": "2x2x2"},
    ],
)
def test_every_kind_of_body_is_accepted_and_read_alike_by_the_official_client(
    gke: Gke, shape: dict[str, Any]
) -> None:
    body = a_body(settings(allowed_reservations=("r", "other-project/r")), **shape)
    gke.edge.create(CLUSTER, body)
    ours = gke.edge.get(CLUSTER, body["name"])
    theirs = gke.official.get_node_pool(name=f"{CLUSTER}/nodePools/{body['name']}")

    assert ours is not None
    assert ours.labels == dict(theirs.config.labels) == body["config"]["labels"]
    assert ours.node_count == theirs.initial_node_count == body["initialNodeCount"]
    assert ours.machine_type == theirs.config.machine_type == body["config"]["machineType"]
    assert ours.topology == body.get("placementPolicy", {}).get("tpuTopology", "")
    assert (str(ours.status), ours.gpus_per_node) == (theirs.status.name, 0)


def test_not_found_on_create_is_never_taken_for_success(gke: Gke) -> None:
    gke.fault("fail_sync", code="NOT_FOUND", text='Not found: node pool "n" not found.')
    with pytest.raises(NotFound):
        gke.edge.create(CLUSTER, a_body())


@pytest.mark.parametrize("step", [20.0, -60.0])
@pytest.mark.parametrize("act", ["create", "delete", "raise_maximum", "lower_maximum"])
def test_what_rests_on_a_look_is_not_sent_late(act: str, step: float) -> None:
    """Nothing listens there: what is sent fails with other words."""
    edge = open_edge("http://127.0.0.1:9", LeapingClock(step))

    with pytest.raises(Unavailable, match="not sent"):
        CALLS[act](edge)
    with pytest.raises(Unavailable, match="refused"):
        edge.get(CLUSTER, "p")
