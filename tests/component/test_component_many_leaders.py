"""More pods wait than one sweep takes, or more than GKE accepts at one time."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from shared.core.identity.names import build_pool_name
from shared.perform import sweep_leaders
from tests.builders import a_claim, a_jobset, a_pod, a_template

if TYPE_CHECKING:
    from tests.component.world import World


@pytest.fixture(autouse=True)
def _two_leaders_in_one_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_leaders, "LEADERS_MAX", 2)


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

    assert world.expect_one_pool() == build_pool_name(a_claim())
    assert [each.args for each in reads.call_args_list] == [("JobSet", "default", "train")]


def test_a_leader_that_selects_tpu_nodes_without_chips_is_still_told_why(world: World) -> None:
    world.cluster.pods.clear()
    chipless = a_template(chips=0, tolerations=())
    world.cluster.add(a_jobset(template=chipless), a_pod(template=chipless))

    world.sweep()

    assert [each.kind for each in world.cluster.notices if each.warning] == ["JobSet", "Pod"]


def test_of_more_leaders_than_one_sweep_takes_each_has_its_turn(world: World) -> None:
    world.cluster.pods.clear()
    unfit = a_template(topology="9x9")
    pods = [a_pod(index=index, uid=f"pod-{index}", template=unfit) for index in range(6)]
    world.cluster.add(a_jobset(replicas=6, template=unfit), *pods)
    told: list[set[str]] = []
    for _ in range(60):
        world.cluster.notices.clear()
        world.sweep()
        world.clock.advance(60)
        told.append({each.name for each in world.cluster.notices if each.kind == "Pod"})

    assert {len(names) for names in told} == {2}
    assert set.union(*told) == {pod.name for pod in pods}
