"""One table of scenarios for every autoscaler, and the test that runs it on ours."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from standins.autoscaler.tests.autoscaler_world import GPU, TPU_HOSTS, AutoscalerWorld

MINUTE = 60.0
SOON, LATER = 5 * MINUTE, 30 * MINUTE
KEY = "jobset.sigs.k8s.io/job-key"
STAYS = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
PAUSED = "pod didn't trigger scale-up: 1 in backoff after failed scale-up"


def _sell_out(world: AutoscalerWorld, pool: str = "*", kind: str = "stockout") -> None:
    world.add_fault(switch="outcome", kind=kind, pool=pool)


def _gpus(count: int) -> dict[str, str]:
    return {"nvidia.com/gpu": str(count)}


def _runs(world: AutoscalerWorld, *pods: str) -> bool:
    return all(map(world.find_node_of, pods))


def _grows(world: AutoscalerWorld, pool: str, size: int) -> None:
    """Wait until a group is told a size, in one step."""
    world.wait_for(lambda: world.read_target(pool), SOON)
    assert world.read_target(pool) == size


def one_pod_brings_all_hosts_of_a_slice(world: AutoscalerWorld) -> None:
    world.add_pool("slice")
    world.add_pod("leader")
    _grows(world, "slice", 4)
    world.wait_for(lambda: len(world.list_nodes("slice")) == 4 and _runs(world, "leader"), 12 * MINUTE)


def each_pod_of_a_slice_reads_what_it_brought(world: AutoscalerWorld) -> None:
    world.add_pool("slice")
    for index in range(4):
        world.add_pod(f"pod-{index}")
    world.wait_for(lambda: _runs(world, *(f"pod-{index}" for index in range(4))), 12 * MINUTE)
    url = r"https://www\.googleapis\.com/compute/v1/projects/\S+/zones/\S+/instanceGroups/gke-\S+-grp"
    for index in range(4):
        (asked,) = world.list_events(f"pod-{index}", "TriggeredScaleUp")
        assert asked.type == "Normal"
        assert re.fullmatch(rf"pod triggered scale-up: \[\{{{url} 0->4 \(max: 4\)\}}\]", asked.message)


def a_pool_that_no_pod_needs_stays_empty(world: AutoscalerWorld) -> None:
    world.add_pool("slice")
    world.add_pod("elsewhere", pool="another")
    world.add_pod("too-large", requests={"google.com/tpu": "8"})
    world.see_that(lambda: world.read_target("slice") == 0, 5 * MINUTE)


def a_pool_whose_taint_no_pod_tolerates_stays_empty(world: AutoscalerWorld) -> None:
    world.add_pool("slice")
    world.add_pod("not-tolerating", tolerates=False)
    world.see_that(lambda: world.read_target("slice") == 0, 5 * MINUTE)


def a_pod_that_fits_nowhere_reads_why(world: AutoscalerWorld) -> None:
    world.add_pool("slice")
    world.add_pod("elsewhere", pool="another")
    world.add_pod("large", requests={"google.com/tpu": "8"})
    for pod, why in (
        ("elsewhere", "1 node(s) didn't match Pod's node affinity/selector"),
        ("large", "1 Insufficient google.com/tpu"),
    ):
        world.wait_for(lambda pod=pod: world.list_events(pod, "NotTriggerScaleUp"), SOON)  # type: ignore[misc]
        (told,) = world.list_events(pod, "NotTriggerScaleUp")
        assert told.message.endswith(f": {why}")


def a_pool_of_single_hosts_grows_by_what_the_pods_need_and_not_above_its_maximum(world: AutoscalerWorld) -> None:
    world.add_pool("gpus", hosts=3, **GPU)
    for index in range(4):
        world.add_pod(f"half-{index}", requests=_gpus(4))
    _grows(world, "gpus", 2)
    world.wait_for(lambda: _runs(world, *(f"half-{index}" for index in range(4))), LATER)
    for index in range(6):
        world.add_pod(f"full-{index}", requests=_gpus(8))
    world.wait_for(lambda: len(world.list_nodes("gpus")) == 3, LATER)
    world.see_that(lambda: world.read_target("gpus") == 3, 5 * MINUTE)


def pods_that_nodes_on_their_way_will_take_bring_no_more(world: AutoscalerWorld) -> None:
    world.add_pool("one")
    world.add_pool("two")
    for index in range(4):
        world.add_pod(f"pod-{index}")
    world.wait_for(lambda: world.read_target("one") + world.read_target("two"), SOON)
    world.see_that(lambda: sorted((world.read_target("one"), world.read_target("two"))) == [0, 4], 2 * MINUTE)


def leaders_that_keep_each_other_away_get_a_slice_each(world: AutoscalerWorld) -> None:
    world.add_pool("one")
    world.add_pool("two")
    for index in range(2):
        world.add_pod(f"leader-{index}", labels={KEY: str(index)}, anti_affinity=KEY)
    world.wait_for(lambda: (world.read_target("one"), world.read_target("two")) == (4, 4), LATER)


def what_cannot_be_made_is_given_up_and_left_alone_for_5_minutes_then_more_and_at_most_30(
    world: AutoscalerWorld,
) -> None:
    world.add_pool("slice")
    _sell_out(world)
    world.add_pod("leader")
    _grows(world, "slice", 4)
    for minutes in (5, 10, 20, 30, 30):
        world.wait_for(lambda: world.read_target("slice") == 0, SOON)
        passed = world.wait_for(lambda: world.read_target("slice") == 4, 60 * MINUTE)
        # It was given up since the look before.
        assert passed + world.STEP >= minutes * MINUTE
    assert passed < 40 * MINUTE
    assert world.list_nodes("slice") == []
    told = world.list_events("leader", "NotTriggerScaleUp")
    assert PAUSED in [each.message for each in told]


def capacity_that_comes_serves_the_next_try(world: AutoscalerWorld) -> None:
    world.add_pool("slice")
    _sell_out(world)
    world.add_pod("leader")
    _grows(world, "slice", 4)
    world.wait_for(lambda: world.read_target("slice") == 0, SOON)
    world.clear_faults()
    world.wait_for(lambda: len(world.list_nodes("slice")) == 4 and _runs(world, "leader"), LATER)


def another_pool_that_the_pods_fit_is_next(world: AutoscalerWorld) -> None:
    world.add_pool("one")
    _sell_out(world, "one")
    world.add_pod("leader")
    _grows(world, "one", 4)
    world.wait_for(lambda: world.read_target("one") == 0, SOON)
    world.add_pool("two")
    world.wait_for(lambda: world.find_node_of("leader") in world.list_nodes("two"), LATER)


def nodes_that_do_not_come_in_time_are_given_up(world: AutoscalerWorld) -> None:
    world.add_pool("slice")
    world.add_fault(switch="late_nodes", nodes=4, seconds=36_000, count=1)
    world.add_pod("leader")
    _grows(world, "slice", 4)
    assert world.wait_for(lambda: world.read_target("slice") == 0, LATER) >= 14 * MINUTE


def _have_two_hosts(world: AutoscalerWorld, pool: str, changes: dict[str, Any]) -> tuple[str, str]:
    """Let a pool have its two hosts, a slice four, of which pods have left two now."""
    hosts = 2 if changes else 4
    world.add_pool(pool, hosts=hosts, **changes)
    asked = _gpus(8) if changes is GPU else {"google.com/tpu": "4"}
    names = [f"{pool}-{index}" for index in range(2)]
    for name in names:
        world.add_pod(name, requests=asked, pool=pool)
    world.wait_for(lambda: _runs(world, *names) and len(world.list_nodes(pool)) == hosts, LATER)
    one, other = map(world.find_node_of, names)
    for name in names:
        world.end_pod(name)
    return one, other


def an_idle_host_goes_after_ten_minutes(world: AutoscalerWorld) -> None:
    _have_two_hosts(world, "gpus", GPU)
    assert world.wait_for(lambda: len(world.list_nodes("gpus")) < 2, LATER) + world.STEP >= 10 * MINUTE
    world.wait_for(lambda: not world.list_nodes("gpus") and world.read_target("gpus") == 0, LATER)


def an_idle_slice_goes_as_a_whole_after_ten_minutes(world: AutoscalerWorld) -> None:
    one, _ = _have_two_hosts(world, "slice", {})
    world.add_pod("left", near=one)
    world.see_that(lambda: len(world.list_nodes("slice")) == 4, LATER)
    world.end_pod("left")
    assert world.wait_for(lambda: len(world.list_nodes("slice")) != 4, LATER) + world.STEP >= 10 * MINUTE
    assert (world.read_target("slice"), world.list_nodes("slice")) == (0, [])


def an_idle_slice_stays(world: AutoscalerWorld) -> None:
    _have_two_hosts(world, "slice", {})
    world.see_that(lambda: world.read_target("slice") == len(world.list_nodes("slice")) == 4, LATER)


def an_annotated_node_stays_until_the_annotation_goes(world: AutoscalerWorld) -> None:
    kept, _ = _have_two_hosts(world, "gpus", GPU)
    world.keep_node(kept)
    world.wait_for(lambda: world.list_nodes("gpus") == [kept], LATER)
    world.see_that(lambda: world.list_nodes("gpus") == [kept], LATER)
    world.keep_node(kept, kept=False)
    world.wait_for(lambda: not world.list_nodes("gpus"), LATER)


def _run_beside_room(
    world: AutoscalerWorld, pool: str, changes: dict[str, Any] = GPU, *, after: float = 0.0, **pod: Any
) -> str:
    """Let the pod `runs-POOL` run on a host whose neighbour has room and stays; return its host."""
    kept, host = _have_two_hosts(world, pool, changes)
    world.keep_node(kept)
    world.advance(after)
    world.add_pod(f"runs-{pool}", pool=pool, near=host, **pod)
    world.wait_for(lambda: _runs(world, f"runs-{pool}"), SOON)
    assert world.find_node_of(f"runs-{pool}") == host
    return host


def pods_with_half_of_their_hosts_gpus_or_that_must_stay_are_not_moved(world: AutoscalerWorld) -> None:
    """The next scenario is this one's control: there a pod is moved in the same time."""
    homes = {
        name: _run_beside_room(world, name, requests=_gpus(count), annotations=annotations)
        for name, count, annotations in (
            ("all", 8, {}),
            ("half", 4, {}),
            ("unsafe", 1, STAYS),
            ("annotated", 1, {}),
        )
    }
    world.keep_node(homes["annotated"])
    world.see_that(lambda: all(world.find_node_of(f"runs-{name}") == homes[name] for name in homes), LATER)


def a_pod_with_few_of_its_hosts_gpus_is_moved_where_another_host_has_room(world: AutoscalerWorld) -> None:
    host = _run_beside_room(world, "gpus", requests=_gpus(1))
    world.wait_for(lambda: host not in world.list_nodes("gpus") and _runs(world, "runs-gpus"), LATER)
    assert [world.find_node_of("runs-gpus")] == world.list_nodes("gpus")


def below_the_threshold_such_a_pod_is_not_moved_and_empty_hosts_go(world: AutoscalerWorld) -> None:
    """GKE has the threshold in a ComputeClass alone (`gpuConsolidationThreshold`)."""
    host = _run_beside_room(world, "gpus", requests=_gpus(1))
    _have_two_hosts(world, "empty", GPU)
    world.wait_for(lambda: not world.list_nodes("empty"), LATER)
    world.see_that(lambda: world.find_node_of("runs-gpus") == host, LATER)


def a_pod_that_comes_to_a_host_nearly_gone_is_moved_soon(world: AutoscalerWorld) -> None:
    """The time during which a host was empty counts as time in which it was not needed."""
    host = _run_beside_room(world, "gpus", after=5 * MINUTE, requests=_gpus(1))
    assert world.wait_for(lambda: world.find_node_of("runs-gpus") != host, LATER) < 9 * MINUTE


def a_pod_with_all_tpus_of_its_host_is_not_moved(world: AutoscalerWorld) -> None:
    host = _run_beside_room(world, "hosts", TPU_HOSTS)
    world.see_that(lambda: world.find_node_of("runs-hosts") == host, LATER)


def a_pod_with_all_tpus_of_its_host_is_moved(world: AutoscalerWorld) -> None:
    host = _run_beside_room(world, "hosts", TPU_HOSTS)
    world.wait_for(lambda: world.find_node_of("runs-hosts") != host, LATER)


def flex_start_waits_for_an_hour_without_a_failure(world: AutoscalerWorld) -> None:
    world.add_pool("flex", config={"flex_start": True})
    _sell_out(world)
    world.add_pod("leader")
    _grows(world, "flex", 4)
    world.see_that(lambda: world.read_target("flex") == 4, 60 * MINUTE)
    assert world.list_events("leader", "FailedScaleUp") == []
    world.clear_faults()
    world.wait_for(lambda: world.find_node_of("leader") in world.list_nodes("flex"), 12 * MINUTE)


def the_pod_reads_why_its_pool_cannot_grow(world: AutoscalerWorld) -> None:
    for pool, kind, words in (
        ("stockout", "stockout", "GCE out of resources"),
        ("quota", "quota", "GCE quota exceeded"),
        ("addresses", "ip", "IP space exhausted"),
        ("rights", "permission", "Internal error"),
        ("reserved", "reservation", "Reservation capacity exceeded"),
    ):
        world.add_pool(pool)
        _sell_out(world, pool, kind)
        world.add_pod(f"pod-{pool}", pool=pool)
        world.wait_for(lambda pod=f"pod-{pool}": world.list_events(pod, "FailedScaleUp"), MINUTE)  # type: ignore[misc]
        (failed,) = world.list_events(f"pod-{pool}", "FailedScaleUp")
        (asked,) = world.list_events(f"pod-{pool}", "TriggeredScaleUp")
        assert failed.at - asked.at <= MINUTE
        assert failed.type == "Warning"
        assert re.fullmatch(
            rf"Node scale up in zones [a-z0-9-]+ associated with this pod failed: {words}\. "
            r"Pod is at risk of not being scheduled\.",
            failed.message,
        )


STAND_IN, UPSTREAM = "stand-in", "upstream"


@dataclass(frozen=True)
class Row:
    """A scenario, and who shows it."""

    play: Callable[[AutoscalerWorld], None]
    only: str = ""
    why: str = ""  # what the other one does, and why
    threshold: float = 0.5
    """Which part of a host's accelerators must be requested for its pods not to be moved."""
    slow: bool = False
    """It has an upper bound that is true, so a program needs more real time for it."""


_NO_CAUSE = "upstream's program writes no Event with the cause; GKE's own adds FailedScaleUp"
_OTHER_GROUPS = (
    "with an external cloud, upstream's program takes each node's group for another object, and never finds all "
    "nodes of one"
)
_TOLERATED = "the real API server adds the toleration of what a pod requests (ExtendedResourceToleration)"
_BY_CPU = "upstream's program measures a host with TPUs by CPU and memory; GKE's own counts TPUs as GPUs"
ROWS: tuple[Row, ...] = (
    Row(one_pod_brings_all_hosts_of_a_slice),
    Row(each_pod_of_a_slice_reads_what_it_brought),
    Row(a_pool_that_no_pod_needs_stays_empty),
    Row(a_pool_whose_taint_no_pod_tolerates_stays_empty, STAND_IN, _TOLERATED),
    Row(a_pod_that_fits_nowhere_reads_why),
    Row(a_pool_of_single_hosts_grows_by_what_the_pods_need_and_not_above_its_maximum),
    Row(pods_that_nodes_on_their_way_will_take_bring_no_more),
    Row(leaders_that_keep_each_other_away_get_a_slice_each),
    Row(what_cannot_be_made_is_given_up_and_left_alone_for_5_minutes_then_more_and_at_most_30),
    Row(capacity_that_comes_serves_the_next_try),
    Row(another_pool_that_the_pods_fit_is_next),
    Row(nodes_that_do_not_come_in_time_are_given_up),
    Row(an_idle_host_goes_after_ten_minutes),
    Row(an_idle_slice_goes_as_a_whole_after_ten_minutes, STAND_IN, _OTHER_GROUPS),
    Row(an_idle_slice_stays, UPSTREAM, _OTHER_GROUPS),
    Row(an_annotated_node_stays_until_the_annotation_goes),
    Row(pods_with_half_of_their_hosts_gpus_or_that_must_stay_are_not_moved),
    Row(a_pod_with_few_of_its_hosts_gpus_is_moved_where_another_host_has_room),
    Row(below_the_threshold_such_a_pod_is_not_moved_and_empty_hosts_go, threshold=0.1),
    Row(a_pod_that_comes_to_a_host_nearly_gone_is_moved_soon, slow=True),
    Row(a_pod_with_all_tpus_of_its_host_is_not_moved, STAND_IN, _BY_CPU),
    Row(a_pod_with_all_tpus_of_its_host_is_moved, UPSTREAM, _BY_CPU),
    Row(flex_start_waits_for_an_hour_without_a_failure, STAND_IN, "upstream's program knows no flex-start"),
    Row(the_pod_reads_why_its_pool_cannot_grow, STAND_IN, _NO_CAUSE),
)


def list_rows(program: str) -> list[Row]:
    """Return the rows that a program shows."""
    return [each for each in ROWS if each.only in ("", program)]
