"""Limits hold under concurrency: messages, sweeps, crashes and stalls between any two calls."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from shared.core.decide.limits import HOLD_SECONDS
from shared.core.errors import (
    Denied,
    InvalidRequest,
    NoCapacity,
    ProvisionerError,
    StaleView,
    Throttled,
    Unavailable,
)
from shared.core.workloads import PodView
from shared.deliver import deliver
from shared.engine.looks.limit_holds import TRIES_MAX
from tests.builders import CLUSTER, a_demand_event, a_jobset, a_pod, a_push
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


@pytest.mark.parametrize("error", [NoCapacity("quota"), InvalidRequest("no"), Denied("no"), Throttled("429")])
def test_what_gke_refused_is_given_back_at_once(error: ProvisionerError) -> None:
    crowd = Crowd(0, limit_chips=CHIPS)
    first, second, *_ = crowd.pods
    crowd.pools.fail_next("create", error)
    crowd.message(first)()
    crowd.message(second)()

    assert crowd.chips == CHIPS


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
