"""The end of a node pool operation wakes the slice that waits for the pool, and does no more."""

from collections import Counter
from typing import Any
from unittest.mock import Mock

import pytest

from shared.core.errors import Denied
from shared.core.identity.names import build_pool_name
from shared.core.identity.pools import PoolStatus
from shared.core.messages import Message
from shared.core.workloads import PodView, WorkloadView
from tests.audit_entries import STOCKOUT, an_entry, as_message
from tests.builders import CLUSTER, NOW, a_claim, a_foreign_pool, a_jobset, a_pod, a_pool
from tests.component.world import NAME, World, claim_of, name_of, slice_name

OTHER_CLAIM = build_pool_name(a_claim(owner_uid="another"))
FAILED = an_entry(status=STOCKOUT)
DELETED = an_entry("Delete")
CREATED = an_entry()
LEFT = ("wait", "pool_gone")
"""What is said of a slice without a pool, which the sweep answers."""
FRESH = NOW - 1
"""A leader that waits since then is answered by its own message, and not for a free place."""


def settle(world: World, entry: object) -> int:
    return world.deliver(as_message(entry), "settle").status


def add_old_pool(world: World, status: str, **overrides: Any) -> None:
    """Add a pool whose leader has waited since before it was made; a pause after it is over."""
    world.cluster.add(a_pod(created_at=NOW - 91))
    world.pools.add(CLUSTER, a_pool(status, age_seconds=90, **overrides))


def test_a_failed_create_is_answered_at_once_as_by_provision(world: World) -> None:
    world.pools.add(CLUSTER, a_pool("ERROR", error="[GCE_STOCKOUT]"))

    assert settle(world, FAILED) == 200
    assert world.pools.count("delete") == 0, "it is the record of the failure"
    assert world.says() == ("wait", "stockout")
    assert world.last["function"] == "settle"
    assert world.notices() == [("JobSet", "NodePoolCreationFailed", True), ("Pod", "NodePoolCreationFailed", True)]


@pytest.mark.parametrize("attempt", [0, 41])
def test_the_end_of_a_delete_looks_at_the_slice_and_leaves_the_create_to_the_sweep(
    world: World, attempt: int
) -> None:
    """The creation of the pool may have failed, and only the sweep can know that."""
    assert settle(world, an_entry("Delete", pool=name_of(attempt))) == 200
    assert world.pools.calls == [("list", "")]
    assert (world.says(), world.notices()) == (LEFT, [])

    world.sweep()
    assert world.expect_one_pool() == NAME


def test_only_the_slice_of_the_name_is_answered_and_no_workload_of_another_name_is_read(world: World) -> None:
    world.cluster.add(
        a_pod(index=1, uid="of-slice-1", unschedulable_since=FRESH),
        a_pod(jobset="train-workers", uid="of-train-workers", unschedulable_since=FRESH),
        a_jobset(name="train-workers"),
        a_pod(namespace="other", uid="of-other", unschedulable_since=FRESH),
        a_jobset(namespace="other"),
        a_pod(jobset="serve", uid="of-serve", unschedulable_since=FRESH),
        a_jobset(name="serve"),
    )
    live = Mock(wraps=world.cluster.get_workload)
    world.cluster.get_workload = live  # type: ignore[method-assign]

    assert settle(world, DELETED) == 200
    assert world.pools.calls == [("list", "")]
    assert world.last["claim"]["name"] == "train"
    assert "serve" not in {each.args[2] for each in live.call_args_list}


def test_a_success_is_told_to_the_workload_and_its_leader(world: World) -> None:
    world.pools.add(CLUSTER, a_pool())
    others = {"uid": "of-slice-1", "index": 1}, {"uid": "of-other", "namespace": "other"}
    world.cluster.add(*(a_pod(**each, unschedulable_since=FRESH) for each in others))

    assert settle(world, CREATED) == 200
    assert world.pools.calls == [("list", "")]
    assert world.says() == ("keep", "pool_created")
    assert world.last["claim"]["name"] == "train"
    assert [(each.kind, each.name, each.reason, each.message) for each in world.cluster.notices] == [
        ("JobSet", "train", "NodePoolCreationSucceeded", f"GKE has created node pool {NAME} [pool_created]"),
        (
            "Pod",
            "train-workers-0-0-abcde",
            "NodePoolCreationSucceeded",
            f"GKE has created node pool {NAME} [pool_created]",
        ),
    ]


@pytest.mark.parametrize(
    ("changed", "told"),
    [(a_pod(node_name="n-0"), ["JobSet"]), (a_jobset(uid="another"), [])],
    ids=["its leader has a node", "another workload of the name"],
)
def test_a_success_is_told_to_nobody_else(world: World, changed: PodView | WorkloadView, told: list[str]) -> None:
    world.pools.add(CLUSTER, a_pool())
    world.cluster.add(changed)

    assert settle(world, CREATED) == 200
    assert [each.kind for each in world.cluster.notices] == told


def test_the_successes_of_one_workload_share_one_list_and_none_reads_all_of_its_pods(world: World) -> None:
    """A JobSet has up to 500 slices of many pods each."""
    world.share_reads()
    world.cluster.begin = Mock(wraps=world.cluster.begin)  # type: ignore[method-assign]
    world.add_slices(20, unschedulable_since=FRESH)
    for index in range(20):
        world.pools.add(CLUSTER, a_pool(claim=claim_of(index)))
        assert settle(world, an_entry(pool=slice_name(index))) == 200

    asked = Counter(each.args[0] for each in world.cluster.begin.call_args_list)
    assert (asked["list_workload_pods"], asked["list_waiting_leaders"], asked["get_workload"]) == (0, 1, 20)
    assert Counter(each.kind for each in world.cluster.notices)["Pod"] == 20


@pytest.mark.parametrize(
    ("pool", "says"),
    [
        (None, ("wait", "pool_gone")),
        (a_pool("ERROR", reserved=True), ("delete", "pool_failed")),
        (a_pool("PROVISIONING"), ("wait", "pool_in_progress")),
        (a_foreign_pool(NAME), ("refuse", "foreign_labels")),
    ],
)
def test_a_success_that_the_pool_does_not_bear_out_is_a_hint_to_look(
    world: World, pool: Any, says: tuple[str, str]
) -> None:
    if pool is not None:
        world.pools.add(CLUSTER, pool)

    assert settle(world, CREATED) == 200
    assert world.says() == says
    assert "NodePoolCreationSucceeded" not in {each.reason for each in world.cluster.notices}


@pytest.mark.parametrize(
    "entry",
    [
        an_entry(last=False),
        an_entry("Update"),
        an_entry(cluster="projects/p/locations/us-east5/clusters/of-others"),
        {"resource": {"type": "k8s_cluster"}, "textPayload": "of another log"},
    ],
)
def test_what_is_not_ours_is_acknowledged_without_any_call(world: World, entry: object) -> None:
    world.cluster.before_next("list_waiting_leaders", lambda: pytest.fail("a call"))

    assert settle(world, entry) == 200
    assert world.says() == ("nothing", "entry_not_ours")
    assert world.pools.calls == []
    assert "event_data" not in world.last


@pytest.mark.parametrize(
    ("entry", "pods", "reason"),
    [
        (FAILED, [], "demand_gone"),
        (DELETED, [], "demand_gone"),
        (an_entry("Delete", pool=OTHER_CLAIM), [a_pod(unschedulable_since=FRESH)], "demand_gone"),
        (DELETED, [a_pod(unschedulable=False)], "demand_not_unschedulable"),
    ],
    ids=["no leader of a failed one", "no leader of a deleted one", "another claim", "a node was found"],
)
def test_where_no_leader_waits_for_the_pool_nothing_is_done(
    world: World, entry: object, pods: list[PodView], reason: str
) -> None:
    world.pools.add(CLUSTER, a_pool("ERROR"))
    world.cluster.pods.clear()
    world.cluster.add(*pods)

    assert settle(world, entry) == 200
    assert world.says() == ("nothing", reason)
    assert world.pools.calls == []


@pytest.mark.parametrize("data", [b"?", b"[]", b'{"resource": 1}'])
def test_what_can_never_be_read_is_acknowledged_and_logged(world: World, data: bytes) -> None:
    assert world.deliver(Message(data, {}), "settle").status == 200

    assert world.last["event_data"] == data.decode()
    assert (world.last["reason"], world.last["function"]) == ("event_malformed", "settle")


@pytest.mark.parametrize(
    ("entry", "method"),
    [
        *((DELETED, method) for method in ("list_waiting_leaders", "get_pod", "get_workload")),
        *((CREATED, method) for method in ("list_waiting_leaders", "get_workload", "list")),
        *(
            (FAILED, method)
            for method in ("get_namespace", "list_pool_nodes", "list_pool_pods", "create", "delete")
        ),
    ],
)
def test_without_this_right_the_entry_comes_back_and_the_log_is_loud(
    world: World, entry: object, method: str
) -> None:
    if entry is not DELETED:
        add_old_pool(world, "RUNNING" if entry is CREATED else "ERROR", reserved=method == "delete")
    (world.pools if method in ("list", "create", "delete") else world.cluster).fail_next(method, Denied("no"))

    assert settle(world, entry) == 500
    assert (world.says(), world.last["severity"]) == (("none", "permission_denied"), "CRITICAL")
    assert [pool.status for pool in world.pools.pools.values()].count(PoolStatus.STOPPING) == 0
    assert world.pools.bodies == []


@pytest.mark.parametrize("kinds", [("JobSet",), ("Job",)])
def test_a_kind_that_is_not_served_is_neither_read_nor_told(world: World, kinds: tuple[str, ...]) -> None:
    world.use(kinds=kinds)
    world.pools.add(CLUSTER, a_pool())
    if kinds == ("Job",):
        world.cluster.before_next("get_workload", lambda: pytest.fail("it is not served"))

    assert settle(world, CREATED) == 200
    assert bool(world.notices()) == (kinds == ("JobSet",))
