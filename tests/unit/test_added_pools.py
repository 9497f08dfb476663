"""When an elastic pool with a list of capacity is full, and how several share a claim's nodes."""

import dataclasses
from typing import Any

import pytest

from shared.capacity_lists import read_policies
from shared.core import labels
from shared.core.decide.demands import decide_demand
from shared.core.decide.elastic_sizes import (
    SeenPool,
    count_missing,
    is_short,
    list_sharing,
    may_add_pools,
    plan_addition,
)
from shared.core.demand.demand import Demand
from shared.core.identity.names import build_owner_labels, build_pool_name
from shared.core.identity.pools import PoolSnapshot, PoolStatus
from shared.core.settings import Settings
from shared.core.workloads import NodeView, PodView
from tests.builders import CLUSTER, NOW, expect_demand, settings
from tests.unit.test_elastic import a_gpu_body, a_gpu_job
from tests.unit.test_kind_job import a_pod

SETTINGS = settings(
    capacity_policies=read_policies("[{priorities: [{location: {zones: [us-east5-a, us-east5-b]}}]}]")
)
OLD = NOW - 601
POD = dataclasses.replace(a_pod(None, template=a_gpu_body()), unschedulable=True, unschedulable_since=OLD)


def a_demand(nodes: int = 5) -> Demand:
    return expect_demand(decide_demand(CLUSTER, POD, a_gpu_job(parallelism=nodes, completions=9), SETTINGS))


def a_pool(attempt: int = 0, *, status: str = "RUNNING", made: float | None = OLD, **other: Any) -> PoolSnapshot:
    demand = a_demand().on_attempt(attempt)
    pool_labels = build_owner_labels(
        demand.claim,
        attempt=attempt,
        created_at=int(made or 0),
        fingerprint=other.pop("fingerprint", demand.fingerprint),
        optional={labels.CANDIDATE: demand.candidate_mark},
    )
    if made is None:  # a person has removed the label
        pool_labels = {key: value for key, value in pool_labels.items() if key != labels.CREATED_AT}
    name = build_pool_name(demand.claim, attempt)
    return PoolSnapshot(name=name, status=PoolStatus(status), labels=pool_labels, **other)


def some_nodes(count: int, since: float | None = OLD) -> list[NodeView]:
    return [NodeView(name=f"n{at}", ready=True, created_at=since) for at in range(count)]


@pytest.mark.parametrize(
    ("change", "short"),
    [
        ({}, True),
        ({"size": 4}, False),
        ({"size": 4, "status": "RUNNING_WITH_ERROR"}, True),
        ({"size": 4, "refused": "the quota is used up"}, True),
        ({"size": 9}, True),
        ({"nodes": 5}, False),
        ({"nodes": 0}, True),
        ({"status": "RECONCILING"}, False),
        ({"status": "PROVISIONING"}, False),
        ({"status": "ERROR"}, True),
        ({"made": NOW - 500}, False),
        ({"made": None}, True),
        ({"since": NOW - 500}, False),
        ({"since": None}, False),
        ({"waits": NOW - 500}, False),
        ({"waits": None}, False),
        ({"waits": NOW + 9000}, False),
        ({"flex_start": True}, False),
    ],
    ids=str,
)
def test_a_pool_is_short_if_it_was_asked_for_more_and_nothing_came(change: dict[str, Any], short: bool) -> None:
    row: dict[str, Any] = {
        "size": 5,
        "nodes": 3,
        "status": "RUNNING",
        "made": OLD,
        "since": OLD,
        "waits": OLD,
        "flex_start": False,
        "refused": "",
    } | change
    found = is_short(
        SeenPool(
            pool=a_pool(status=row["status"], made=row["made"], flex_start=row["flex_start"]),
            size=row["size"],
            wanted=5,
            nodes=some_nodes(row["nodes"], row["since"]),
            refused=row["refused"],
        ),
        dataclasses.replace(POD, unschedulable_since=row["waits"]),
        now=NOW,
        settings=SETTINGS,
    )
    assert found is short


def test_pools_of_the_wanted_shape_that_stay_share_the_nodes_the_oldest_first() -> None:
    rows = ["RUNNING", "RECONCILING", "PROVISIONING", "RUNNING_WITH_ERROR", "ERROR"]
    lost = ["STOPPING", "STATUS_UNSPECIFIED"]
    pools = [a_pool(attempt, status=status) for attempt, status in enumerate([*rows, *lost])]
    other = a_pool(9, fingerprint="1-other")
    found = list_sharing(a_demand(), [other, *reversed(pools)])
    assert [each.status for each in found] == rows


@pytest.mark.parametrize(("sizes", "missing"), [([], 5), ([3], 2), ([3, 2], 0), ([9], 0)])
def test_what_the_other_pools_do_not_have_is_missing(sizes: list[int], missing: int) -> None:
    assert count_missing(a_demand(), sizes) == missing


def test_without_a_choice_there_is_one_pool() -> None:
    assert may_add_pools(a_demand())
    assert not may_add_pools(dataclasses.replace(a_demand(), candidates=()))
    assert not may_add_pools(dataclasses.replace(a_demand(), elastic=False))


def a_look(attempt: int = 0, *, nodes: int = 3, size: int = 5, missing: int = 2, **other: Any) -> SeenPool:
    """Return a pool with old nodes, fewer than it was asked for."""
    return SeenPool(
        pool=a_pool(attempt, **other),
        size=size,
        wanted=size,
        nodes=some_nodes(nodes),
        missing=[f"m{at}" for at in range(missing)],
    )


def plan(*seen: SeenPool, pod: PodView = POD, now: float = NOW, settings: Settings = SETTINGS) -> tuple[Any, ...]:
    """Return which pool is short, the attempt, and what follows."""
    used = set(range(len(seen)))
    found = plan_addition(a_demand(), pod, seen, used=used, now=now, settings=settings)
    return (
        ()
        if found is None
        else (found[0].pool.name, found[1].attempt, found[1].decision.verdict, found[1].decision.reason)
    )


FIRST, SECOND = a_pool(0).name, a_pool(1).name
GOOD = {"nodes": 5, "missing": 0}
PLANS: dict[str, tuple[list[SeenPool], tuple[Any, ...]]] = {
    "the only one": ([a_look()], (FIRST, 1, "create", "pool_failed")),
    "the only one, all machines there": ([a_look(missing=0)], (FIRST, 1, "create", "pool_failed")),
    "none": ([a_look(**GOOD)], ()),
    "an earlier one": ([a_look(), a_look(1, **GOOD)], (FIRST, 1, "resize", "pool_shrinks")),
    "an earlier one, all machines there": ([a_look(missing=0), a_look(1, **GOOD)], ()),
    "both": ([a_look(), a_look(1)], (FIRST, 1, "resize", "pool_shrinks")),
    "the newest of two": ([a_look(**GOOD), a_look(1)], (SECOND, 2, "create", "pool_failed")),
}


@pytest.mark.parametrize("name", PLANS)
def test_the_first_short_pool_of_a_claim_gives_nodes_up_and_the_newest_is_followed(name: str) -> None:
    seen, expected = PLANS[name]
    assert plan(*seen) == expected


def test_a_round_that_is_over_is_followed_by_a_pause_and_the_event_says_so() -> None:
    pod = dataclasses.replace(POD, unschedulable_since=OLD)
    found = plan_addition(a_demand(), pod, [a_look()], used={0}, now=NOW, settings=SETTINGS)
    assert found is not None
    message = found[1].decision.message
    assert "has 3 of 5 nodes: attempt 0 (candidate 1 of 2" in message
    assert "no capacity in us-east5-a (GKE: it adds no nodes); attempt 1: creating 2 x " in message

    late = dataclasses.replace(SETTINGS, grace_seconds=10)
    pod = dataclasses.replace(POD, unschedulable_since=NOW - 30)
    last = plan_addition(a_demand(), pod, [a_look(**GOOD), a_look(1)], used={0, 1}, now=NOW, settings=late)
    assert last is not None
    assert (last[1].decision.verdict, last[1].decision.reason) == ("wait", "stockout")
    assert last[1].next_at is not None
    assert last[1].next_at > NOW

    after = plan_addition(a_demand(), pod, [a_look(**GOOD), a_look(1)], used={0, 1}, now=NOW + 90, settings=late)
    assert after is not None
    assert (after[1].attempt, after[1].decision.verdict) == (2, "create")
