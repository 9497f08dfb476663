"""Each demand older than the grace has an Event with its true reason, each failure its claim."""

import dataclasses
from typing import Any

import pytest

from shared.core import labels
from shared.core.errors import Busy, Denied, NotFound, ProvisionerError, Throttled, Unavailable
from shared.core.identity.creations import Creation
from shared.core.times import format_time
from tests.builders import CLUSTER, JOBSET_UID, NOW, POD_UID, a_jobset, a_pod, a_pool, a_workload_demand
from tests.component.test_component_elastic import GRACE
from tests.component.world import World

LONG = GRACE + 60.0
POOL = a_pool().name
CLAIM = {
    "cluster": CLUSTER,
    "kind": "JobSet",
    "namespace": "default",
    "name": "train",
    "owner_uid": JOBSET_UID,
    "slice": "train-workers-0",
}


def wait(world: World, *, seconds: float = LONG) -> None:
    """Let the leader of the plain case wait since then."""
    world.cluster.add(a_pod(unschedulable_since=NOW - seconds))


def told(world: World) -> set[tuple[str, str]]:
    """Return the object kind and our reason of each Event."""
    return {(each.kind, each.message.rpartition("[")[2].rstrip("]")) for each in world.cluster.notices}


@pytest.mark.parametrize("seconds", [60.0, LONG, -3600.0], ids=["young", "old", "a clock ahead"])
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NotFound("Not found: projects/p/zones/us-east5-b."), "view_stale"),
        (Busy("Cluster is running incompatible operation operation-1700-abc."), "gke_busy"),
        (Throttled("Quota exceeded for quota metric 'WriteRequests'"), "throttled"),
        (Unavailable("connection reset"), "unavailable"),
    ],
)
def test_a_create_that_fails_each_time_is_told_after_the_grace(
    world: World, error: ProvisionerError, reason: str, seconds: float
) -> None:
    wait(world, seconds=seconds)
    world.pools.fail_next("create", error)

    world.sweep()

    at_once = isinstance(error, Throttled)  # no operation of GKE tells it
    assert told(world) == ({("JobSet", reason), ("Pod", reason)} if at_once or seconds != 60.0 else set())
    assert not any("operation-1700" in each.message for each in world.cluster.notices)
    world.records.expect_in_order({"decision": "none", "reason": reason, "claim": CLAIM})


def test_a_workload_that_cannot_be_read_is_told_on_its_pod(world: World) -> None:
    wait(world)
    world.cluster.fail_next("get_workload", Unavailable("connection reset"))

    world.sweep()

    assert told(world) == {("Pod", "unavailable")}
    (found,) = world.records.expect_in_order({"decision": "none", "reason": "unavailable"})
    assert found["claim"]["name"] == "train"


GONE = "Not all instances running in IGM. Current errors: [GCE_STOCKOUT] of operation-1700-abc"
STARTED = format_time(NOW - 100)


@pytest.mark.parametrize(
    ("last", "reason", "words", "creates"),
    [
        (Creation(pool=POOL, ended=True, error=GONE), "pool_failed", "errors: [GCE_STOCKOUT] of operation);", 1),
        (Creation(pool=POOL, ended=True), "pool_absent", "before, but it no longer exists; creating", 1),
        (Creation(pool=POOL, ended=False, began_at=NOW - 100), "pool_in_progress", f"{POOL} since {STARTED},", 0),
        (Creation(pool=POOL, ended=False), "pool_in_progress", f"GKE creates node pool {POOL}, but", 0),
        (Creation(pool="another", ended=False), "pool_absent", "creating 4 x", 1),
    ],
)
def test_a_create_that_left_no_pool_is_told_as_gke_s_operation_says(
    world: World, last: Creation, reason: str, words: str, creates: int
) -> None:
    world.pools.creations[CLUSTER, last.pool] = last
    wait(world)

    world.sweep()

    assert told(world) == {("JobSet", reason), ("Pod", reason)}
    assert words in next(iter(world.cluster.notices)).message
    assert world.pools.count("create") == creates


def test_operations_are_listed_once_in_a_sweep_for_all_that_wait_without_a_pool(world: World) -> None:
    for index in range(3):
        world.cluster.add(a_pod(index=index, uid=f"{index}", unschedulable_since=NOW - LONG))

    world.sweep()

    assert world.pools.count("create") == 2  # the JobSet has two slices
    assert world.pools.count("list_creations") == 1


@pytest.mark.parametrize("error", [Denied("403"), Unavailable("connection reset")])
def test_without_the_right_to_list_operations_the_demand_is_answered_and_the_log_names_the_right(
    world: World, error: ProvisionerError
) -> None:
    wait(world)
    world.pools.fail_next("list_creations", error)

    assert world.sweep()[1]["errors"] == 0
    assert told(world) == {("JobSet", "pool_absent"), ("Pod", "pool_absent")}
    world.expect_one_pool()
    world.records.expect_in_order({"error": str(error), "permission": "container.operations.list"})


@pytest.mark.parametrize(("age_seconds", "is_told"), [(60.0, False), (LONG, True)])
def test_a_clock_that_is_an_hour_ahead_hides_no_wait(world: World, age_seconds: float, *, is_told: bool) -> None:
    """Then our own clock counts, which says how old the pool is."""
    wait(world, seconds=-3600)
    world.pools.add(CLUSTER, a_pool(age_seconds=age_seconds))
    world.sweep()

    words = "pod_unplaced" if is_told else "pool_serves"
    assert told(world) == {("JobSet", words), ("Pod", words)}


def test_a_failed_message_names_the_workload(world: World) -> None:
    world.cluster.fail_next("list_waiting_leaders", Unavailable("connection reset"))

    world.deliver(a_workload_demand())

    (found,) = world.records.expect_in_order({"decision": "none", "reason": "unavailable"})
    assert found["claim"] == {**CLAIM, "slice": ""}


SPOT = (
    "0/3 nodes are available: 1 Insufficient cpu, "
    "2 node(s) had untolerated taint {cloud.google.com/gke-spot: true}. "
    "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
)


def wait_beside_nodes(world: World, *nodes: str, says: str = SPOT) -> None:
    """Let the leader wait long beside its pool of these nodes, and the scheduler say why."""
    pool = a_pool(age_seconds=LONG)
    world.pools.add(CLUSTER, pool)
    world.cluster.nodes[pool.name] = list(nodes)
    world.cluster.add(a_pod(unschedulable_since=NOW - LONG, scheduler_message=says))


def test_a_pod_that_no_node_of_its_running_pool_takes_is_told_what_the_nodes_and_the_scheduler_say(
    world: World,
) -> None:
    wait_beside_nodes(world, "n0", "n1", "n2")

    world.sweep()

    (message,) = {each.message for each in world.cluster.notices}
    assert message == (
        f"node pool {POOL} runs, but this pod cannot run on it: 3 of 4 nodes exist; GKE adds those that are "
        "missing. The scheduler says: Insufficient cpu; node(s) had untolerated taint {cloud.google.com/gke-spot: "
        "true}; the pods need a toleration of the taint cloud.google.com/gke-spot; the pod requests more CPU than "
        "is free on a node of this machine type [pod_unplaced]"
    )
    world.records.expect_in_order({"decision": "wait", "reason": "pod_unplaced", "claim": CLAIM})


def test_without_the_nodes_the_scheduler_s_words_are_told(world: World) -> None:
    wait_beside_nodes(world, "n0")
    world.cluster.fail_next("list_pool_nodes", Denied("403"))

    assert world.sweep()[1]["errors"] == 0
    (message,) = {each.message for each in world.cluster.notices}
    assert "finds no place for this pod: Insufficient cpu; node(s) had untolerated taint" in message
    world.records.expect_in_order({"message": "the nodes of a node pool could not be read"})


def test_workers_that_wait_beside_a_placed_leader_are_told(world: World) -> None:
    world.cluster.pods.clear()
    world.pools.add(CLUSTER, a_pool(age_seconds=LONG))
    worker = {labels.COMPLETION_INDEX: "1"}
    world.cluster.add(
        a_pod(node_name="n0", phase="Running", unschedulable=False),
        a_pod(name="w1", uid="w1", pod_labels=worker, unschedulable_since=NOW - LONG, scheduler_message=SPOT),
    )

    world.sweep()

    assert told(world) == {("JobSet", "pod_unplaced"), ("Pod", "pod_unplaced")}


class KeptByForeignPods:
    """A pool of 64 hosts whose owner is gone; one pod of one chip keeps it."""

    def __init__(self, world: World, **foreign_pod: Any) -> None:
        world.cluster.empty()
        self.world, self.pool = world, a_pool(age_seconds=LONG, node_count=64)
        world.pools.add(CLUSTER, self.pool)
        plain = {"kind": "Deployment", "workload": "serving", "chips": 1, "created_at": NOW - LONG}
        world.cluster.bind(self.pool.name, **{**plain, **foreign_pod})
        world.cluster.add(dataclasses.replace(a_jobset(name="serving", uid="s"), kind="Deployment"))

    def told(self) -> list[tuple[str, str, str]]:
        return [(each.kind, each.name, each.reason) for each in self.world.cluster.notices]


def test_a_foreign_pod_is_told_which_pool_it_keeps_and_what_to_do(world: World) -> None:
    kept = KeptByForeignPods(world)

    world.sweep()
    world.clock.advance(60)
    world.sweep()

    assert kept.told() == [("Deployment", "serving", "NodePoolKept"), ("Pod", "serving-0", "NodePoolKept")]
    (message,) = {each.message for each in world.cluster.notices}
    assert message == (
        f"Deployment default/serving keeps node pool {kept.pool.name} (64 nodes, 256 chips or GPUs) with "
        f"1 chips or GPUs (pod serving-0, created at {format_time(NOW - LONG)}); JobSet default/train, for "
        "which the pool was created, does not need it any more, and the pool is deleted when these pods end. "
        "Delete them, or select a node label of their own for them, so that they run elsewhere [pool_in_use]"
    )
    assert {each.uid for each in world.cluster.notices} == {"s", "uid-of-serving-0"}
    assert world.pools.count("delete") == 0
    logged = {"decision": "keep", "reason": "pool_in_use", "pool": kept.pool.name, "claim": CLAIM}
    world.records.expect_in_order(logged)


@pytest.mark.parametrize("workload", ["", "serving"], ids=["no workload", "its workload cannot be read"])
def test_a_foreign_pod_of_no_known_workload_is_told_on_its_pod(world: World, workload: str) -> None:
    kept = KeptByForeignPods(world, workload=workload, created_at=None)
    if workload:  # the owner of the pool is read before
        world.cluster.fail_next("get_workload", Denied("403"), skip=2)

    assert world.sweep()[1]["errors"] == 0
    assert kept.told() == [("Pod", f"{workload or 'bare'}-0", "NodePoolKept")]
    if workload:
        world.records.expect_in_order({"message": "the workload that keeps a node pool could not be read"})


@pytest.mark.parametrize(
    "foreign_pod",
    [
        pytest.param({"chips": 0}, id="a pod without accelerators"),
        pytest.param({"deleting_since": NOW - 10_000}, id="a pod that does not end"),
    ],
)
def test_pods_that_keep_no_pool_are_not_told(world: World, foreign_pod: dict[str, Any]) -> None:
    kept = KeptByForeignPods(world, **foreign_pod)

    world.sweep()

    assert kept.told() == []
    assert world.pools.count("delete") == 1


def wait_for_another_shape(world: World, *, seconds: float = LONG) -> None:
    """Let the leader wait so long, and another workload hold its pool of an earlier shape."""
    world.pools.add(CLUSTER, a_pool(age_seconds=LONG, fingerprint="1-another"))
    world.cluster.bind(POOL, kind="Deployment", workload="serving")
    wait(world, seconds=seconds)


@pytest.mark.parametrize("seconds", [60.0, LONG])
def test_a_change_of_shape_while_another_workload_holds_the_old_pool_is_told_to_both(
    world: World, seconds: float
) -> None:
    world.use(replace_differing_pools=True)
    wait_for_another_shape(world, seconds=seconds)

    world.sweep()

    assert world.pools.count("delete") == world.pools.count("create") == 0
    message = (
        f"node pool {POOL} does not have the shape that the pods need; it is replaced as soon as no "
        "accelerator pods run on it: Deployment default/serving [pool_in_use]"
    )
    told_owner = {each.message for each in world.cluster.notices if each.uid in (JOBSET_UID, POD_UID)}
    assert told_owner == ({message} if seconds == LONG else set())
    (told_foreign_pod,) = {each.message for each in world.cluster.notices if each.name == "serving-0"}
    assert "JobSet default/train, for which the pool was created, does not need it any more" in told_foreign_pod


@pytest.mark.parametrize("status", ["PROVISIONING", "STOPPING", "RUNNING_WITH_ERROR", "STATUS_UNSPECIFIED"])
def test_what_a_demand_waits_for_is_told_by_the_sweep_when_its_message_was_lost(world: World, status: str) -> None:
    world.pools.add(CLUSTER, a_pool(status))
    wait(world, seconds=60)
    world.sweep()
    assert told(world) == set()

    wait(world)
    world.sweep()

    assert {kind for kind, _ in told(world)} == {"JobSet", "Pod"}
