"""Pools that GKE creates with their nodes: its words meanwhile are told, and end a round early."""

import dataclasses
from typing import Any

import pytest

from shared.capacity_lists import read_policies
from shared.core import labels
from shared.core.errors import Denied, NotFound, ProvisionerError, Throttled, Unavailable
from shared.core.identity.creations import Creation
from shared.core.identity.pools import PoolStatus
from shared.core.ports import FillError, Machines
from shared.engine.looks.limited_ports import READS_MAX, OptionalReads
from tests.builders import CLUSTER, NOW, a_jobset, a_pod
from tests.component.fake_queues import FakeQueues, reserve_quota, run
from tests.component.looks import by_message, by_sweep
from tests.component.world import World, slice_name

STOCKOUT = (
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS: The zone 'projects/p/zones/us-east5-b' does not have enough "
    "resources available to fulfill the request."
)
POLICY = "CONDITION_NOT_MET: Constraint constraints/compute.vmExternalIpAccess violated"
FIRST, SECOND = (slice_name(index) for index in range(2))
LACKS = f"node pool {SECOND} is being created and lacks nodes since 2027-01-15T08:00:00Z: no capacity"
UNTIL = "GKE tries again until 2027-01-15T08:35:00Z"


def refuse(
    world: World, name: str, message: str = STOCKOUT, *, at: float | None = NOW + 30, **machines: Any
) -> None:
    """Let the instance group of a pool report why it has no machines."""
    world.pools.machines[name] = Machines(errors=(FillError(message, at),), **machines)


def messages(world: World) -> str:
    return "\n".join(each.message for each in world.cluster.notices)


# --- a leader that waits --------------------------------------------------------------------------


def begin(world: World, *, seconds: float = 60.0) -> None:
    """Let GKE create the pool of the first slice, whose leader waits for it."""
    world.cluster.add(a_pod(unschedulable_since=NOW - 20))
    by_message(world)
    refuse(world, FIRST)
    world.clock.advance(seconds)


def test_the_owner_is_told_at_the_next_sweep_why_since_when_and_until_when_and_in_the_same_words_later(
    world: World,
) -> None:
    """Meanwhile GKE lists only its last errors."""
    begin(world)
    for _ in range(3):
        by_sweep(world)
        world.clock.advance(60)
        refuse(world, FIRST, at=world.clock.now() - 5)

    told = [each for each in world.cluster.notices if each.reason == "NodePoolCreationFailed"]
    assert {each.kind for each in told} == {"JobSet", "Pod"}
    (words,) = {each.message for each in told}
    assert f"node pool {FIRST} is being created and lacks nodes since 2027-01-15T08:00:00Z" in words
    assert STOCKOUT in words
    assert UNTIL in words
    world.records.expect_in_order({"decision": "wait", "reason": "stockout", "pool": FIRST})
    assert [str(pool.status) for pool in world.pools.pools.values()] == ["PROVISIONING"]


def test_the_groups_are_read_once_in_a_sweep_and_by_no_message(world: World) -> None:
    begin(world)
    by_message(world)
    assert world.pools.count("read_machines") == 0

    for _ in range(2):
        by_sweep(world)
    assert world.pools.count("read_machines") == 2


def test_the_groups_of_a_pool_whose_age_label_a_person_removed_are_read(world: World) -> None:
    begin(world)
    pool = world.pools.pools[CLUSTER, FIRST]
    left = {key: value for key, value in pool.labels.items() if key != labels.CREATED_AT}
    world.pools.add(CLUSTER, dataclasses.replace(pool, labels=left))
    by_sweep(world)

    assert "[stockout]" in messages(world)


@pytest.mark.parametrize(
    ("seconds", "changes"),
    [
        pytest.param(29.0, {}, id="young"),
        pytest.param(60.0, {"autoscaled": True}, id="autoscaled"),
        *((60.0, {"status": PoolStatus(each)}) for each in ("RUNNING", "STOPPING", "RECONCILING")),
    ],
)
def test_only_pools_that_gke_is_creating_with_their_nodes_are_read(
    world: World, seconds: float, changes: dict[str, Any]
) -> None:
    begin(world, seconds=seconds)
    world.pools.add(CLUSTER, dataclasses.replace(world.pools.pools[CLUSTER, FIRST], **changes))
    by_sweep(world)

    assert world.pools.count("read_machines") == 0
    assert STOCKOUT not in messages(world)


@pytest.mark.parametrize("error", [Denied("403"), NotFound("404"), Unavailable("503"), Throttled("429")], ids=str)
def test_an_error_of_the_groups_stops_no_answer(world: World, error: ProvisionerError) -> None:
    begin(world, seconds=400)
    world.pools.fail_next("read_machines", error)
    by_sweep(world)

    world.records.expect_in_order({"decision": "wait", "reason": "pool_in_progress", "pool": FIRST})
    (logged,) = [each for each in world.records.found if each.get("error") == str(error)]
    assert logged["message"] == "what keeps a node pool empty could not be read"


@pytest.mark.parametrize(("error", "reads"), [(Denied("403"), 1), (Throttled("429"), 1), (Unavailable("503"), 2)])
def test_what_is_refused_once_is_not_asked_again_in_this_sweep(
    world: World, error: ProvisionerError, reads: int
) -> None:
    begin(world)
    world.cluster.add(a_pod(index=1, uid="second", unschedulable_since=NOW - 20))
    by_sweep(world)  # creates the second pool
    world.clock.advance(60)
    world.pools.calls.clear()
    for _ in range(reads):
        world.pools.fail_next("read_machines", error)
    by_sweep(world)

    assert world.pools.count("read_machines") == reads
    assert len([each for each in world.records.found if each.get("error") == str(error)]) == reads
    world.pools.calls.clear()
    refuse(world, SECOND)
    by_sweep(world)  # asks anew
    assert world.pools.count("read_machines") == 2


def test_a_429_of_compute_engine_stops_no_call_to_gke(world: World) -> None:
    begin(world)
    world.cluster.add(a_pod(index=1, uid="second", unschedulable_since=NOW - 20))
    world.pools.fail_next("read_machines", Throttled("429", retry_after_seconds=600))
    by_sweep(world)

    assert world.pools.names(CLUSTER) == [FIRST, SECOND]


def test_a_sweep_reads_a_bounded_number_of_pools() -> None:
    class Port:
        asked = 0

        def read_machines(self) -> Machines:
            self.asked += 1
            return Machines()

    port = Port()
    reads = OptionalReads(port, "read_machines")
    assert [reads.read_machines() is not None for _ in range(READS_MAX + 2)] == [True] * READS_MAX + [False] * 2
    assert port.asked == READS_MAX
    assert reads.asked == READS_MAX


def test_another_shape_that_gke_still_creates_is_told_as_such(world: World) -> None:
    begin(world, seconds=400)
    pool = world.pools.pools[CLUSTER, FIRST]
    differs = pool.labels | {labels.FINGERPRINT: pool.labels[labels.FINGERPRINT].partition("-")[0] + "-0000000000"}
    world.pools.add(CLUSTER, dataclasses.replace(pool, labels=differs))
    by_sweep(world)

    world.records.expect_in_order({"reason": "pool_in_progress_differs"})


@pytest.mark.parametrize(("seconds", "left"), [(890.0, False), (910.0, True)])
def test_without_both_rights_a_time_leaves_an_empty_pool_and_one_record_names_each(
    world: World, seconds: float, left: bool
) -> None:
    world.use(capacity_policies=read_policies("[{priorities: [{}, {location: {zones: [us-east5-a]}}]}]"))
    begin(world, seconds=seconds)
    world.pools.move(CLUSTER, FIRST, "RUNNING")
    world.pools.fail_next("read_machines", Denied("Required 'compute.instanceGroupManagers.get' permission"))
    world.cluster.fail_next("list_scale_ups", Denied("cannot list resource events"))
    by_sweep(world)

    assert status(world, FIRST) == ("STOPPING" if left else "RUNNING")
    told = [each for each in world.records.found if "keeps a node pool empty could not be" in each["message"]]
    assert sorted(each["error"] for each in told) == [
        "Required 'compute.instanceGroupManagers.get' permission",
        "cannot list resource events",
    ]


def lose(world: World, name: str) -> None:
    world.pools.move(CLUSTER, name, "gone")
    world.pools.creations[CLUSTER, name] = Creation(pool=name, ended=True)


def status(world: World, name: str) -> str:
    found = world.pools.pools.get((CLUSTER, name))
    return str(found.status) if found else "gone"


# --- Kueue's check --------------------------------------------------------------------------------


@pytest.fixture
def queues(world: World) -> FakeQueues:
    """A JobSet of two slices has quota, and GKE is creating both pools."""
    world.use(kueue_admission_check=True)
    world.cluster.pods.clear()
    found = reserve_quota(world, a_jobset(replicas=2, suspended=True))
    by_sweep(world)
    world.clock.advance(60)
    refuse(world, SECOND)
    return found


def test_kueue_gets_the_quota_back_when_gke_finds_no_capacity_for_one_slice(
    world: World, queues: FakeQueues
) -> None:
    run(world, FIRST)
    by_sweep(world)

    state = queues.state("train")
    assert state.state == "Retry"
    assert f"1 of 2 slices have their node pools; train-workers-1: {LACKS}" in state.message
    assert state.message in messages(world) + " [gang_incomplete]"
    assert queues.retry_seconds is not None
    assert 60 <= queues.retry_seconds <= 75


def test_kueues_later_rounds_create_nothing_while_gke_still_tries(world: World, queues: FakeQueues) -> None:
    run(world, FIRST)
    by_sweep(world)
    lose(world, FIRST)
    world.clock.advance(80)
    queues.reserve(a_jobset(replicas=2, suspended=True), at=world.clock.now(), retries=1)
    for _ in range(3):
        by_sweep(world)
        world.clock.advance(60)

    state = queues.state("train")
    assert state.state == "Pending"
    assert "nothing is created for the other slices meanwhile [stockout]" in state.message
    assert "nothing is created for the other slices meanwhile" in messages(world)
    assert world.pools.names(CLUSTER) == [SECOND]

    run(world, SECOND)
    by_sweep(world)
    assert world.pools.names(CLUSTER) == [SECOND, FIRST]
    run(world, FIRST)
    by_sweep(world)
    assert queues.follow("train") == "Ready"
