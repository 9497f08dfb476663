"""Each sweep tells what waits for capacity, what is paid for and idle, and what is autoscaled."""

from typing import Any

import pytest

from shared.core.errors import Busy, Denied, ProvisionerError, Unavailable
from shared.core.identity.names import build_pool_name
from shared.core.identity.pools import PoolSnapshot, PoolStatus
from tests.builders import CLUSTER, NOW, a_foreign_pool, a_jobset, a_pod, a_pool, a_template
from tests.component.fake_queues import reserve_quota
from tests.component.test_component_elastic import Elastic, a_waiting_pod
from tests.component.world import NAME, OTHER, Records, World, claim_of, two_clusters

SECOND = claim_of(1)
CHIPS = 16
NOTHING = (0, 0.0, 0)


def measure(world: World, cluster: str = CLUSTER) -> tuple[int, float, int]:
    """Sweep once; return waiting demands, the seconds of the oldest one, and idle chips."""
    (told,) = measure_all(world, cluster)
    return told["waiting_demands"], told["oldest_wait_seconds"], told["idle_chips"]


def measure_all(world: World, cluster: str = CLUSTER) -> list[dict[str, Any]]:
    """Sweep once; return the records of one cluster."""
    world.records.found.clear()
    world.sweep()
    found = [each for each in world.records.found if each["message"] == "measured"]
    assert {each["function"] for each in found} <= {"sweep"}
    return [each for each in found if each["cluster"] == cluster]


def wait_since(world: World, seconds: float, *, index: int = 0) -> None:
    """Let the leader of a slice wait for so long."""
    world.cluster.add(a_pod(index=index, uid=f"pod-{index}", unschedulable_since=NOW - seconds))


def leave_pool(world: World, **workload: Any) -> None:
    """Let the workload be like this and have no pods, and its pool run."""
    world.cluster.pods.clear()
    world.pools.add(CLUSTER, a_pool(age_seconds=3000.0))
    world.cluster.nodes[NAME] = ["n0"]
    world.cluster.add(a_jobset(**workload))


def test_zero_is_told_too(world: World) -> None:
    world.cluster.pods.clear()

    assert measure(world) == NOTHING


def test_demands_are_counted_from_the_create_until_the_pool_runs(world: World) -> None:
    wait_since(world, 100)
    wait_since(world, 400, index=1)

    assert measure(world) == (2, 400.0, 0)
    world.clock.advance(60)
    assert measure(world) == (2, 460.0, 0)
    world.pools.move(CLUSTER, build_pool_name(SECOND), "RUNNING")
    assert measure(world) == (1, 160.0, CHIPS)
    world.pools.move(CLUSTER, NAME, "RUNNING")
    assert measure(world) == (0, 0.0, 2 * CHIPS)
    world.cluster.pods.clear()
    assert measure(world) == NOTHING


@pytest.mark.parametrize(
    "pool",
    [
        *(
            a_pool("ERROR", error=f"[{each}]")
            for each in ("GCE_STOCKOUT", "GCE_QUOTA_EXCEEDED", "PERMISSIONS_ERROR")
        ),
        a_pool("ERROR", error="violates constraint constraints/compute.x"),
        *(a_pool("ERROR", error="Internal error."), a_pool("ERROR", error="?")),
        *map(a_pool, ("PROVISIONING", "STOPPING", "RECONCILING")),
    ],
    ids=lambda pool: pool.error or str(pool.status),
)
def test_a_creation_that_failed_waits_whatever_follows_and_so_does_a_pool_that_gke_works_on(
    world: World, pool: PoolSnapshot
) -> None:
    wait_since(world, 3600)
    world.pools.add(CLUSTER, pool)

    assert measure(world) == (1, 3600.0, 0)


@pytest.mark.parametrize("waits", ["pods", "in Kueue's check"])
@pytest.mark.parametrize("overrides", [{"limit_chips": 8}, {"mode": "no-create"}, {"mode": "report-only"}])
def test_what_the_operator_forbids_does_not_wait_for_capacity(
    world: World, overrides: dict[str, Any], waits: str
) -> None:
    if waits == "in Kueue's check":
        put_queued(world, **overrides)
    else:
        wait_since(world, 3600)
        world.use(**overrides)

    assert measure(world) == NOTHING


def test_a_refused_manifest_does_not_wait_for_capacity(world: World) -> None:
    odd = a_template(topology="3x5")
    world.cluster.add(a_pod(template=odd, unschedulable_since=NOW - 3600), a_jobset(template=odd))

    assert measure(world) == NOTHING


@pytest.mark.parametrize("error", [Unavailable("no answer"), Denied("no right")])
def test_a_leader_that_cannot_be_answered_waits_and_a_pod_without_accelerators_does_not(
    world: World, error: ProvisionerError
) -> None:
    wait_since(world, 700)
    world.pools.fail_next("create", error)
    assert measure(world) == (1, 700.0, 0)

    plain = a_template(accelerator=None, topology=None, chips=0)
    world.cluster.add(a_pod(template=plain, unschedulable_since=NOW - 700))
    world.cluster.fail_next("get_workload", error)
    assert measure(world) == NOTHING


def test_the_pods_of_an_elastic_pool_are_one_demand_and_a_running_one_is_not_idle(world: World) -> None:
    elastic = Elastic(world, pods=2)
    world.cluster.add(a_waiting_pod("train-b"))
    world.pools.move(CLUSTER, elastic.pool, "PROVISIONING")
    assert measure(world) == (1, 60.0, 0)

    world.pools.move(CLUSTER, elastic.pool, "RUNNING")
    assert measure(world)[2] == 0


@pytest.mark.parametrize("used", [False, True])
def test_a_running_pool_beside_its_waiting_leader_is_idle_unless_others_use_it(
    world: World, *, used: bool
) -> None:
    """It is idle also when the pod does not fit."""
    wait_since(world, 3600)
    world.pools.add(CLUSTER, a_pool(age_seconds=3000.0))
    world.cluster.nodes[NAME] = ["n0", "n1", "n2", "n3"]
    if used:
        world.cluster.bind(NAME, workload="another")

    assert measure(world) == (0, 0.0, 0 if used else CHIPS)


@pytest.mark.parametrize(
    ("workload", "idle"),
    [
        ({}, 0),
        ({"suspended": True, "suspended_since": NOW - 10}, CHIPS),
        ({"suspended": True, "suspended_since": NOW - 900}, CHIPS),
        ({"terminal": "Completed", "terminal_since": NOW - 10}, CHIPS),
    ],
)
def test_the_pool_of_a_workload_that_is_over_or_suspended_is_idle_until_it_is_deleted(
    world: World, workload: dict[str, Any], idle: int
) -> None:
    leave_pool(world, **workload)

    assert measure(world) == (0, 0.0, idle)
    assert (world.pools.pools[CLUSTER, NAME].status == "STOPPING") == (world.pools.count("delete") == 1)
    if world.pools.count("delete"):
        assert measure(world) == NOTHING


@pytest.mark.parametrize(
    ("pod", "idle"),
    [({"workload": "another"}, 0), ({"deleting_since": NOW - 5}, 0), (None, CHIPS)],
    ids=["another's pod runs on it", "its own pod ends on it", "its deletion fails"],
)
def test_an_ended_workload_s_pool_that_stays_is_idle_without_pods(
    world: World, pod: dict[str, Any] | None, idle: int
) -> None:
    leave_pool(world, terminal="Completed", terminal_since=NOW - 10)
    if pod is None:
        world.pools.fail_next("delete", Busy("another operation"))
    else:
        world.cluster.bind(NAME, **pod)

    assert measure(world) == (0, 0.0, idle)


def test_clusters_are_told_apart_and_one_that_does_not_answer_tells_nothing(records: Records) -> None:
    world = two_clusters(records)
    wait_since(world, 50)
    world.pools.down_clusters[OTHER] = Unavailable("down")

    assert measure(world) == (1, 50.0, 0)
    assert measure_all(world, OTHER) == []
    world.pools.down_clusters.clear()
    assert measure(world, OTHER) == NOTHING


def expect_waits_until_both_pools_run(world: World) -> None:
    """Measure the two slices from the begin of their wait until the second pool runs."""
    assert measure(world) == (2, 0.0, 0)
    world.clock.advance(60)
    assert measure(world) == (2, 60.0, 0)
    world.pools.move(CLUSTER, build_pool_name(SECOND), "RUNNING")
    assert measure(world) == (1, 60.0, CHIPS)
    world.pools.move(CLUSTER, NAME, "RUNNING")
    assert measure(world) == (0, 0.0, 2 * CHIPS)


def put_queued(world: World, *, at: float = NOW, retries: int = 0, **overrides: Any) -> None:
    """Let the workload of two slices wait for our check of Kueue, which has reserved quota."""
    world.use(kueue_admission_check=True, **overrides)
    world.cluster.pods.clear()
    reserve_quota(world, a_jobset(suspended=True)).reserve(a_jobset(suspended=True), at=at, retries=retries)


def test_the_slices_of_a_workload_in_kueues_check_wait_from_the_quota_until_they_have_pools(world: World) -> None:
    put_queued(world)

    expect_waits_until_both_pools_run(world)


def test_a_workload_in_kueues_check_waits_without_the_right_to_create(world: World) -> None:
    put_queued(world)
    world.pools.fail_next("create", Denied("no right"))

    assert measure(world) == (2, 0.0, 0)


def test_autoscaled_pools_are_counted_those_of_others_too(world: World) -> None:
    world.cluster.pods.clear()
    (told,) = measure_all(world)
    assert told["autoscaled_pools"] == 0

    world.pools.add(CLUSTER, a_pool(autoscaled=True), a_pool(claim=SECOND), a_foreign_pool("theirs"))
    for at, status in enumerate(("RUNNING", "PROVISIONING", "ERROR")):
        world.pools.add(CLUSTER, a_foreign_pool(f"theirs-{at}", status=PoolStatus(status), autoscaled=True))

    (told,) = measure_all(world)
    assert told["autoscaled_pools"] == 4
