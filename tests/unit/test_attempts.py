"""What follows a failed creation: its class, the pause, the number of the next attempt."""

from typing import Any

import pytest
from shared.core.decide.attempts import (
    JITTER_SHARE,
    FailedAttempt,
    choose_next,
    decide_next_attempt,
    find_newest,
    find_pause,
    is_superseded,
)

from shared.model.decisions import Decision, Reason, Verdict
from shared.model.names import ATTEMPTS_MAX, build_pool_name
from shared.model.pools import PoolSnapshot
from shared.model.times import format_minute
from tests.builders import NOW, a_claim, a_foreign_pool, a_pool
from tests.unit.decision_enumeration import DEMAND

HASHES = [a_claim(name=f"w{number}").hash for number in range(200)]


# --- pauses and numbers ---------------------------------------------------------------------------


@pytest.mark.parametrize("claim_hash", HASHES[:20])
def test_a_pause_doubles_from_one_minute_to_thirty(claim_hash: str) -> None:
    for attempt, minutes in enumerate([1, 2, 4, 8, 16, 30, 30, 30]):
        pause = find_pause(claim_hash, attempt)
        assert 60 * minutes <= pause <= 60 * minutes * (1 + JITTER_SHARE)
        assert pause == find_pause(claim_hash, attempt)


def test_after_an_error_inside_of_gke_the_pause_is_that_of_two_rounds_later() -> None:
    create = Decision(Verdict.CREATE, Reason.POOL_ABSENT, "creating")
    pauses = {}
    for error in ("[GCE_STOCKOUT]", "[INTERNAL_ERROR]"):
        failed = FailedAttempt(pool="p", attempt=0, candidate="", error=error, at=NOW)
        pauses[error] = (decide_next_attempt(DEMAND, create, failed, now=NOW).next_at or 0) - NOW

    assert 60 <= pauses["[GCE_STOCKOUT]"] <= 75
    assert 240 <= pauses["[INTERNAL_ERROR]"] <= 300


def test_slices_that_failed_together_do_not_try_together() -> None:
    pauses = sorted(find_pause(each, 3) for each in HASHES)

    assert len(set(pauses)) == len(HASHES)
    assert pauses[-1] - pauses[0] > 0.2 * 480


def test_within_a_round_there_is_no_pause() -> None:
    pauses = [find_pause(HASHES[0], attempt, 3) for attempt in range(9)]

    assert [pause > 0 for pause in pauses] == [False, False, True] * 3
    assert 60 <= pauses[2] < 120 <= pauses[5] < 240 <= pauses[8]


@pytest.mark.parametrize("claim_hash", HASHES[:20])
def test_a_claim_creates_at_most_twelve_times_in_an_hour_and_later_twice(claim_hash: str) -> None:
    """Where a creation fails at once, and its pause counts from its beginning."""
    made, attempt, now = list[float](), 0, 0.0
    while now < 12 * 3600:
        made.append(now)
        now += find_pause(claim_hash, attempt)
        attempt = choose_next(attempt)
    hours = [sum(hour * 3600 <= moment < (hour + 1) * 3600 for moment in made) for hour in range(12)]

    assert hours[0] <= 7
    assert max(hours[1:]) <= 2


@pytest.mark.parametrize("candidates", [1, 2, 5])
def test_numbers_wrap_below_their_end_and_keep_candidate_and_pause(candidates: int) -> None:
    attempt = ATTEMPTS_MAX - 1
    following = choose_next(attempt, (), candidates)

    assert following == 5 * candidates + (attempt + 1) % candidates
    assert following % candidates == (attempt + 1) % candidates
    assert find_pause(HASHES[0], 6 * candidates - 1, candidates) >= 1800


@pytest.mark.parametrize(
    ("attempt", "used", "candidates", "following"),
    [
        (0, (), 1, 1),
        (0, (0, 1, 2), 1, 3),
        (1, (2,), 3, 5),
        (ATTEMPTS_MAX - 1, (5, 6), 1, 7),
        (ATTEMPTS_MAX - 2, (ATTEMPTS_MAX - 1,), 1, 5),
    ],
)
def test_a_number_that_is_used_is_left_out(
    attempt: int, used: tuple[int, ...], candidates: int, following: int
) -> None:
    assert choose_next(attempt, used, candidates) == following


# --- which pool is the newest ---------------------------------------------------------------------


def attempt_of(
    attempt: int, status: str = "ERROR", *, age_seconds: float | None = 60.0, **of: Any
) -> PoolSnapshot:
    claim = a_claim(**of)
    pool_labels: dict[str, str | None] = {"google.com/tpu-provisioner-attempt": str(attempt)}
    name = build_pool_name(claim, attempt)
    return a_pool(status, claim=claim, name=name, age_seconds=age_seconds, extra_labels=pool_labels)


def test_the_newest_attempt_is_the_youngest_pool_since_numbers_wrap() -> None:
    wrapped, last = attempt_of(5, age_seconds=10), attempt_of(ATTEMPTS_MAX - 1, age_seconds=2000)

    assert find_newest([last, wrapped]) == wrapped
    assert find_newest([attempt_of(0), attempt_of(1)]) == attempt_of(1)
    assert find_newest([]) is None


@pytest.mark.parametrize(
    ("other", "superseded"),
    [
        (attempt_of(1, "PROVISIONING"), True),
        (attempt_of(1, "ERROR"), True),
        (attempt_of(1, "STOPPING"), False),
        (attempt_of(1, "RUNNING", slice_key="default/another"), False),
        (attempt_of(0), False),
        (a_foreign_pool(), False),
    ],
)
def test_a_failed_pool_is_superseded_by_a_later_one_of_its_claim_that_stays(
    other: PoolSnapshot, *, superseded: bool
) -> None:
    assert is_superseded(attempt_of(0), [attempt_of(0), other]) == superseded
    assert not is_superseded(a_foreign_pool(), [other])


def test_the_next_try_is_told_in_whole_minutes_rounded_up() -> None:
    assert format_minute(1_800_000_000.0) == "08:00 UTC"
    assert format_minute(1_800_000_000.5) == "08:01 UTC"
