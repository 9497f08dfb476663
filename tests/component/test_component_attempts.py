"""The next attempt after a failed creation: a new name, a pause, or a refusal with its reason."""

import dataclasses
from functools import partial

import pytest

from shared.core import labels
from shared.core.decide.attempts import find_pause
from shared.core.identity.creations import Creation
from shared.core.times import format_time
from tests.builders import CLUSTER, NOW, a_claim, a_demand_event, a_jobset, a_pod
from tests.component.looks import Look, by_message, by_sweep
from tests.component.world import World, name_of

STOCKOUT = "Not all instances running in IGM after 35m4s. Current errors: [GCE_STOCKOUT]"
RIGHTS = "Atomic resize failed with [PERMISSIONS_ERROR]: Required 'compute.instances.create' permission."
HASH = a_claim().hash


@pytest.fixture(autouse=True)
def _young_leader(world: World) -> None:
    """The leader began to wait a moment ago, so it is not overdue when its first pool fails."""
    world.cluster.add(a_pod(unschedulable_since=NOW - 20))


def fail(world: World, attempt: int = 0, error: str = STOCKOUT, *, seconds: float = 0.0) -> None:
    """Let the creation of an attempt fail after so long."""
    world.clock.advance(seconds)
    world.pools.fail(CLUSTER, name_of(attempt), error)


def begin(world: World) -> None:
    """Let the first pool be created."""
    by_message(world)
    assert world.pools.names(CLUSTER) == [name_of(0)]


def test_after_a_stockout_the_owner_is_told_the_next_attempt_has_a_new_name_and_the_failed_pool_goes(
    world: World, look: Look
) -> None:
    begin(world)
    world.cluster.notices.clear()
    fail(world, seconds=50)
    look(world)
    assert world.pools.names(CLUSTER) == [name_of(0)], "it is the record of the failure"
    head = f"attempt 0 failed: no capacity in us-east5-b (GKE: {STOCKOUT}); next try at 08:02 UTC [stockout]"
    told = {(each.kind, each.reason, each.message) for each in world.cluster.notices}
    assert told == {(kind, "NodePoolCreationFailed", head) for kind in ("JobSet", "Pod")}
    (waits,) = world.records.expect_in_order({"decision": "wait", "reason": "stockout"})
    assert (waits["attempt"], waits["failure"], waits["pool"]) == (0, "stockout", name_of(0))
    assert (waits["error"], waits["next_try"]) == (STOCKOUT, format_time(NOW + find_pause(HASH, 0)))

    world.clock.advance(30)
    look(world)

    assert [body["name"] for body in world.pools.bodies] == [name_of(0), name_of(1)]
    assert world.pools.bodies[1]["config"]["labels"][labels.ATTEMPT] == "1"
    states = {name: pool.status for (_, name), pool in world.pools.pools.items()}
    assert states == {name_of(0): "STOPPING", name_of(1): "PROVISIONING"}
    order = [call for call in world.pools.calls if call[0] in ("create", "delete")]
    assert order[-2:] == [("create", name_of(1)), ("delete", name_of(0))]
    (created,) = world.records.expect_in_order({"decision": "create", "reason": "pool_failed"})
    assert (created["pool"], created["attempt"], created["failure"]) == (name_of(1), 1, "stockout")

    world.pools.move(CLUSTER, name_of(0), "gone")
    world.pools.move(CLUSTER, name_of(1), "RUNNING")
    look(world)
    assert world.pools.names(CLUSTER) == [name_of(1)]


def test_the_pauses_are_one_two_and_four_minutes(world: World, look: Look) -> None:
    begin(world)
    made_at = world.clock.now()
    for attempt in range(3):
        fail(world, attempt, seconds=40)  # no operation says when, so the pause counts from the creation
        pause = find_pause(HASH, attempt)
        assert 60 * 2**attempt <= pause <= 75 * 2**attempt
        world.clock.advance(made_at + pause - 1 - world.clock.now())
        look(world)
        assert len(world.pools.bodies) == attempt + 1
        world.clock.advance(2)
        look(world)
        assert len(world.pools.bodies) == attempt + 2
        made_at = int(world.clock.now())
        world.pools.move(CLUSTER, name_of(attempt), "gone")


def test_a_failure_that_every_try_would_meet_is_refused_until_the_pool_is_deleted(
    world: World, look: Look
) -> None:
    begin(world)
    fail(world, error=RIGHTS, seconds=50)
    for _ in range(3):
        look(world)
        world.records.expect_in_order({"decision": "refuse", "reason": "permission_denied", "failure": "rights"})
        world.clock.advance(1000)
    assert len(world.pools.bodies) == 1
    assert world.pools.count("delete") == 0
    assert any(f"delete node pool {name_of(0)} to try again" in each.message for each in world.cluster.notices)

    world.pools.move(CLUSTER, name_of(0), "gone")
    look(world)
    assert len(world.pools.bodies) == 2


def test_the_next_attempt_takes_the_place_of_the_failed_pool_in_a_limit(world: World, look: Look) -> None:
    world.use(limit_chips=16)
    begin(world)
    fail(world, seconds=50)
    look(world)
    assert world.pools.count("delete") == 0, "it is kept in the pause"

    world.clock.advance(30)
    look(world)
    states = {name: pool.status for (_, name), pool in world.pools.pools.items()}
    assert states == {name_of(0): "STOPPING", name_of(1): "PROVISIONING"}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ("Current errors: [INTERNAL_ERROR]", "STOPPING"),
        ("Specified reservation train does not have available resources", "ERROR"),
    ],
)
def test_a_pool_that_may_hold_a_part_of_a_reservation_is_deleted_first(
    world: World, look: Look, error: str, status: str
) -> None:
    """One that got nothing of it is the record of the failure, as any other."""
    selectors = {labels.RESERVATION_NAME: "train", labels.RESERVATION_AFFINITY: "specific"}
    pod = a_pod(unschedulable_since=NOW - 20, shape={"selectors": selectors})
    world.cluster.add(pod, a_jobset(template=pod.template))
    begin(world)
    fail(world, error=error, seconds=50)
    look(world)

    assert world.pools.pools[CLUSTER, name_of(0)].reserved
    assert world.pools.pools[CLUSTER, name_of(0)].status == status
    assert len(world.pools.bodies) == 1


@pytest.mark.parametrize("held_up", ["get_namespace", "get_workload"])
def test_a_delivery_that_is_held_up_creates_nothing_from_its_old_look(world: World, held_up: str) -> None:
    """Meanwhile the first pool may have failed and be gone, and the next one may live."""
    world.use(timeout_seconds=600)
    world.cluster.before_next(held_up, partial(world.clock.advance, 40))

    assert world.deliver(a_demand_event()).status == 503
    assert world.pools.bodies == []
    assert "took too long" in world.last["message"]


def leave(world: World) -> None:
    """Another function, which does not find that pool, may begin with the first name."""
    world.pools.move(CLUSTER, name_of(0), "gone")


def pass_to_a_person(world: World) -> None:
    """Seed 721275: the last read before the create shows it."""
    failed = world.pools.pools[CLUSTER, name_of(0)]
    world.pools.add(CLUSTER, dataclasses.replace(failed, labels={"team": "other"}))


@pytest.mark.parametrize("happens", [leave, pass_to_a_person])
def test_a_failed_pool_that_is_ours_no_more_is_neither_followed_nor_deleted(world: World, happens: Look) -> None:
    by_message(world)
    fail(world, seconds=90)
    world.pools.before_next("get", lambda: happens(world), skip=2)
    answer = world.deliver(a_demand_event())

    assert (answer.status, world.last["reason"]) == (503, "view_stale")
    assert (world.pools.count("create"), world.pools.count("delete")) == (1, 0)


def test_without_a_record_the_pause_doubles_by_the_failures_that_gke_lists(world: World) -> None:
    """Each creation has the first number, because its pool is gone."""
    world.cluster.add(a_pod(unschedulable_since=NOW - 7200))
    for number in range(4):
        failed = Creation(
            pool=name_of(0), ended=True, error=STOCKOUT, began_at=NOW - 900 + number, ended_at=NOW - 60
        )
        world.pools.creations[CLUSTER, f"{name_of(0)} {number}"] = failed
    world.clock.advance(find_pause(HASH, 3) - 61)
    by_sweep(world)
    assert world.pools.bodies == []

    world.clock.advance(2)
    by_sweep(world)
    assert [body["name"] for body in world.pools.bodies] == [name_of(0)]
