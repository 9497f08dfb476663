"""Limits hold under concurrency: messages, sweeps, crashes and stalls between any two calls."""

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import pytest

from shared.core.decide.limits import HOLD_SECONDS, LISTED_SECONDS, end_listed, keep_current
from shared.core.errors import (
    AlreadyExists,
    Busy,
    Denied,
    InvalidRequest,
    NoCapacity,
    ProvisionerError,
    StaleView,
    Throttled,
    Unavailable,
)
from shared.core.identity.pool_index import PoolIndex
from shared.core.ports import Ledger, LimitHold
from shared.core.workloads import PodView
from shared.deliver import deliver
from shared.edges.threads import Threads
from shared.engine.looks.limit_holds import TRIES_MAX, Limits, OwnHolds
from tests.builders import CLUSTER, NOW, a_demand, a_demand_event, a_jobset, a_pod, a_pool, a_push
from tests.component.crowd import CHIPS, Crowd
from tests.component.test_component_elastic import a_demand as a_gpu_demand
from tests.component.test_component_elastic import a_waiting_pod
from tests.component.world import World
from tests.unit.test_elastic import a_gpu_job


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    ("slices", "messages", "sweeps"), [(1, 1, 0), (3, 2, 2)], ids=["one each", "two each, and two sweeps"]
)
def test_ten_messages_at_once_buy_no_more_than_the_limit(
    seed: int, slices: int, messages: int, sweeps: int
) -> None:
    crowd = Crowd(seed, limit_chips=slices * CHIPS)
    crowd.run(*[crowd.world.sweep] * sweeps, messages=messages)

    assert crowd.chips == slices * CHIPS


@pytest.mark.parametrize("seed", range(8))
def test_a_limit_of_slices_and_one_of_each_namespace_hold(seed: int) -> None:
    crowd = Crowd(seed, namespaces=2, limit_slices=5, limit_chips_per_namespace=2 * CHIPS)
    crowd.run(crowd.world.sweep)

    assert len(crowd.pools.pools) == 4
    assert crowd.chips_by_namespace == {"team-0": 2 * CHIPS, "team-1": 2 * CHIPS}


@pytest.mark.parametrize("seed", range(24))
def test_a_crash_between_any_two_calls_buys_nothing_more_and_blocks_nothing_for_good(seed: int) -> None:
    crowd = Crowd(seed, crashes=4, limit_chips=2 * CHIPS)
    crowd.run(messages=2)
    assert crowd.chips <= 2 * CHIPS

    for _ in range(12):  # the sweep is called each minute
        crowd.world.clock.advance(60)
        crowd.world.sweep()
        assert crowd.chips <= 2 * CHIPS
    assert crowd.chips == 2 * CHIPS


@pytest.mark.parametrize("seed", range(8))
def test_pools_that_the_list_does_not_show_yet_are_counted(seed: int) -> None:
    crowd = Crowd(seed, limit_chips=2 * CHIPS)
    crowd.pools.shown_after = NOW + 120
    crowd.run()
    assert crowd.chips == 2 * CHIPS

    for _ in range(5):
        crowd.world.clock.advance(60)
        crowd.pools.now = crowd.world.clock.now()
        crowd.world.sweep()
        assert crowd.chips == 2 * CHIPS


@pytest.mark.parametrize("seconds", [31, 200, 4000, -60])
def test_who_was_held_up_after_the_reservation_does_not_create(world: World, seconds: float) -> None:
    """Others may have got the chips meanwhile; the label is read last, so the stall is there."""
    world.use(limit_chips=CHIPS)
    world.cluster.before_next("get_namespace", lambda: world.clock.advance(seconds), skip=2)

    assert world.deliver(a_demand_event()).status == 503
    assert world.pools.count("create") == 0
    assert world.deliver(a_demand_event()).status == 200
    world.expect_one_pool()


@pytest.mark.parametrize("held_up", [29, 60, 100, 240, 600, 900])
def test_a_create_that_arrives_late_was_still_counted(held_up: float) -> None:
    """A process that is frozen in the one moment after its last check creates all the same."""
    crowd = Crowd(0, limit_chips=CHIPS)
    late, *others = crowd.pods

    def meanwhile() -> None:
        crowd.world.clock.advance(held_up)
        for pod in others:
            crowd.message(pod)()

    crowd.pools.before_next("create", meanwhile)
    crowd.message(late)()

    assert crowd.chips == CHIPS


@pytest.mark.parametrize("error", ["", "[GCE_STOCKOUT]"])
def test_a_create_that_arrives_after_the_pool_of_another_message_went_was_still_counted(error: str) -> None:
    """A sweep has seen that pool, and the next attempt would take its place."""
    crowd = Crowd(0, limit_chips=CHIPS)
    late, *others = crowd.pods

    def meanwhile() -> None:
        crowd.message(late)()
        (name,) = crowd.pools.names(CLUSTER)
        crowd.pools.move(CLUSTER, name, "RUNNING")
        if error:
            crowd.pools.fail(CLUSTER, name, error)
        crowd.world.clock.advance(100)
        crowd.world.sweep()
        crowd.message(late)()
        crowd.pools.move(CLUSTER, name, "gone")
        crowd.world.clock.advance(LISTED_SECONDS)
        for pod in others:
            crowd.message(pod)()

    crowd.pools.before_next("create", meanwhile)
    crowd.message(late)()

    assert crowd.chips == CHIPS


def test_a_slice_that_two_processes_reserved_for_gets_its_next_attempt_in_time(world: World) -> None:
    """Until then the first process, which had no answer, may still create the pool before."""
    world.use(limit_chips=CHIPS)
    world.pools.fail_next("create", Unavailable("connection lost"))
    for _ in range(2):
        world.deliver(a_demand_event())
    world.pools.fail(CLUSTER, world.expect_one_pool(), "[GCE_STOCKOUT]")

    world.clock.advance(HOLD_SECONDS - 1)
    world.deliver(a_demand_event())
    assert world.says() == ("refuse", "limit_reached")
    world.clock.advance(1)
    world.deliver(a_demand_event())
    assert world.says() == ("create", "pool_failed")


@pytest.mark.parametrize("error", [NoCapacity("quota"), InvalidRequest("no"), Denied("no"), Throttled("429")])
def test_what_gke_refused_is_given_back_at_once(error: ProvisionerError) -> None:
    crowd = Crowd(0, limit_chips=CHIPS)
    first, second, *_ = crowd.pods
    crowd.pools.fail_next("create", error)
    crowd.message(first)()
    crowd.message(second)()

    assert crowd.chips == CHIPS


@pytest.mark.parametrize("again", ["itself", "another, after the reservation"])
@pytest.mark.parametrize("error", [Unavailable("connection lost"), AlreadyExists("another made it"), Busy("held")])
def test_an_outcome_that_is_unknown_counts_until_the_reservation_ends(error: ProvisionerError, again: str) -> None:
    """Its own hold is not in its way."""
    crowd = Crowd(0, limit_chips=CHIPS)
    first, second, *_ = crowd.pods
    crowd.pools.fail_next("create", error)
    crowd.message(first)()
    crowd.message(second)()
    assert crowd.chips == 0
    if again != "itself":
        crowd.world.clock.advance(HOLD_SECONDS)
    crowd.message(first if again == "itself" else second)()

    assert crowd.chips == CHIPS


def test_the_sweep_lets_the_reservations_of_listed_pools_end_sooner(world: World) -> None:
    """Else a slice that ends after minutes would hold the limit for twenty."""
    world.use(limit_chips=CHIPS)
    world.deliver(a_demand_event())
    world.pools.move(CLUSTER, world.expect_one_pool(), "RUNNING")
    world.sweep()
    world.pools.move(CLUSTER, world.expect_one_pool(), "gone")
    world.cluster.pods.clear()
    later = a_pod(jobset="later", uid="pod-later", pod_labels={"jobset.sigs.k8s.io/jobset-uid": "uid-later"})
    world.cluster.add(later, a_jobset(name="later", uid="uid-later"))

    world.deliver(a_demand_event(later))
    assert world.says() == ("refuse", "limit_reached")
    world.clock.advance(LISTED_SECONDS)
    world.deliver(a_demand_event(later))
    assert world.says() == ("create", "pool_absent")


@pytest.mark.parametrize(
    ("status", "nodes", "left"), [("RUNNING", 4, 300), ("ERROR", 4, 300), ("RUNNING", 3, 1200)]
)
def test_a_pool_that_may_still_grow_keeps_its_reservation(status: str, nodes: int, left: float) -> None:
    entries = {"a-pool": LimitHold(namespace="default", chips=CHIPS, made_at=NOW)}
    pools = PoolIndex([a_pool(status, name="a-pool", node_count=nodes)])

    ended = end_listed(entries, pools, NOW)

    assert keep_current(ended, NOW + left - 1) != {}
    assert keep_current(ended, NOW + left) == {}


def test_a_reservation_is_given_back_although_others_were_made_since(world: World) -> None:
    world.use(limit_chips=9 * CHIPS)
    limits = Limits(CLUSTER, world.ports)
    first, _ = limits.hold(a_demand(), "one"), limits.hold(a_demand(), "two")
    Limits(CLUSTER, world.ports).hold(a_demand(), "of-another-process")
    assert isinstance(first, OwnHolds)
    limits.give_back(first)

    assert set(world.cluster.ledgers["tpu-provisioner"].entries) == {"two", "of-another-process"}


@pytest.mark.parametrize("room", [0, 3, 10])
def test_a_sweep_reserves_side_by_side_and_keeps_the_limit(room: int) -> None:
    """The fakes answer at once, so a pause after each count lets the other threads count too."""
    crowd = Crowd(0, limit_chips=room * CHIPS or 1)
    pause = threading.Event()
    plain = crowd.pools.list
    crowd.pools.list = lambda cluster: (plain(cluster), pause.wait(0.001))[0]  # type: ignore[method-assign]
    crowd.world.sweep(threads=Threads(crowd.world.clock))

    assert crowd.chips == room * CHIPS


def test_leaders_that_a_limit_refuses_cost_no_calls_of_their_own() -> None:
    """A sweep reads list and ledger once; each pool that is made is one write of the ledger."""
    crowd = Crowd(0, limit_chips=3 * CHIPS)
    crowd.world.sweep()
    found = crowd.count_calls()

    assert {name: found[name] for name in ("list", "read_ledger", "write_ledger", "create")} == {
        "list": 1,
        "read_ledger": 1,
        "write_ledger": 3,
        "create": 3,
    }


def test_who_shares_a_reservation_does_not_give_it_back() -> None:
    """GKE refuses the second of two messages for one slice, while the first is about to create."""
    crowd = Crowd(0, limit_chips=CHIPS)
    first, second, *_ = crowd.pods

    def meanwhile() -> None:
        crowd.pools.fail_next("create", NoCapacity("quota"))
        crowd.message(first)()
        crowd.message(second)()

    crowd.cluster.before_next("get_namespace", meanwhile, skip=1)
    crowd.message(first)()

    assert crowd.chips == CHIPS


@pytest.mark.parametrize("seed", range(8))
def test_elastic_pools_grow_within_the_limit(seed: int) -> None:
    """Six GPU Jobs want three nodes more each, and four slices a pool: none gets past the limit."""
    crowd = Crowd(seed)
    pods = []
    for number in range(6):
        name = f"gpu-{number}"
        job = dataclasses.replace(a_gpu_job(parallelism=1, completions=9), name=name, uid=name)
        pod = dataclasses.replace(a_waiting_pod(f"{name}-a"), controller_name=name, controller_uid=name)
        crowd.cluster.add(job, pod)
        pods.append(pod)
        assert deliver("provision", a_push(a_gpu_demand(pod)), crowd.world.ports).status == 200
        (pool,) = [each for each in crowd.pools.names(CLUSTER) if each.startswith(name)]
        crowd.pools.move(CLUSTER, pool, "RUNNING")
        bigger = dataclasses.replace(a_gpu_job(parallelism=4, completions=9), name=name, uid=name)
        crowd.cluster.add(bigger)
    before = crowd.gpus
    crowd.world.use(limit_chips=before + 7)

    def send(pod: PodView) -> Callable[[], object]:
        return lambda: deliver("provision", a_push(a_gpu_demand(pod)), crowd.world.ports)

    crowd.turns.run([send(pod) for pod in pods for _ in range(2)])

    assert crowd.gpus == before + 6  # two Jobs of three nodes; a third would be over the limit


def test_without_a_limit_nothing_more_is_asked(world: World) -> None:
    for method in ("read_ledger", "write_ledger"):
        world.cluster.fail_next(method, Unavailable(method))
    assert world.deliver(a_demand_event()).status == 200

    assert world.pools.calls == [("list", ""), ("create", world.expect_one_pool())]


def test_the_ledger_is_kept_in_our_own_namespace_and_forgets(world: World) -> None:
    world.use(limit_chips=99, own_namespace="accelerators")
    world.cluster.namespace_labels["accelerators"] = {}
    world.deliver(a_demand_event())
    name = world.expect_one_pool()
    assert set(world.cluster.ledgers) == {"accelerators"}
    assert world.cluster.ledgers["accelerators"].entries[name].chips == CHIPS

    world.clock.advance(HOLD_SECONDS)
    world.cluster.add(a_pod(index=1, uid="pod-1"), a_jobset(replicas=2))
    world.deliver(a_demand_event(a_pod(index=1, uid="pod-1")))
    assert name not in world.cluster.ledgers["accelerators"].entries


def test_a_reservation_of_the_future_ends_all_the_same(world: World) -> None:
    world.use(limit_chips=CHIPS)
    entry = LimitHold(namespace="default", chips=CHIPS, made_at=NOW + 1e9)
    world.cluster.ledgers["tpu-provisioner"] = Ledger(version="1", entries={"another-pool": entry})
    world.use(limit_chips=2 * CHIPS)
    world.deliver(a_demand_event())  # a writer sets it to now
    assert world.cluster.ledgers["tpu-provisioner"].entries["another-pool"].made_at == NOW


def test_when_all_tries_are_lost_the_message_comes_back(world: World) -> None:
    world.use(limit_chips=CHIPS)
    for _ in range(TRIES_MAX):
        world.cluster.fail_next("write_ledger", StaleView("another process was faster"))

    assert world.deliver(a_demand_event()).status == 503
    assert world.pools.count("create") == 0
    assert world.deliver(a_demand_event()).status == 200
    world.expect_one_pool()


@pytest.mark.parametrize("method", ["read_ledger", "write_ledger"])
@pytest.mark.parametrize(("error", "status"), [(Unavailable("503"), 503), (Denied("forbidden"), 500)])
def test_without_the_ledger_nothing_is_created(world: World, method: str, error: Any, status: int) -> None:
    world.use(limit_chips=CHIPS)
    world.cluster.fail_next(method, error)

    assert world.deliver(a_demand_event()).status == status
    assert world.pools.count("create") == 0


@pytest.mark.parametrize(("age_seconds", "lists"), [(0, 0), (9, 0), (11, 1), (-1, 1)])
def test_a_list_of_more_than_seconds_is_read_again_before_it_counts(
    world: World, age_seconds: float, lists: int
) -> None:
    world.use(limit_chips=CHIPS)
    limits = Limits(CLUSTER, world.ports)
    limits.start(PoolIndex([]), listed_at=NOW - age_seconds)

    assert isinstance(limits.hold(a_demand(), "a-pool"), OwnHolds)
    assert world.pools.count("list") == lists
