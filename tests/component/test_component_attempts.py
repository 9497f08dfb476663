"""The next attempt after a failed creation: a new name, a pause, or a refusal with its reason."""

import dataclasses
from functools import partial

import pytest

from shared.core import labels
from shared.core.decide.attempts import find_pause
from shared.core.errors import Busy, Denied, ProvisionerError, Unavailable
from shared.core.identity.names import ATTEMPTS_MAX
from shared.core.times import format_time
from tests.builders import CLUSTER, NOW, a_claim, a_demand_event, a_jobset, a_pod, a_pool, an_over_event
from tests.component.empty_pools import fill_at_next_creation
from tests.component.looks import Look, by_message, by_sweep
from tests.component.turns import Crash, TakingTurnsPools, Turns
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


def test_a_name_that_a_pool_of_others_has_is_left_out(world: World, look: Look) -> None:
    """A person may have taken the labels of an earlier pool of the slice away."""
    begin(world)
    fail(world)
    world.pools.add(CLUSTER, dataclasses.replace(a_pool(), name=name_of(1), labels={}))
    world.clock.advance(80)
    look(world)

    assert [body["name"] for body in world.pools.bodies] == [name_of(0), name_of(2)]


@pytest.mark.parametrize("pods", [0, 1], ids=["nodes", "a node with a pod"])
def test_a_failed_pool_whose_nodes_come_while_the_next_attempt_is_created_stays(
    world: World, look: Look, pods: int
) -> None:
    """Seed 1022814 of the simulator: the last look at the pool was before the create."""
    begin(world)
    fail(world)
    world.clock.advance(80)
    fill_at_next_creation(world, pods=pods)
    look(world)
    assert [pool.status for pool in world.pools.pools.values()] == ["ERROR", "PROVISIONING"]


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


def test_for_a_leader_that_waits_for_long_a_sweep_counts_the_pause_from_the_end_of_the_creation(
    world: World,
) -> None:
    begin(world)
    fail(world, seconds=2100)
    world.pools.fail(CLUSTER, name_of(0), STOCKOUT, ended_at=NOW + 2100)
    world.clock.advance(30)
    by_sweep(world)
    assert len(world.pools.bodies) == 1

    world.clock.advance(60)
    by_sweep(world)
    assert len(world.pools.bodies) == 2


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


def test_a_failure_of_another_shape_stops_nothing(world: World, look: Look) -> None:
    pool = a_pool("ERROR", fingerprint="1-other", age_seconds=10, error=RIGHTS)
    world.pools.add(CLUSTER, pool)
    look(world)

    assert [body["name"] for body in world.pools.bodies] == [name_of(1)]


def test_a_pool_that_a_person_deletes_in_the_pause_is_made_anew_by_a_message_and_not_by_a_sweep(
    world: World,
) -> None:
    begin(world)
    world.clock.advance(60)
    world.pools.fail(CLUSTER, name_of(0), STOCKOUT, ended_at=NOW + 60)
    world.pools.move(CLUSTER, name_of(0), "gone")
    by_sweep(world)
    world.records.expect_in_order({"decision": "wait", "reason": "stockout", "attempt": 0})
    assert len(world.pools.bodies) == 1

    by_message(world)
    assert [body["name"] for body in world.pools.bodies] == [name_of(0), name_of(0)]


@pytest.mark.parametrize("error", [Unavailable("503"), Denied("403"), Busy("operation"), None])
def test_a_failed_pool_that_is_left_beside_its_next_attempt_goes_with_the_next_sweep(
    world: World, error: ProvisionerError | None
) -> None:
    """None: the process ends between create and delete."""
    begin(world)
    fail(world, seconds=90)

    if error is None:
        world.pools.fail_next("delete", Crash)
        with pytest.raises(Crash):
            by_message(world)
    else:
        world.pools.fail_next("delete", error)
        by_message(world)
        assert world.says() == ("create", "pool_failed")
    assert set(world.pools.names(CLUSTER)) == {name_of(0), name_of(1)}

    by_sweep(world)
    assert world.pools.pools[CLUSTER, name_of(0)].status == "STOPPING"
    assert len(world.pools.bodies) == 2


def test_a_failed_pool_beside_its_next_attempt_goes_while_that_runs_with_its_pods(world: World) -> None:
    begin(world)
    fail(world, seconds=90)
    world.pools.fail_next("delete", Unavailable("503"))
    by_message(world)
    world.pools.move(CLUSTER, name_of(1), "RUNNING")
    world.cluster.nodes[name_of(1)] = ["n1"]
    world.cluster.add(dataclasses.replace(a_pod(), node_name="n1", unschedulable=False))
    by_sweep(world)

    assert world.pools.calls[-1] == ("delete", name_of(0))


@pytest.mark.parametrize("seed", range(12))
def test_two_deliveries_at_once_make_one_pool(world: World, seed: int) -> None:
    begin(world)
    fail(world, seconds=90)
    pools, turns = TakingTurnsPools(), Turns(seed)
    pools.pools, pools.turns, pools.now = world.pools.pools, turns, 1.0
    world.pools = pools
    world.use()
    turns.run([partial(world.deliver, a_demand_event()), partial(world.deliver, a_demand_event())])

    assert [body["name"] for body in pools.bodies] == [name_of(1)]
    assert set(pools.names(CLUSTER)) == {name_of(0), name_of(1)}


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


def test_a_limit_that_others_use_up_refuses_the_next_attempt(world: World, look: Look) -> None:
    begin(world)
    world.use(limit_chips=31)
    fail(world, seconds=80)
    other = a_claim(slice_key="default/other")
    world.pools.add(CLUSTER, a_pool(claim=other))
    look(world)

    world.records.expect_in_order({"decision": "refuse", "reason": "limit_reached"})
    assert (len(world.pools.bodies), world.pools.count("delete")) == (1, 0)


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


def test_attempts_begin_again_below_their_end_with_the_longest_pause(world: World) -> None:
    last = ATTEMPTS_MAX - 1
    pod_labels = {labels.ATTEMPT: str(last)}
    world.pools.add(
        CLUSTER,
        a_pool("ERROR", name=name_of(last), age_seconds=9000, error=STOCKOUT, extra_labels=dict(pod_labels)),
    )
    world.cluster.add(a_pod(created_at=NOW - 9001))
    by_message(world)
    assert [body["name"] for body in world.pools.bodies] == [name_of(5)]

    world.pools.fail(CLUSTER, name_of(5), STOCKOUT)
    by_message(world)
    assert world.says() == ("wait", "stockout")
    by_sweep(world)
    assert len(world.pools.bodies) == 1


def test_when_the_workload_is_over_the_record_goes_too(world: World) -> None:
    begin(world)
    fail(world, seconds=20)
    world.cluster.pods.clear()
    world.cluster.add(a_jobset(terminal="Completed", terminal_since=world.clock.now()))
    world.collect(an_over_event())

    assert world.pools.calls[-1] == ("delete", name_of(0))


@pytest.mark.parametrize("status", ["PROVISIONING", "ERROR"])
def test_a_failed_pool_that_is_no_longer_the_newest_is_not_followed(world: World, status: str) -> None:
    """Others went on meanwhile: attempt 1 failed and is gone, and attempt 2 is there."""
    begin(world)
    fail(world, seconds=90)
    pool_labels: dict[str, str | None] = {labels.ATTEMPT: "2", labels.CREATED_AT: str(int(NOW) + 85)}
    alive = a_pool(status, name=name_of(2), extra_labels=pool_labels)
    world.pools.before_next("list", lambda: world.pools.add(CLUSTER, alive), skip=1)

    assert world.deliver(a_demand_event()).status == 503
    assert len(world.pools.bodies) == 1
    assert world.last["reason"] == "view_stale"


@pytest.mark.parametrize("held_up", ["get_namespace", "get_workload"])
def test_a_delivery_that_is_held_up_creates_nothing_from_its_old_look(world: World, held_up: str) -> None:
    """Meanwhile the first pool may have failed and be gone, and the next one may live."""
    world.use(timeout_seconds=600)
    world.cluster.before_next(held_up, partial(world.clock.advance, 40))

    assert world.deliver(a_demand_event()).status == 503
    assert world.pools.bodies == []
    assert "took too long" in world.last["message"]


def test_a_list_that_shows_a_failed_pool_which_is_gone_makes_no_second_pool(world: World) -> None:
    """GKE's list may be old: the next attempt lives already, and the name of the first is free."""
    by_message(world)
    fail(world, seconds=50)

    def pass_on() -> None:
        made = world.pools.pools[CLUSTER, name_of(0)]
        pod_labels = made.labels | {labels.ATTEMPT: "1"}
        world.pools.move(CLUSTER, name_of(0), "gone")
        world.pools.add(CLUSTER, dataclasses.replace(made, name=name_of(1), labels=pod_labels))
        world.pools.move(CLUSTER, name_of(1), "PROVISIONING")

    world.pools.before_next("get", pass_on)
    assert world.deliver(a_demand_event()).status == 503
    assert world.pools.names(CLUSTER) == [name_of(1)]
    assert len(world.pools.bodies) == 1


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


@pytest.mark.parametrize("answer", ["slow", "none"])
def test_a_last_read_that_is_slow_or_fails_creates_nothing_and_reserves_nothing(world: World, answer: str) -> None:
    """The emergency stop and the limits were read before it, and would be old."""
    world.use(timeout_seconds=600, limit_chips=16)
    by_message(world)
    fail(world, seconds=90)
    if answer == "slow":
        world.pools.before_next("get", partial(world.clock.advance, 29), skip=2)
    else:
        world.pools.before_next("get", lambda: world.pools.fail_next("get", Unavailable("503")), skip=1)
    answered = world.deliver(a_demand_event())

    assert (answered.status, world.last["reason"]) == (503, "view_stale")
    assert world.pools.count("create") == 1, "only the first"
    assert [
        name for ledger in world.cluster.ledgers.values() for name in ledger.entries if name != name_of(0)
    ] == []
