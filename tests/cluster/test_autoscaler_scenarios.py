"""What an autoscaler does with groups and pods, on the real control plane.

The programs that are held to it are in `PROGRAMS`. What upstream's does, with its words and times,
is told in docs/evidence/autoscaler.md.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from standins.autoscaler_real.program import Pace, RealAutoscaler
from standins.controlplane.building import find_addition_build
from standins.controlplane.cache import default_cache
from standins.controlplane.tests.controlplane_worlds import clearing, wait_for
from tests.cluster.scaling_world import GPU, MOVED, STAYS, TPU, ScalingWorld

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from standins.autoscaler_real.node_groups import NodeGroups
    from standins.controlplane.plane import ControlPlane
    from tests.cluster.scaling_world import Program, Running

NAME = "autoscaler-1.33"
pytestmark = [pytest.mark.cluster, pytest.mark.controller(NAME)]

QUICK = Pace(scan=1, unneeded=6, delay_after_add=0, first_backoff=15, longest_backoff=60, recheck=1)
LONG = 4 * QUICK.unneeded
"""Seconds in which a node that may go is gone, its pod's move included."""


def start_upstream(kubeconfig: Path, groups: NodeGroups, folder: Path, pace: Pace) -> Running:
    program = find_addition_build(default_cache(), NAME).binary(NAME)
    return RealAutoscaler(program, kubeconfig, groups, folder, pace)


PROGRAMS: dict[str, Program] = {"upstream": start_upstream}
UPSTREAM_ONLY = pytest.mark.parametrize("program", ["upstream"], indirect=True)


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> Program:
    return PROGRAMS[request.param]


@pytest.fixture
def world(plane: ControlPlane, program: Program, tmp_path: Path) -> Iterator[ScalingWorld]:
    with clearing(ScalingWorld(plane, program, tmp_path, QUICK)) as world:
        yield world


def test_a_slice_grows_from_none_to_all_of_its_hosts_in_one_step(world: ScalingWorld) -> None:
    group = world.add_slice()
    world.run("train", group, {TPU: 4}, pods=4)
    with world.autoscaler():
        world.wait_bound("train", 4)
        told = ("Normal", "TriggeredScaleUp", f"pod triggered scale-up: [{{{group} 0->4 (max: 4)}}]")
        wait_for("an Event on each pod", lambda: world.told() == [told] * 4, seconds=20)
    assert [size for _, size in world.groups.asked("resize", group)] == [4]


def test_one_waiting_pod_of_a_slice_brings_all_hosts(world: ScalingWorld) -> None:
    group = world.add_slice()
    world.run("train", group, {TPU: 4})
    with world.autoscaler():
        world.wait_bound("train", 1)
    assert [size for _, size in world.groups.asked("resize", group)] == [4]


def test_without_capacity_a_group_is_given_up_and_tried_again_after_the_pause(world: ScalingWorld) -> None:
    group = world.add_slice(capacity=3)
    world.run("train", group, {TPU: 4}, pods=4)
    paused = ("Normal", "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 in backoff after failed scale-up")
    with world.autoscaler():
        wait_for("the first try", lambda: world.groups.asked("resize", group))
        wait_for("the end of the first try", lambda: world.groups.target_size(group) == 0, seconds=10)
        wait_for("the reason, on all pods", lambda: world.told().count(paused) == 4, seconds=10)
        wait_for("the second try", lambda: len(world.groups.asked("resize", group)) == 2)
        wait_for("the end of the second try", lambda: world.groups.target_size(group) == 0, seconds=10)
        assert not world.groups.nodes(group)
        world.groups.give(group, 4)
        world.wait_bound("train", 4)
    first, second, third = (at for at, _ in world.groups.asked("resize", group))
    assert QUICK.first_backoff <= second - first < third - second


def test_nodes_without_pods_go_and_not_before_their_time(world: ScalingWorld) -> None:
    slices, elastic = world.add_slice(hosts=1), world.add_elastic()
    world.fill(slices, 1)
    world.fill(elastic, 2)
    with world.autoscaler():
        began = time.monotonic()
        wait_for("the end of all nodes", lambda: not world.groups.nodes(slices) + world.groups.nodes(elastic))
    assert time.monotonic() - began >= QUICK.unneeded


def test_a_node_that_is_marked_to_stay_stays_until_the_mark_goes(world: ScalingWorld) -> None:
    group = world.add_elastic()
    kept, other = world.fill(group, 2)
    world.keep(kept)
    with world.autoscaler():
        wait_for("the end of the other node", lambda: world.groups.nodes(group) == [kept])
        assert world.watch_for(LONG, lambda: not world.groups.nodes(group)) is None
        world.keep(kept, value=None)
        wait_for("the end of the node", lambda: not world.groups.nodes(group))
    assert other not in world.groups.nodes(group)


def lay_out_room(world: ScalingWorld, group: str) -> str:
    """Let a group have a node with room that stays, and return its other node, which may go."""
    kept, other = world.fill(group, 2)
    world.keep(kept)
    return other


def test_these_running_pods_are_not_moved_although_another_node_has_room(world: ScalingWorld) -> None:
    """The next test is this one's control: there a pod is moved in the same time."""
    cases: dict[str, tuple[int, dict[str, str]]] = {
        "all-gpus": (8, {}),
        "half-the-gpus": (4, {}),
        "not-safe-to-evict": (1, {STAYS: "false"}),
        "on-a-marked-node": (1, {}),
    }
    pods = {}
    for name, (gpus, said) in cases.items():
        group = world.add_elastic(name)
        node = lay_out_room(world, group)
        pods[name] = world.run_on(name, node, group, {GPU: gpus}, annotations=said)
        if name == "on-a-marked-node":
            world.keep(node)
    with world.autoscaler():
        assert world.watch_for(LONG, lambda: [name for name, pod in pods.items() if world.is_leaving(pod)]) is None
    assert all(len(world.groups.nodes(group.name)) == 2 for group in world.groups.list_groups())


def test_a_running_pod_that_uses_one_of_eight_gpus_is_moved_where_another_node_has_room(
    world: ScalingWorld,
) -> None:
    """Why elastic pools keep their size: docs/decisions/0050-elastic-pools-keep-their-size.md."""
    group = world.add_elastic()
    busy, other = world.fill(group, 2)
    world.run_on("large", busy, group, {GPU: 5})
    pod = world.run_on("small", other, group, {GPU: 1})
    with world.autoscaler():
        wait_for("the move of the small pod", lambda: world.is_leaving(pod), seconds=LONG)
    assert ("Normal", "ScaleDown", MOVED) in world.told()
    assert [each["metadata"]["labels"]["job-name"] for each in world.bound_of("large")] == ["large"]


def test_with_a_threshold_below_its_share_the_small_pod_is_not_moved_and_empty_nodes_go(
    world: ScalingWorld,
) -> None:
    """GKE has this threshold in a ComputeClass alone (`gpuConsolidationThreshold`)."""
    group = world.add_elastic()
    kept, used, empty = world.fill(group, 3)
    world.keep(kept)
    pod = world.run_on("serve", used, group, {GPU: 1})
    with world.autoscaler(gpu_threshold=0.1):
        wait_for("the end of the empty node", lambda: empty not in world.groups.nodes(group))
        assert world.watch_for(LONG, lambda: world.is_leaving(pod)) is None


def test_a_small_pod_that_comes_to_a_node_nearly_gone_is_moved_soon(world: ScalingWorld) -> None:
    """The time during which a node was empty counts as time in which it was not needed."""
    group = world.add_elastic()
    node = lay_out_room(world, group)
    unneeded = 30.0
    with world.autoscaler(unneeded=unneeded):
        time.sleep(unneeded / 2)
        came = time.monotonic()
        pod = world.run_on("serve", node, group, {GPU: 1})
        wait_for("the move of the pod", lambda: world.is_leaving(pod))
        assert time.monotonic() - came < unneeded


@UPSTREAM_ONLY
def test_upstream_does_not_remove_a_slice_of_several_hosts_that_another_process_keeps(
    world: ScalingWorld,
) -> None:
    """It takes each host's group for another one, and a slice goes whole or not at all.

    So a difference from GKE's own program, whose groups are its own: see the evidence.
    """
    group = world.add_slice(hosts=2)
    world.fill(group, 2)
    with world.autoscaler():
        assert world.watch_for(LONG, lambda: world.groups.asked("delete", group)) is None


@UPSTREAM_ONLY
def test_upstream_measures_a_host_of_tpus_by_cpu_and_memory(world: ScalingWorld) -> None:
    """GKE's own program counts TPUs as GPUs, so this is where it differs from what runs here."""
    group = world.add_tpu_hosts()
    pod = world.run_on("serve", lay_out_room(world, group), group, {TPU: 4})
    with world.autoscaler():
        wait_for("the move of a pod that uses all TPUs", lambda: world.is_leaving(pod), seconds=LONG)
