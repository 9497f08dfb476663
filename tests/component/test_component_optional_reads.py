"""Reads that only tell more, of what keeps a pool empty: bounded, and an error stops nothing."""

import pytest

from shared.capacity_lists import read_policies
from shared.core.errors import Denied, NotFound, ProvisionerError, Throttled, Unavailable
from shared.core.ports import Machines
from shared.engine.looks.limited_ports import READS_MAX, OptionalReads
from tests.builders import CLUSTER, NOW, a_pod
from tests.component.empty_pools import POLICY, begin, status
from tests.component.looks import by_sweep
from tests.component.world import World, name_of


@pytest.fixture(autouse=True)
def _listed(world: World) -> None:
    world.use(capacity_policies=read_policies(POLICY))
    world.cluster.add(a_pod(unschedulable_since=NOW - 20))


def begin_two(world: World) -> None:
    """Let two slices wait, each with an empty pool."""
    begin(world)
    world.cluster.add(a_pod(index=1, uid="second", unschedulable_since=NOW - 20))
    by_sweep(world)  # creates the second pool
    (second,) = set(world.pools.names(CLUSTER)) - {name_of(0)}
    world.pools.move(CLUSTER, second, "RUNNING")
    world.clock.advance(60)
    world.pools.calls.clear()


@pytest.mark.parametrize("error", [Denied("403"), NotFound("404"), Unavailable("503"), Throttled("429")], ids=str)
def test_an_error_of_the_groups_stops_no_answer(world: World, error: ProvisionerError) -> None:
    begin(world)
    world.pools.fail_next("read_machines", error)
    by_sweep(world)

    world.records.expect_in_order({"decision": "wait", "reason": "pool_in_progress", "pool": name_of(0)})
    (logged,) = [each for each in world.records.found if each.get("error") == str(error)]
    assert logged["message"] == "what keeps a node pool empty could not be read"


@pytest.mark.parametrize(("error", "reads"), [(Denied("403"), 1), (Throttled("429"), 1), (Unavailable("503"), 2)])
def test_what_is_refused_once_is_not_asked_again_in_this_sweep(
    world: World, error: ProvisionerError, reads: int
) -> None:
    begin_two(world)
    for _ in range(reads):
        world.pools.fail_next("read_machines", error)
    by_sweep(world)

    assert world.pools.count("read_machines") == reads
    assert len([each for each in world.records.found if each.get("error") == str(error)]) == reads
    world.pools.calls.clear()
    by_sweep(world)  # asks anew
    assert world.pools.count("read_machines") == 2


def test_a_429_of_compute_engine_stops_no_call_to_gke(world: World) -> None:
    begin(world)
    world.cluster.add(a_pod(index=1, uid="second", unschedulable_since=NOW - 20))
    world.pools.fail_next("read_machines", Throttled("429", retry_after_seconds=600))
    by_sweep(world)

    assert len(world.pools.names(CLUSTER)) == 2


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


@pytest.mark.parametrize(("seconds", "left"), [(890.0, False), (910.0, True)])
def test_without_both_rights_a_time_leaves_an_empty_pool_and_one_record_names_each(
    world: World, seconds: float, left: bool
) -> None:
    begin(world, seconds=seconds)
    world.pools.fail_next("read_machines", Denied("Required 'compute.instanceGroupManagers.get' permission"))
    world.cluster.fail_next("list_scale_ups", Denied("cannot list resource events"))
    by_sweep(world)

    assert status(world, 0) == ("STOPPING" if left else "RUNNING")
    told = [each for each in world.records.found if "keeps a node pool empty could not be" in each["message"]]
    assert sorted(each["error"] for each in told) == [
        "Required 'compute.instanceGroupManagers.get' permission",
        "cannot list resource events",
    ]
