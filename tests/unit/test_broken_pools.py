"""The boundaries of the rules about pools with errors, beside the tables of decisions."""

import dataclasses

import pytest
from shared.core.decide.collect import SKEW_SECONDS, decide_broken
from shared.core.decide.pool_facts import OwnerState, PoolFacts, PoolPods, WaitingPods

from tests.builders import NOW, a_pool, settings

AGE = 10_000.0


def a_failed_pool(*, leader_after: float, error: str = "", reserved: bool = False) -> PoolFacts:
    """Return the facts about a failed pool whose leader was created so long after it."""
    since = NOW - AGE + leader_after
    return PoolFacts(
        pool=dataclasses.replace(a_pool("ERROR", age_seconds=AGE, error=error), reserved=reserved),
        owner=OwnerState.LIVE,
        owner_found=True,
        pods=PoolPods(),
        waiting=WaitingPods(leader_since=since, youngest_since=since),
    )


@pytest.mark.parametrize(
    ("leader_after", "expected"),
    [
        (-1.0, ("keep", "pool_failed")),
        (SKEW_SECONDS, ("keep", "pool_failed")),
        (SKEW_SECONDS + 1, ("delete", "pool_degraded")),
    ],
)
def test_a_leader_as_old_as_the_pool_never_ran_on_it(leader_after: float, expected: tuple[str, str]) -> None:
    decision = decide_broken(a_failed_pool(leader_after=leader_after), now=NOW, settings=settings())

    assert (decision.verdict, decision.reason) == expected


@pytest.mark.parametrize("leader_after", [-1.0, SKEW_SECONDS + 1, AGE])
def test_a_pool_that_got_no_machine_serves_nobody_however_young_its_leader(leader_after: float) -> None:
    pool = a_failed_pool(leader_after=leader_after, error="Expected 4, running 0. [GCE_STOCKOUT]")
    decision = decide_broken(pool, now=NOW, settings=settings())

    assert (decision.verdict, decision.reason) == ("keep", "pool_failed")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("INTERNAL_ERROR", ("delete", "pool_failed")),
        ("Expected 4, running 3. Current errors: [GCE_STOCKOUT]", ("delete", "pool_failed")),
        ("Expected 4, running 0. Current errors: [GCE_STOCKOUT]", ("keep", "pool_failed")),
        ("Specified reservation r has no room", ("keep", "pool_failed")),
    ],
)
def test_a_pool_that_the_reservation_had_nothing_for_holds_no_part_of_it(
    error: str, expected: tuple[str, str]
) -> None:
    facts = a_failed_pool(leader_after=-1.0, error=error, reserved=True)
    decision = decide_broken(facts, now=NOW, settings=settings())

    assert (decision.verdict, decision.reason) == expected
