"""How large an elastic pool shall be: every combination of sizes, and of what a node may be."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from shared.core.decide.elastic_sizes import NodeState, decide_growth, plan_shrink
from shared.core.decide.limits import Usage
from shared.core.decisions import Reason, Verdict
from shared.core.settings import Mode
from tests.builders import expect_demand, settings
from tests.unit.test_elastic import a_gpu_body
from tests.unit.test_gpu_shapes import plan

if TYPE_CHECKING:
    from shared.core.demand.demand import Demand

GRACE, NOW = 300.0, 10_000.0
KINDS = {
    "used": {"used": True},
    "used and marked": {"used": True, "surplus_since": NOW - 10 * GRACE},
    "used and closed": {"used": True, "surplus_since": NOW - 10 * GRACE, "closed": True},
    "empty": {},
    "just marked": {"surplus_since": NOW - 1},
    "marked long ago": {"surplus_since": NOW - GRACE},
    "closed": {"surplus_since": NOW - 2 * GRACE, "closed": True},
}


def a_demand(pods: int) -> Demand:
    return expect_demand(plan(a_gpu_body(), pods=pods))


@pytest.mark.parametrize("size", range(6))
@pytest.mark.parametrize("pods", range(1, 6))
def test_a_pool_grows_to_what_its_pods_need_and_is_never_made_smaller(size: int, pods: int) -> None:
    found = decide_growth(a_demand(pods), "pool", size=size, settings=settings())
    grows = size < pods
    assert found.verdict == (Verdict.RESIZE if grows else Verdict.KEEP)
    assert found.reason == (Reason.POOL_GROWS if grows else Reason.POOL_SERVES)


@pytest.mark.parametrize(
    ("mode", "reason"), [(Mode.NO_CREATE, Reason.MODE_NO_CREATE), (Mode.REPORT_ONLY, Reason.MODE_REPORT_ONLY)]
)
def test_nothing_grows_where_nothing_is_created(mode: Mode, reason: Reason) -> None:
    found = decide_growth(a_demand(5), "pool", size=1, settings=settings(mode=mode))
    assert (found.verdict, found.reason) == (Verdict.REFUSE, reason)


def test_a_limit_counts_all_gpus_that_the_pool_would_have() -> None:
    limited = settings(limit_chips=8)
    small, large = (
        decide_growth(a_demand(pods), "pool", size=1, settings=limited, usage=Usage(chips=4)) for pods in (4, 5)
    )
    assert (small.reason, large.reason) == (Reason.POOL_GROWS, Reason.LIMIT_REACHED)


@pytest.mark.parametrize("wanted", range(1, 5))
@pytest.mark.parametrize("kinds", list(itertools.combinations_with_replacement(KINDS, 3)))
def test_only_empty_surplus_nodes_leave_and_only_step_by_step(kinds: tuple[str, ...], wanted: int) -> None:
    nodes = [NodeState(name=f"n{at}", **KINDS[kind]) for at, kind in enumerate(kinds)]  # type: ignore[arg-type]  # a table of fields
    of = {node.name: node for node in nodes}
    found = plan_shrink(nodes, wanted=wanted, size=3, now=NOW, grace_seconds=GRACE, removals_max=9)
    leaving = {*found.remove, *found.close, *found.mark}
    assert not any(of[name].used for name in leaving)
    assert len(leaving) <= max(0, 3 - wanted)
    assert all(of[name].closed for name in found.remove)
    assert all(not of[name].closed and NOW - (of[name].surplus_since or NOW) >= GRACE for name in found.close)
    assert all(of[name].surplus_since is None for name in found.mark)
    assert not leaving & set(found.clear)
    marked = {node.name for node in nodes if node.surplus_since is not None}
    waiting = {node.name for node in nodes if node.surplus_since == NOW - 1 and node.name not in found.clear}
    assert marked == {*found.remove, *found.close, *found.clear} | waiting
    assert {node.name for node in nodes if node.used} & marked <= set(found.clear)


def test_nodes_that_are_closed_leave_before_those_that_were_marked_first() -> None:
    nodes = [
        NodeState(name="a"),
        NodeState(name="b", surplus_since=NOW - 1),
        NodeState(name="c", surplus_since=NOW - GRACE),
        NodeState(name="d", surplus_since=NOW - 2, closed=True),
    ]
    found = [
        plan_shrink(nodes, wanted=wanted, size=4, now=NOW, grace_seconds=GRACE, removals_max=9)
        for wanted in (3, 2, 1)
    ]
    assert [(each.remove, each.close, each.clear) for each in found] == [
        (("d",), (), ("b", "c")),
        (("d",), ("c",), ("b",)),
        (("d",), ("c",), ()),
    ]


def test_no_more_leave_at_once_than_allowed_and_those_that_come_are_waited_for() -> None:
    nodes = [NodeState(name=f"n{at}", surplus_since=1.0, closed=True) for at in range(6)]
    found = plan_shrink(nodes, wanted=1, size=6, now=NOW, grace_seconds=GRACE, removals_max=2)
    assert found.remove == ("n0", "n1")
    none = plan_shrink(nodes, wanted=1, size=6, now=NOW, grace_seconds=GRACE, removals_max=-1)
    assert none.remove == ()
