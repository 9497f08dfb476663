"""How large an elastic pool shall be: every combination of sizes, and of what a node may be."""

import itertools
from collections.abc import Iterable

import pytest
from shared.core.decide.elastic_sizes import SeenPool, Shrink, decide_growth, plan_shrink
from shared.core.decide.limits import Usage

from shared.engine.outside import SurplusMark
from shared.model.decisions import Reason, Verdict
from shared.needs.demand import Demand
from tests.builders import a_pool, expect_demand, settings
from tests.unit.test_elastic import a_gpu_body
from tests.unit.test_gpu_shapes import plan

GRACE, NOW = 300.0, 10_000.0
CLOSED = SurplusMark(NOW - 2 * GRACE, closed=True)
KINDS: dict[str, tuple[bool, SurplusMark | None]] = {
    "used": (True, None),
    "used and marked": (True, SurplusMark(NOW - 10 * GRACE, closed=False)),
    "used and closed": (True, SurplusMark(NOW - 10 * GRACE, closed=True)),
    "empty": (False, None),
    "just marked": (False, SurplusMark(NOW - 1, closed=False)),
    "marked long ago": (False, SurplusMark(NOW - GRACE, closed=False)),
    "closed": (False, CLOSED),
}
"""Of a node: if it is used, and our mark."""


def a_demand(pods: int) -> Demand:
    return expect_demand(plan(a_gpu_body(), pods=pods))


@pytest.mark.parametrize("size", range(6))
@pytest.mark.parametrize("pods", range(1, 6))
def test_a_pool_grows_to_what_its_pods_need_and_is_never_made_smaller(size: int, pods: int) -> None:
    found = decide_growth(a_demand(pods), "pool", size=size, settings=settings())
    grows = size < pods
    assert found.verdict == (Verdict.RESIZE if grows else Verdict.KEEP)
    assert found.reason == (Reason.POOL_GROWS if grows else Reason.POOL_SERVES)


def test_a_limit_counts_all_gpus_that_the_pool_would_have() -> None:
    limited = settings(limit_chips=8)
    small, large = (
        decide_growth(a_demand(pods), "pool", size=1, settings=limited, usage=Usage(chips=4)) for pods in (4, 5)
    )
    assert (small.reason, large.reason) == (Reason.POOL_GROWS, Reason.LIMIT_REACHED)


def plan_nodes(
    marks: dict[str, SurplusMark | None], wanted: int, *, used: Iterable[str] = (), size: int = 0, missing: int = 0
) -> Shrink:
    seen = SeenPool(
        pool=a_pool(),
        size=size or len(marks),
        wanted=wanted,
        marks=marks,
        used=frozenset(used),
        missing=[f"m{at}" for at in range(missing)],
    )
    return plan_shrink(seen, now=NOW, grace_seconds=GRACE)


@pytest.mark.parametrize("wanted", range(1, 5))
@pytest.mark.parametrize("kinds", list(itertools.combinations_with_replacement(KINDS, 3)))
def test_only_empty_surplus_nodes_leave_and_only_step_by_step(kinds: tuple[str, ...], wanted: int) -> None:
    marks = {f"n{at}": KINDS[kind][1] for at, kind in enumerate(kinds)}
    used = {f"n{at}" for at, kind in enumerate(kinds) if KINDS[kind][0]}
    found = plan_nodes(marks, wanted, used=used)
    cleared = {name for name, (since, _) in found.marks.items() if since is None}
    leaving = {*found.remove, *found.marks} - cleared
    assert not used & leaving
    assert len(leaving) <= max(0, 3 - wanted)
    assert all((mark := marks[name]) and mark.closed for name in found.remove)
    for name, (since, closed) in found.marks.items():
        before = marks[name]
        if since is None:
            assert before is not None
        elif before is None:
            assert (since, closed) == (NOW, False)
        else:
            assert (since, closed, before.closed) == (before.since, True, False)
            assert NOW - since >= GRACE
    unchanged = {name for name, mark in marks.items() if mark} - {*found.remove, *found.marks}
    assert all(marks[name] == KINDS["just marked"][1] for name in unchanged)
    assert {name for name in used if marks[name]} <= cleared


def test_nodes_that_are_closed_leave_before_those_that_were_marked_first() -> None:
    marks = {
        "a": None,
        "b": SurplusMark(NOW - 1, closed=False),
        "c": SurplusMark(NOW - GRACE, closed=False),
        "d": SurplusMark(NOW - 2, closed=True),
    }
    clear, close = (None, False), (NOW - GRACE, True)
    assert [plan_nodes(marks, wanted) for wanted in (3, 2, 1)] == [
        Shrink(remove=("d",), marks={"b": clear, "c": clear}),
        Shrink(remove=("d",), marks={"b": clear, "c": close}),
        Shrink(remove=("d",), marks={"c": close}),
    ]


def test_nodes_that_gke_has_not_made_are_given_up_before_others_are_marked() -> None:
    marks = {"a": None, "b": CLOSED}
    assert plan_nodes(marks, 3, size=4, missing=2) == Shrink(give_up=["m0"])
    assert plan_nodes(marks, 1, size=4, missing=2) == Shrink(give_up=["m0", "m1"])
    assert plan_nodes(marks, 4, size=4, missing=2) == Shrink(marks={"b": (None, False)})
