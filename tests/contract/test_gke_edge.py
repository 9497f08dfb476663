"""What the engine expects of GKE's node pools: our edge over the fake GKE.

The rows have the errors that an idempotent caller must tell apart:
https://cloud.google.com/kubernetes-engine/docs/troubleshooting/concurrent-operations and public
issue threads.
"""

from collections.abc import Callable
from typing import Any

import pytest

from shared.model import errors, labels
from shared.model.pools import Machines, NodePool
from tests.builders import CLUSTER, settings
from tests.contract.gke_world import NO_CLUSTER, Gke, LeapingClock, a_body, a_gpu_pool_body, open_edge
from tests.contract.test_google_calls_once import CALLS

Body = dict[str, Any]
ACTS: dict[str, Callable[[Gke, str, Body], object]] = {
    "create": lambda gke, cluster, body: gke.edge.create(cluster, body),
    "delete": lambda gke, cluster, body: gke.edge.delete(cluster, body["name"]),
    "raise": lambda gke, cluster, body: gke.edge.raise_maximum(cluster, body["name"], 5, least=5),
    "lower": lambda gke, cluster, body: gke.edge.lower_maximum(cluster, body["name"], 2),
    "close": lambda gke, cluster, body: gke.edge.lower_maximum(cluster, body["name"], 0),
    "get": lambda gke, cluster, body: gke.edge.get(cluster, body["name"]),
    "list": lambda gke, cluster, body: gke.edge.list(cluster),
}
QUOTA = {"code": "PERMISSION_DENIED", "text": "Insufficient quota", "reason": "INSUFFICIENT_QUOTA_REGIONAL"}
EVENTS: dict[str, Callable[[Gke], object]] = {
    "later": lambda gke: gke.advance(5000),
    "stockout": lambda gke: gke.fault("outcome", kind="stockout"),
    "quota": lambda gke: gke.fault("fail_sync", **QUOTA),
    "work": lambda gke: gke.fault("cluster_busy", seconds=60),
}
LIVES = {
    "from its create to its end": (
        "is absent; create; is PROVISIONING; later; is RUNNING; delete; is STOPPING; later; is absent"
    ),
    "deleted though it is absent": "delete; is absent; raise NotFound",
    "failed, with its name taken": (
        "stockout; create; later; is ERROR; create AlreadyExists; delete; later; create; is PROVISIONING"
    ),
    "running, with its name taken": "create; later; create AlreadyExists; is RUNNING",
    "under work of GKE": (
        "create; create Busy; delete Busy; raise Busy; later; "
        "delete; create Busy; delete Busy; raise Busy; is STOPPING"
    ),
    "refused by quota": "quota; create NoCapacity; is absent",
    "in a cluster on which GKE works, before": "work; create Busy; is absent",
    "in a cluster on which GKE works, after": "create; later; work; delete Busy; raise Busy; is RUNNING",
    "with a maximum": (
        "create; bound 3; later; raise; later; bound 5; lower; later; bound 2; close; later; bound none"
    ),
}
"""What is asked about one pool of GPUs, each with its error, and what happens meanwhile."""


def describe(pool: NodePool | None, what: str) -> str:
    if pool is None:
        return "absent"
    bound = str(pool.maximum) if pool.autoscaled else "none"
    return bound if what == "bound" else str(pool.status)


@pytest.mark.parametrize("steps", LIVES.values(), ids=LIVES)
def test_a_pool_lives_as_the_rules_expect(gke: Gke, steps: str) -> None:
    play_life(gke, steps)


def play_life(gke: Any, steps: str) -> None:
    """Let a pool of the fake GKE, or of the simulator's, live as steps say."""
    body = a_gpu_pool_body()
    for step in steps.split("; "):
        act, _, wanted = step.partition(" ")
        if act in EVENTS:
            EVENTS[act](gke)
        elif act in ACTS and wanted:
            with pytest.raises(getattr(errors, wanted)):
                ACTS[act](gke, CLUSTER, body)
        elif act in ACTS:
            ACTS[act](gke, CLUSTER, body)
        else:
            pool = gke.edge.get(CLUSTER, body["name"])
            assert describe(pool, act) == wanted, step
            assert (pool is not None) == (body["name"] in [each.name for each in gke.edge.list(CLUSTER)]), step


@pytest.mark.parametrize("call", ["create", "get", "list", "delete"])
def test_a_cluster_that_is_not_there_is_never_taken_for_an_empty_one(gke: Gke, call: str) -> None:
    with pytest.raises(errors.ClusterNotFound):
        ACTS[call](gke, NO_CLUSTER, a_body())


@pytest.mark.parametrize("error", ["", "GCE_STOCKOUT"])
def test_operations_are_listed_with_what_became_of_them(gke: Gke, error: str) -> None:
    if error:
        EVENTS["stockout"](gke)
    body = a_body()

    def find() -> list[tuple[bool, bool, bool]]:
        own = [each for each in gke.edge.list_operations(CLUSTER) if each.pool == body["name"]]
        assert all(each.began_at for each in own)
        return sorted((each.creates, each.ended, bool(each.error) and error in each.error) for each in own)

    assert find() == []
    gke.edge.create(CLUSTER, body)
    assert find() == [(True, False, False)]
    gke.advance(5000)
    assert find() == [(True, True, bool(error))]
    gke.edge.delete(CLUSTER, body["name"])
    assert find() == [(False, False, False), (True, True, bool(error))]


TIMES = {"gpuSharingConfig": {"gpuSharingStrategy": "TIME_SHARING", "maxSharedClientsPerGpu": "4"}}


@pytest.mark.parametrize(("sharing", "is_read"), [({}, ""), (TIMES, "/TIME_SHARING/4")])
def test_the_gpus_and_machines_of_a_pool_are_read(gke: Gke, sharing: Body, is_read: str) -> None:
    body = a_gpu_pool_body(sharing)
    gke.edge.create(CLUSTER, body)
    gke.advance(5000)
    pool = gke.edge.get(CLUSTER, body["name"])

    assert pool is not None
    assert (pool.gpus_per_node, gke.edge.read_machines(pool)) == (1, Machines(present=1))
    assert pool.sharing == is_read


def test_an_answer_that_is_no_json_is_unavailable(gke: Gke) -> None:
    with pytest.raises(errors.Unavailable, match="cannot be read"):
        open_edge(f"{gke.url}/admin/pools?").get(CLUSTER, "n")


SPOT, RESERVED = {labels.SPOT: "true"}, {labels.RESERVATION_NAME: "r"}


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"selectors": SPOT},
        {"selectors": RESERVED},
        {"selectors": RESERVED | {labels.RESERVATION_PROJECT: "other-project"}},
        {"topology": "2x4", "chips": 8},
        {"accelerator": "tpu7x", "topology": "2x2x2"},
        {"selectors": {labels.FLEX_START: "true"}},  # it starts empty, and limits count what it may grow to
    ],
)
def test_every_kind_of_body_is_accepted_and_read_as_it_was_sent(gke: Gke, shape: Body) -> None:
    body = a_body(settings(allowed_reservations=("r", "other-project/r")), **shape)
    gke.edge.create(CLUSTER, body)
    pool = gke.edge.get(CLUSTER, body["name"])

    assert pool is not None
    read = (pool.labels, pool.machine_type, pool.maximum, pool.gpus_per_node)
    maximum = body.get("autoscaling", {}).get("maxNodeCount", body["initialNodeCount"])
    assert read == (body["config"]["labels"], body["config"]["machineType"], maximum, 0)
    assert pool.owner is not None
    assert pool.topology == body.get("placementPolicy", {}).get("tpuTopology", "")


@pytest.mark.parametrize("step", [20.0, -60.0])
@pytest.mark.parametrize("act", ["create", "delete", "raise_maximum", "lower_maximum"])
def test_what_rests_on_a_look_is_not_sent_late(act: str, step: float) -> None:
    """Nothing listens there: what is sent fails with other words."""
    edge = open_edge("http://127.0.0.1:9", LeapingClock(step))

    with pytest.raises(errors.Unavailable, match="not sent"):
        CALLS[act](edge)
    with pytest.raises(errors.Unavailable, match="refused"):
        edge.get(CLUSTER, "p")
