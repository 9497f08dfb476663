"""Faults that the simulator has shown with pools that GKE's autoscaler fills."""

from dataclasses import replace
from unittest.mock import Mock

import pytest

from shared.capacity_lists import read_policies
from shared.core import labels
from shared.core.errors import NoPlace, Throttled, Unavailable
from shared.core.identity.names import build_owner_labels
from shared.core.ports import FillError, Machines
from shared.engine.looks.limit_holds import Limits, OwnHolds
from shared.engine.places import REMEMBERED_SECONDS, Places
from tests.builders import CLUSTER, NOW, a_claim, a_demand, a_demand_event, a_pod, a_pool
from tests.component.empty_pools import (
    POLICY,
    STOCKOUT,
    TOLD,
    begin,
    begin_refused,
    fill_at_next_creation,
    refuse,
    run_empty,
    status,
)
from tests.component.looks import by_message, by_sweep
from tests.component.test_component_needed_pools import HOSTS, JobSetWorld
from tests.component.world import Records, World, name_of, slice_name


@pytest.fixture(autouse=True)
def _listed(world: World) -> None:
    world.use(capacity_policies=read_policies(POLICY))
    world.cluster.add(a_pod(unschedulable_since=NOW - 20))


def test_a_clock_of_kubernetes_that_is_ahead_hides_no_error(world: World) -> None:
    """Seed 101 of the simulator: what the groups reported seemed older than the wait of the pod."""
    begin(world)
    world.cluster.add(a_pod(unschedulable_since=NOW + 3600))
    refuse(world)
    by_sweep(world)

    assert (status(world, 0), status(world, 1)) == ("STOPPING", "PROVISIONING")


def test_an_error_of_a_time_that_cannot_be_true_brings_no_pool_before_the_pause(world: World) -> None:
    begin_refused(world)
    by_sweep(world)
    run_empty(world, 1)
    world.clock.advance(30)
    world.cluster.scale_ups[a_pod().uid] = [FillError(TOLD.replace("east5-a", "east5-b"), NOW + 3700)]
    by_sweep(world)

    assert status(world, 1) == "RUNNING"


def test_a_limit_that_refuses_the_next_way_keeps_the_empty_pool(world: World) -> None:
    """Seed 305 of the simulator: it was deleted, and the list began with the same way again."""
    begin_refused(world)
    other = build_owner_labels(replace(a_claim(), name="other"), attempt=0, created_at=0, fingerprint="")
    world.pools.add(CLUSTER, replace(world.pools.pools[CLUSTER, name_of(0)], name="other", labels=other))
    world.use(capacity_policies=read_policies(POLICY), limit_chips=16)
    by_sweep(world)

    assert status(world, 0) == "RUNNING"
    assert "limit_chips" in str(world.cluster.notices)


def test_nobody_takes_the_room_of_an_empty_pool_before_the_next_way_has_it(world: World) -> None:
    """Seed 1019142 of the simulator: its deletion made room, and the list began anew, unpaused."""
    begin_refused(world)
    world.use(capacity_policies=read_policies(POLICY), limit_chips=16)
    other, plain = replace(a_demand(), claim=replace(a_claim(), name="other")), world.pools.delete

    def delete(cluster: str, name: str) -> None:
        plain(cluster, name)
        assert not isinstance(Limits(CLUSTER, world.ports).hold(other, "other"), OwnHolds)

    world.pools.delete = delete  # type: ignore[method-assign]
    by_sweep(world)

    assert (status(world, 0), status(world, 1)) == ("STOPPING", "PROVISIONING")


FULL = "hits the concurrent operations quota 4"


@pytest.mark.parametrize(
    ("refusal", "under_way", "seconds", "mode"),
    [
        pytest.param(FULL, 3, REMEMBERED_SECONDS + 1, "", id="its deletion takes the last place"),
        pytest.param("too many requests", 0, 1, "", id="another create was refused a moment ago"),
        pytest.param("", 0, 0, "no-create", id="an operator stops creates"),
    ],
)
def test_the_record_of_a_failure_stays_where_no_create_may_follow(
    world: World, refusal: str, under_way: int, seconds: float, mode: str
) -> None:
    """The list would begin anew without a pause (seed 8733873 with five operations at one time)."""
    begin_refused(world)
    places, refuse = Places(), Mock(side_effect=Throttled(refusal))
    if refusal:
        with pytest.raises(Throttled):
            places.send(refuse, CLUSTER, "other", [], now=world.clock.now() - seconds)
    world.pools.add(CLUSTER, *(a_pool("PROVISIONING", name=f"other-{at}") for at in range(under_way)))
    world.cluster.namespace_labels["tpu-provisioner"] = {labels.MODE: mode}
    world.ports = replace(world.ports, places=places)
    world.sweep()

    assert status(world, 0) == "RUNNING"
    assert len(world.pools.bodies) == 1


def test_gke_may_allow_more_operations_than_it_did() -> None:
    places, busy = Places(), [a_pool("PROVISIONING", name=f"other-{at}") for at in range(4)]
    with pytest.raises(Throttled):
        places.send(Mock(side_effect=Throttled(FULL)), CLUSTER, "first", [], now=NOW)
    later = NOW + REMEMBERED_SECONDS + 1
    with pytest.raises(NoPlace):
        places.is_sent(CLUSTER, "next", busy, now=later, frees=True)
    places.send(Mock(), CLUSTER, "second", busy, now=later)

    assert not places.is_sent(CLUSTER, "next", busy, now=later, frees=True)


@pytest.mark.parametrize("pods", [0, 1], ids=["all nodes", "a node with a pod"])
def test_a_failed_pool_whose_nodes_come_while_the_next_one_is_created_stays(world: World, pods: int) -> None:
    """Seed 1022814 of the simulator: the last look at the failed pool was before the create."""
    begin(world)
    world.pools.fail(CLUSTER, name_of(0), STOCKOUT)
    fill_at_next_creation(world, pods=pods)
    by_sweep(world)

    assert (status(world, 0), status(world, 1)) == ("ERROR", "PROVISIONING")


def test_of_two_empty_pools_one_goes_and_none_is_created(world: World) -> None:
    """Seed 1527 of the simulator: two messages began with two ways, and a third pool came."""
    begin(world)
    first = world.pools.pools[CLUSTER, name_of(0)]
    earlier = {**first.labels, labels.ATTEMPT: "1", labels.CREATED_AT: str(int(NOW - 1))}
    world.pools.add(CLUSTER, replace(first, name=name_of(1), labels=earlier))
    refuse(world)
    by_sweep(world)

    assert (status(world, 0), status(world, 1)) == ("STOPPING", "RUNNING")
    assert len(world.pools.bodies) == 1


def test_nodes_that_could_not_be_read_do_not_serve(world: World) -> None:
    """Seed 1156 of the simulator: an Event said that an empty pool serves."""
    begin(world, seconds=30)
    world.cluster.fail_next("list_pool_nodes", Unavailable("lost"))
    by_message(world)

    world.records.expect_in_order({"decision": "wait", "reason": "pool_in_progress", "pool": name_of(0)})
    assert "pool_serves" not in str(world.cluster.notices)


def test_a_message_that_reads_no_machines_deletes_no_pool(world: World) -> None:
    """Seed 1000958 of the simulator: the first machine was there, and only the sweep reads it."""
    begin(world, seconds=3000)
    world.pools.machines[name_of(0)] = Machines(made=1)
    by_message(world)

    assert status(world, 0) == "RUNNING"


def test_a_machine_that_comes_after_the_second_look_keeps_its_pool(world: World) -> None:
    """The limits, the owner, the pods, the proof and the stop are read before the last look."""
    begin_refused(world)
    made = Machines(made=1)
    world.pools.before_next("read_machines", lambda: world.pools.machines.update({name_of(0): made}), skip=2)
    by_sweep(world)

    assert status(world, 0) == "RUNNING"
    world.records.expect_in_order({"decision": "wait", "reason": "pool_in_progress", "pool": name_of(0)})


def test_only_the_deletion_comes_after_the_last_look(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    begin_refused(world)
    calls: list[str] = []
    monkeypatch.setattr(world.pools, "begin", calls.append)
    monkeypatch.setattr(world.cluster, "begin", calls.append)
    by_sweep(world)

    assert calls[calls.index("delete") - 1] == "read_machines"


def test_machines_that_cannot_be_read_again_keep_their_pool(world: World) -> None:
    begin_refused(world)

    world.pools.fail_next("read_machines", Unavailable("lost"), skip=2)
    by_sweep(world)

    assert status(world, 0) == "RUNNING"
    by_sweep(world)
    assert (status(world, 0), status(world, 1)) == ("STOPPING", "PROVISIONING")


def test_the_next_way_follows_beside_a_pool_that_another_slice_uses(records: Records) -> None:
    """Seed 3154 of the simulator: the list began with the same way for ever."""
    world, used = _let_another_slice_take_a_pool(records)
    _leave_empty(world, slice_name(1, 2))
    by_sweep(world)
    assert world.alive() == {used, slice_name(1, 3)}

    _leave_empty(world, slice_name(1, 3))
    by_sweep(world)
    assert world.alive() == {used, slice_name(1, 3)}
    records.expect_in_order({"decision": "wait", "reason": "stockout", "pool": slice_name(1, 3)})

    world.clock.advance(1000)
    by_sweep(world)
    assert world.alive() == {used, slice_name(1, 4)}


def test_the_next_way_follows_for_a_follower_beside_a_pool_that_another_slice_uses(records: Records) -> None:
    """Seed 7918631 of the simulator: only the pool that runs for the other slice was judged."""
    world, used = _let_another_slice_take_a_pool(records)
    world.pod(1, 0, node_name="of another pool", phase="Running", unschedulable=False)
    world.clock.advance(1000)
    _leave_empty(world, slice_name(1, 2))
    by_sweep(world)

    assert world.alive() == {used, slice_name(1, 3)}


def _let_another_slice_take_a_pool(records: Records) -> tuple[JobSetWorld, str]:
    """Return a world in which a slice waits for its second pool, and the first one's name."""
    world, used = JobSetWorld(records), slice_name(1)
    world.use(capacity_policies=read_policies(POLICY))
    assert world.deliver(a_demand_event(world.wait(1))).status == 200
    world.pools.move(CLUSTER, used, "RUNNING")
    world.cluster.nodes[used] = [f"n{host}" for host in range(HOSTS)]
    world.run(0, used)
    by_sweep(world)
    assert world.alive() == {used, slice_name(1, 2)}
    return world, used


def _leave_empty(world: World, pool: str) -> None:
    """Let a pool run without nodes, and GKE refuse its machines."""
    world.pools.move(CLUSTER, pool, "RUNNING")
    world.clock.advance(90)
    world.pools.machines[pool] = Machines(errors=(FillError(STOCKOUT, world.clock.now() - 30),))
