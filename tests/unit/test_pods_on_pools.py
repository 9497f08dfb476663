"""Which pods on a pool need it, and how old the look at them may be: the boundaries."""

from typing import Any

import pytest
from shared.core.decide.pool_facts import PoolPods, count_pods

from shared.model.readings import BoundPod
from shared.model.times import is_fresh
from tests.builders import NOW, a_pool

DRAIN = 900


def a_bound(**fields: Any) -> BoundPod:
    plain = {"name": "p", "namespace": "default", "kind": "JobSet", "workload": "train"}
    return BoundPod(**{**plain, "chips": 4, "deleting_since": None, **fields})


@pytest.mark.parametrize(
    ("pod", "counted"),
    [
        (a_bound(), PoolPods(own=1, staying=1)),
        (a_bound(deleting_since=NOW - DRAIN), PoolPods(own=1)),
        (a_bound(deleting_since=NOW - DRAIN - 1), PoolPods()),
        (a_bound(chips=0, created_at=NOW - DRAIN), PoolPods(own=1, staying=1)),
        (a_bound(chips=0, created_at=NOW - DRAIN - 1), PoolPods()),
        (a_bound(workload="other"), PoolPods(others=(a_bound(workload="other"),))),
        (
            a_bound(workload="other", deleting_since=NOW - DRAIN),
            PoolPods(others=(a_bound(workload="other", deleting_since=NOW - DRAIN),)),
        ),
        (a_bound(workload="other", deleting_since=NOW - DRAIN - 1), PoolPods()),
        (a_bound(workload="other", chips=0), PoolPods()),
    ],
)
def test_a_pod_needs_its_pool_until_it_has_drained_for_too_long(pod: BoundPod, counted: PoolPods) -> None:
    assert count_pods(a_pool().owner, [pod], now=NOW, drain_seconds_max=DRAIN) == counted


@pytest.mark.parametrize(
    ("age", "objects", "fresh"),
    [(0, 0, True), (10, 0, True), (10.1, 0, False), (20, 100, True), (20.1, 100, False), (-1, 0, False)],
)
def test_a_look_is_fresh_for_seconds_and_never_after_a_clock_went_back(
    age: float, objects: int, *, fresh: bool
) -> None:
    assert is_fresh(NOW - age, now=NOW, objects=objects) is fresh
