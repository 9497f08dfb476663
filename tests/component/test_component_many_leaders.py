"""More pods wait than one sweep takes, or more than GKE accepts at one time."""

from typing import cast
from unittest.mock import Mock

import pytest

from shared.core.errors import Throttled
from shared.core.ports import NodePools
from shared.edges.threads import Threads
from shared.engine.entries import sweep_leaders
from shared.engine.looks.limited_ports import RestingPools
from shared.engine.looks.side_by_side import CALLS_AT_ONCE, PAUSE_SECONDS
from tests.builders import CLUSTER, NOW, a_jobset, a_pod, a_template
from tests.component.fakes import FakeNodePools, StepClock
from tests.component.world import NAME, World


@pytest.fixture
def _two_leaders_in_one_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_leaders, "LEADERS_MAX", 2)


@pytest.mark.usefixtures("_two_leaders_in_one_sweep")
def test_cpu_pods_hide_no_leader_and_their_workloads_are_not_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = world.cluster.pods.popitem()[1]
    plain = a_template(accelerator=None, topology=None, chips=0)
    world.cluster.add(
        *(a_pod(jobset=f"cpu-{each}", uid=f"cpu-{each}", template=plain) for each in range(5)), leader
    )
    monkeypatch.setattr(world.cluster, "get_workload", reads := Mock(wraps=world.cluster.get_workload))

    world.sweep()

    assert world.expect_one_pool() == NAME
    assert [each.args for each in reads.call_args_list] == [("JobSet", "default", "train")]


def test_a_leader_that_selects_tpu_nodes_without_chips_is_still_told_why(world: World) -> None:
    world.cluster.pods.clear()
    chipless = a_template(chips=0, tolerations=())
    world.cluster.add(a_jobset(template=chipless), a_pod(template=chipless))

    world.sweep()

    assert [each.kind for each in world.cluster.notices if each.warning] == ["JobSet", "Pod"]


@pytest.mark.usefixtures("_two_leaders_in_one_sweep")
def test_of_more_leaders_than_one_sweep_takes_each_has_its_turn(world: World) -> None:
    unfit = a_template(topology="9x9")
    pods = world.add_slices(6, template=unfit)
    world.cluster.add(a_jobset(replicas=6, template=unfit))
    told: list[set[str]] = []
    for _ in range(60):
        world.cluster.notices.clear()
        world.sweep()
        world.clock.advance(60)
        told.append({each.name for each in world.cluster.notices if each.kind == "Pod"})

    assert {len(names) for names in told} == {2}
    assert set.union(*told) == {pod.name for pod in pods}


LEADERS = 100


@pytest.fixture
def refusing(world: World) -> World:
    """A cluster with many leaders, and a GKE that answers each create with 429."""
    world.add_slices(LEADERS)
    for _ in range(LEADERS):
        world.pools.fail_next("create", Throttled("too many operations", retry_after_seconds=20))
    return world


def test_after_a_429_the_sweep_asks_gke_no_more_and_tells_it_once(refusing: World) -> None:
    assert refusing.sweep() == (503, {"errors": 1, "left": LEADERS})
    assert refusing.pools.count("create") == 1
    told = refusing.records.found
    assert len([each for each in told if each.get("reason") == "throttled"]) == 1
    assert [each["waiting_demands"] for each in told if each["message"] == "measured"] == [LEADERS]


def test_side_by_side_only_what_runs_already_is_refused_too(refusing: World) -> None:
    refusing.sweep(threads=Threads(refusing.clock))

    assert refusing.pools.count("create") <= CALLS_AT_ONCE


@pytest.mark.parametrize(("advised", "seconds"), [(20.0, 20.0), (None, PAUSE_SECONDS)])
def test_gke_is_asked_again_when_the_time_that_it_advised_is_over(advised: float | None, seconds: float) -> None:
    plain, clock = FakeNodePools(), StepClock(NOW)
    pools = cast("NodePools", RestingPools(cast("NodePools", plain), clock))
    plain.fail_next("get", Throttled("429", retry_after_seconds=advised))
    for _ in range(2):
        with pytest.raises(Throttled) as refused:
            pools.get(CLUSTER, "a")
    assert plain.count("get") == 1
    assert refused.value.retry_after_seconds == seconds

    clock.advance(seconds)
    assert pools.get(CLUSTER, "a") is None
