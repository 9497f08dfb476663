"""Idle pools: since when they count, and which of them make room under a limit."""

from functools import partial

import pytest

from shared.core import labels
from shared.core.decide.limits import CountedPools
from shared.core.decide.pool_facts import OwnerState, PoolFacts
from shared.core.decide.warm_pools import choose_displaced, find_idle_since, list_displaceable
from shared.core.demand.demand import Demand
from shared.core.identity.names import build_owner_labels, build_pool_name, parse_owner
from shared.core.identity.pools import PoolSnapshot
from shared.core.ports import LimitHold, SurplusMark
from tests.builders import NOW, a_claim, a_demand, a_jobset, a_pod, a_pool, a_template, settings


def test_the_oldest_mark_that_can_be_true_counts() -> None:
    marks = {
        "old": SurplusMark(NOW - 600, closed=False),
        "repaired": SurplusMark(NOW - 60, closed=False),
        "new": None,
        "ahead": SurplusMark(NOW + 3600, closed=False),
    }

    assert find_idle_since(marks, NOW) == NOW - 600
    assert find_idle_since({"new": None, "ahead": marks["ahead"]}, NOW) is None
    assert find_idle_since({}, NOW) is None


def test_the_idle_time_is_written_once_and_read_from_the_label() -> None:
    pod_labels = build_owner_labels(
        a_claim(), attempt=0, created_at=1, fingerprint="1-a", optional={labels.IDLE: 900}
    )

    owner = parse_owner(pod_labels)
    assert owner is not None
    assert owner.idle_seconds == 900
    assert labels.IDLE not in build_owner_labels(a_claim(), attempt=0, created_at=1, fingerprint="1-a")


@pytest.mark.parametrize("value", ["", "soon", "-5", "1.5"])
def test_a_label_that_is_no_number_means_no_idle_time(value: str) -> None:
    owner = a_pool(extra_labels={labels.IDLE: value}).owner

    assert owner is not None
    assert owner.idle_seconds == 0


def test_the_idle_time_does_not_change_the_fingerprint() -> None:
    template = a_template(node_pool_affinity=True)

    def ask(idle_seconds: int) -> Demand:
        return a_demand(pod=a_pod(template=template), use=settings(idle_seconds=idle_seconds))

    assert (ask(0).idle_seconds, ask(600).idle_seconds) == (0, 600)
    assert ask(0).fingerprint == ask(600).fingerprint


# --- who makes room -------------------------------------------------------------------------------


def a_slice(index: int, namespace: str = "default") -> PoolSnapshot:
    claim = a_claim(slice_key=f"{namespace}/old-workers-{index}", namespace=namespace)
    return a_pool(claim=claim, name=f"old-{index}")


def choose(
    idle: dict[str, float],
    pools: list[PoolSnapshot],
    *,
    demands: int = 1,
    holds: dict[str, LimitHold] | None = None,
    gone: tuple[str, ...] = (),
    limits: dict[str, int],
) -> list[str]:
    """Return which pools may make room for some slices of 16 chips, the first one first."""
    pods = [a_pod(jobset="next", index=at) for at in range(demands)]
    jobset = a_jobset(name="next", replicas=demands)
    wanted = [a_demand(pod=pod, jobset=jobset) for pod in pods]
    use, counted = settings(**limits), CountedPools(pools, holds or {})
    warm = [
        PoolFacts(pool=pool, owner=OwnerState.GONE, marks={"n": SurplusMark(idle[pool.name], closed=False)})
        for pool in pools
    ]
    old = list_displaceable(warm, now=NOW, settings=use)
    for demand in wanted:
        measure = partial(counted.measure, demand, build_pool_name(demand.claim), *gone)
        if found := choose_displaced(demand, old, measure, settings=use):
            return [pool.name for pool in found]
    return []


FOUR = [a_slice(at) for at in range(4)]
IDLE = {"old-2": NOW - 900, "old-0": NOW - 600, "old-3": NOW - 300, "old-1": NOW - 299}
"""Since when; the last one is in the grace, and may be in the gap of a restart."""


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"limit_chips": 80}, []),
        ({"limit_chips": 64}, ["old-2", "old-0", "old-3"]),
        ({"limit_chips": 32}, ["old-2", "old-0", "old-3"]),
        ({"limit_chips": 16}, []),
        ({"limit_slices": 4}, ["old-2", "old-0", "old-3"]),
        ({"limit_chips_per_namespace": 64}, ["old-2", "old-0", "old-3"]),
    ],
)
def test_those_that_are_idle_for_longest_go_first_and_none_in_the_grace(
    limits: dict[str, int], expected: list[str]
) -> None:
    assert choose(IDLE, FOUR, demands=2, limits=limits) == expected


def test_a_pool_of_a_namespace_that_is_not_full_is_spared() -> None:
    pools = [a_slice(0, "team"), a_slice(1), a_slice(2)]
    idle = {"old-0": 1.0, "old-1": 2.0, "old-2": 3.0}

    assert choose(idle, pools, limits={"limit_chips_per_namespace": 32}) == ["old-1", "old-2"]
    assert choose(idle, pools, limits={"limit_chips": 48}) == ["old-0", "old-1", "old-2"]


def test_what_this_sweep_has_deleted_makes_room_too() -> None:
    assert choose(IDLE, FOUR, gone=("old-1",), limits={"limit_chips": 64}) == []


def test_a_pool_that_is_about_to_be_created_takes_its_room() -> None:
    coming = {name: LimitHold(namespace="default", chips=16, made_at=NOW) for name in ("a", "b", "c")}

    assert choose(IDLE, FOUR, holds=coming, limits={"limit_chips": 64}) == []
