"""More pods wait than one sweep takes, or more than GKE accepts at one time."""

from unittest.mock import Mock

import pytest

from shared.core.errors import Throttled
from shared.engine.entries import sweep_leaders
from tests.builders import a_jobset, a_pod, a_template
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
