"""What an autoscaler must do, told once for each one that plays it.

`SHARED` is what upstream's program does too; `GKE_WORDS` is what only GKE's own says, in the words
of its Events. A scenario takes an `AutoscalerWorld`.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

from standins.autoscaler.tests.autoscaler_world import GPU

if TYPE_CHECKING:
    from collections.abc import Callable

    from standins.autoscaler.tests.autoscaler_world import AutoscalerWorld

MINUTE = 60.0
KEY = "jobset.sigs.k8s.io/job-key"


def _sell_out(world: AutoscalerWorld, pool: str = "*", kind: str = "stockout") -> None:
    world.add_fault(switch="outcome", kind=kind, pool=pool)


def _choose(pool: str) -> dict[str, str]:
    return {"cloud.google.com/gke-nodepool": pool}


def one_pod_brings_all_hosts_of_a_slice(world: AutoscalerWorld) -> None:
    world.add_pool("slice")
    world.add_pod("leader")
    world.advance(20)
    assert world.read_target("slice") == 4
    world.advance(12 * MINUTE)
    assert (world.count_nodes("slice"), world.find_pool_of("leader")) == (4, "slice")


def a_pool_that_no_pod_needs_stays_empty(world: AutoscalerWorld) -> None:
    world.add_pool("slice")
    world.add_pod("elsewhere", selector=_choose("another"))
    world.add_pod("not-tolerating", tolerates=False)
    world.add_pod("too-large", requests={"google.com/tpu": "8"})
    world.advance(5 * MINUTE)
    assert (world.read_target("slice"), world.count_nodes("slice")) == (0, 0)


def a_pool_of_single_hosts_grows_by_what_the_pods_need_and_not_above_its_maximum(world: AutoscalerWorld) -> None:
    world.add_pool("gpus", hosts=3, **GPU)
    for index in range(4):
        world.add_pod(f"half-{index}", requests={"nvidia.com/gpu": "4"})
    world.advance(30)
    assert world.read_target("gpus") == 2
    world.advance(5 * MINUTE)
    for index in range(6):
        world.add_pod(f"full-{index}", requests={"nvidia.com/gpu": "8"})
    world.advance(5 * MINUTE)
    assert (world.read_target("gpus"), world.count_nodes("gpus")) == (3, 3)


def pods_that_nodes_on_their_way_will_take_bring_no_more(world: AutoscalerWorld) -> None:
    world.add_pool("one")
    world.add_pool("two")
    for index in range(4):
        world.add_pod(f"pod-{index}")
    world.advance(2 * MINUTE)
    assert sorted((world.read_target("one"), world.read_target("two"))) == [0, 4]


def leaders_that_keep_each_other_away_get_a_slice_each(world: AutoscalerWorld) -> None:
    world.add_pool("one")
    world.add_pool("two")
    for index in range(2):
        world.add_pod(f"leader-{index}", labels={KEY: str(index)}, anti_affinity=KEY)
    world.advance(MINUTE)
    assert (world.read_target("one"), world.read_target("two")) == (4, 4)


def what_cannot_be_made_is_given_up_and_left_alone_for_five_minutes_then_ten(world: AutoscalerWorld) -> None:
    world.add_pool("slice")
    _sell_out(world)
    world.add_pod("leader")
    world.advance(MINUTE)
    assert (world.read_target("slice"), world.count_nodes("slice")) == (0, 0)
    wanted = []
    for _ in range(24 * 6):
        world.advance(10)
        wanted.append(world.read_target("slice") == 4)
    begins = [10 * index for index, now in enumerate(wanted) if now and not wanted[index - 1]]
    gaps = [later - earlier for earlier, later in itertools.pairwise(begins)]
    assert 4 * MINUTE <= begins[0] <= 6 * MINUTE
    assert 10 * MINUTE <= gaps[0] <= 12 * MINUTE


def capacity_that_comes_serves_the_next_try(world: AutoscalerWorld) -> None:
    world.add_pool("slice")
    _sell_out(world)
    world.add_pod("leader")
    world.advance(2 * MINUTE)
    world.clear_faults()
    world.advance(18 * MINUTE)
    assert (world.count_nodes("slice"), world.find_pool_of("leader")) == (4, "slice")


def another_pool_that_the_pods_fit_is_next(world: AutoscalerWorld) -> None:
    world.add_pool("one")
    _sell_out(world, "one")
    world.add_pod("leader")
    world.advance(MINUTE)
    assert world.read_target("one") == 0
    world.add_pool("two")
    world.advance(12 * MINUTE)
    assert world.find_pool_of("leader") == "two"


def nodes_that_do_not_come_in_time_are_given_up(world: AutoscalerWorld) -> None:
    world.add_pool("slice")
    world.add_fault(switch="late_nodes", nodes=4, seconds=36_000, count=1)
    world.add_pod("leader")
    world.advance(14 * MINUTE)
    assert world.read_target("slice") == 4
    world.advance(2 * MINUTE)
    assert world.read_target("slice") == 0


def an_idle_slice_goes_as_a_whole_after_ten_minutes(world: AutoscalerWorld) -> None:
    world.add_pool("slice")
    for index in range(4):
        world.add_pod(f"pod-{index}")
    world.advance(25 * MINUTE)
    for index in range(3):
        world.end_pod(f"pod-{index}")
    world.advance(30 * MINUTE)
    assert world.count_nodes("slice") == 4
    world.end_pod("pod-3")
    world.advance(9 * MINUTE)
    assert world.count_nodes("slice") == 4
    world.advance(3 * MINUTE)
    assert (world.read_target("slice"), world.count_nodes("slice")) == (0, 0)


def an_annotation_keeps_idle_nodes(world: AutoscalerWorld) -> None:
    world.add_pool("slice")
    world.add_pod("leader")
    world.advance(15 * MINUTE)
    world.keep_nodes("slice")
    world.end_pod("leader")
    world.advance(60 * MINUTE)
    assert world.count_nodes("slice") == 4


def pods_whose_accelerators_fill_their_hosts_are_never_moved(world: AutoscalerWorld) -> None:
    world.add_pool("gpus", hosts=4, **GPU)
    for index in range(3):
        world.add_pod(f"pod-{index}", requests={"nvidia.com/gpu": "8"})
    world.advance(60 * MINUTE)
    assert all(world.find_pool_of(f"pod-{index}") == "gpus" for index in range(3))
    world.end_pod("pod-1")
    world.advance(15 * MINUTE)
    assert (world.count_nodes("gpus"), world.find_pool_of("pod-0"), world.find_pool_of("pod-2")) == (
        2,
        "gpus",
        "gpus",
    )


def a_pod_that_fills_its_host_stays_there_although_another_host_is_free(world: AutoscalerWorld) -> None:
    world.add_pool("spare", hosts=1, **GPU)
    world.add_pod("first", requests={"nvidia.com/gpu": "8"})
    world.advance(5 * MINUTE)
    world.keep_nodes("spare")
    world.add_pool("gpus", hosts=1, **GPU)
    world.add_pod("second", requests={"nvidia.com/gpu": "8"})
    world.advance(5 * MINUTE)
    world.end_pod("first")
    world.advance(60 * MINUTE)
    assert (world.count_nodes("spare"), world.find_pool_of("second")) == (1, "gpus")


def _use_a_part_of_two_hosts(world: AutoscalerWorld, annotations: dict[str, Any]) -> None:
    world.add_pool("gpus", hosts=2, **GPU)
    for name in ("full-0", "full-1"):
        world.add_pod(name, requests={"nvidia.com/gpu": "6"})
    world.advance(6 * MINUTE)
    for name in ("part-0", "part-1"):
        world.add_pod(name, requests={"nvidia.com/gpu": "2"}, annotations=annotations)
    world.advance(15 * MINUTE)
    assert world.count_nodes("gpus") == 2
    world.end_pod("full-0")
    world.end_pod("full-1")


def a_host_with_few_accelerators_in_use_is_drained_if_its_pods_fit_elsewhere(world: AutoscalerWorld) -> None:
    _use_a_part_of_two_hosts(world, {})
    world.advance(12 * MINUTE)
    assert world.count_nodes("gpus") == 1
    assert [world.find_pool_of(name) for name in ("part-0", "part-1")] == ["gpus", "gpus"]


def a_pod_that_may_not_be_evicted_keeps_its_host(world: AutoscalerWorld) -> None:
    _use_a_part_of_two_hosts(world, {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"})
    world.advance(60 * MINUTE)
    assert world.count_nodes("gpus") == 2


def flex_start_waits_for_hours_without_a_failure(world: AutoscalerWorld) -> None:
    world.add_pool("flex", config={"flex_start": True})
    _sell_out(world)
    world.add_pod("leader")
    world.advance(3 * 60 * MINUTE)
    assert world.read_target("flex") == 4
    assert world.list_events("leader", "FailedScaleUp") == []
    world.clear_faults()
    world.advance(12 * MINUTE)
    assert world.find_pool_of("leader") == "flex"


def the_pod_reads_that_and_why_its_pool_cannot_grow(world: AutoscalerWorld) -> None:
    world.add_pool("slice")
    _sell_out(world)
    world.add_pod("leader")
    world.advance(2 * MINUTE)
    (asked,) = world.list_events("leader", "TriggeredScaleUp")
    url = r"https://www\.googleapis\.com/compute/v1/projects/\S+/zones/\S+/instanceGroups/gke-\S+-grp"
    assert re.fullmatch(rf"pod triggered scale-up: \[\{{{url} 0->4 \(max: 4\)\}}\]", asked.message)
    (failed,) = world.list_events("leader", "FailedScaleUp")
    assert failed.type == "Warning"
    assert failed.at - asked.at <= MINUTE
    assert re.fullmatch(
        r"Node scale up in zones [a-z0-9-]+ associated with this pod failed: GCE out of resources\. "
        r"Pod is at risk of not being scheduled\.",
        failed.message,
    )
    (paused,) = world.list_events("leader", "NotTriggerScaleUp")
    assert paused.message == "pod didn't trigger scale-up: 1 in backoff after failed scale-up"


def each_cause_has_gkes_words(world: AutoscalerWorld) -> None:
    for pool, kind, words in (
        ("quota", "quota", "GCE quota exceeded"),
        ("addresses", "ip", "IP space exhausted"),
        ("rights", "permission", "Internal error"),
        ("reserved", "reservation", "Reservation capacity exceeded"),
    ):
        world.add_pool(pool)
        _sell_out(world, pool, kind)
        world.add_pod(f"pod-{pool}", selector=_choose(pool))
        world.advance(MINUTE)
        (failed,) = world.list_events(f"pod-{pool}", "FailedScaleUp")
        assert f"associated with this pod failed: {words}. Pod is at risk" in failed.message


def a_pod_that_fits_nowhere_reads_why(world: AutoscalerWorld) -> None:
    world.add_pool("slice")
    world.add_pod("elsewhere", selector=_choose("another"))
    world.add_pod("large", requests={"google.com/tpu": "8"})
    world.advance(MINUTE)
    (mismatch,) = world.list_events("elsewhere", "NotTriggerScaleUp")
    assert mismatch.message.endswith(": 1 node(s) didn't match Pod's node affinity/selector")
    (large,) = world.list_events("large", "NotTriggerScaleUp")
    assert large.message.endswith(": 1 Insufficient google.com/tpu")


SHARED: tuple[Callable[[AutoscalerWorld], None], ...] = (
    one_pod_brings_all_hosts_of_a_slice,
    a_pool_that_no_pod_needs_stays_empty,
    a_pool_of_single_hosts_grows_by_what_the_pods_need_and_not_above_its_maximum,
    pods_that_nodes_on_their_way_will_take_bring_no_more,
    leaders_that_keep_each_other_away_get_a_slice_each,
    what_cannot_be_made_is_given_up_and_left_alone_for_five_minutes_then_ten,
    capacity_that_comes_serves_the_next_try,
    another_pool_that_the_pods_fit_is_next,
    nodes_that_do_not_come_in_time_are_given_up,
    an_idle_slice_goes_as_a_whole_after_ten_minutes,
    an_annotation_keeps_idle_nodes,
    pods_whose_accelerators_fill_their_hosts_are_never_moved,
    a_pod_that_fills_its_host_stays_there_although_another_host_is_free,
    a_host_with_few_accelerators_in_use_is_drained_if_its_pods_fit_elsewhere,
    a_pod_that_may_not_be_evicted_keeps_its_host,
)
GKE_WORDS: tuple[Callable[[AutoscalerWorld], None], ...] = (
    flex_start_waits_for_hours_without_a_failure,
    the_pod_reads_that_and_why_its_pool_cannot_grow,
    each_cause_has_gkes_words,
    a_pod_that_fits_nowhere_reads_why,
)
