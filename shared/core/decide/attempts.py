"""Decides what follows a failed creation: the next attempt, a pause before it, or a refusal. Pure.

Attempt = round x N + index, with N candidates, each of which is one way to satisfy the demand. So
the next candidate follows at once, and a pause comes after the last one. The failed pool says by a
label which candidate it was, because a list may be edited or added: then it begins with its first.

A new attempt has a new name, so it need not wait until the pool of the last one is deleted. The
failed pool is the record of the failure, and so is GKE's list of operations where it is read. A
pause follows from such a record only, never from the number of the attempt alone.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.core.decide.failures import REFUSED_BY_GKE, RULES, Failure, classify_failure, leave_out_operations
from shared.core.decide.provision import describe_creation
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.identity.names import ATTEMPTS_MAX, parse_pool_name
from shared.core.identity.pools import PoolStatus
from shared.core.times import format_minute, format_time, measure_seconds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from shared.core.demand.demand import Demand
    from shared.core.identity.creations import Creation
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import FillError

PAUSE_SECONDS, PAUSE_SECONDS_MAX = 60.0, 1800.0
"""The pause after the first round, and the longest; it doubles from round to round."""
JITTER_SHARE = 0.25
"""A pause is longer by up to this share: slices that failed together do not try together."""
_LONGEST_ROUND = 5
"""From this round on the pause is the longest."""
_MESSAGE_LENGTH_MAX = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """The newest attempt of a claim, whose creation failed."""

    pool: str
    attempt: int
    candidate: str | None = None
    """Which one it was, as the pool's label says; empty if there was no choice, None without a
    pool of this shape."""
    error: str = ""
    """GKE's words."""
    empty_seconds: int = 0
    """It was created, and had no nodes for so long without an error. 0: GKE failed."""
    code: int = 0
    """``google.rpc.Code`` of the operation; 0 if it is not known."""
    at: float | None = None
    """Unix seconds from which the pause counts: the end of the creation if that is known, else its
    beginning; None if neither is."""
    binding: bool = True
    """The failed pool still exists, and is of the shape that is wanted now."""
    rounds: int | None = None
    """How many rounds have failed, if a list begins anew; None if the attempt's number says it."""

    @property
    def failure(self) -> Failure:
        """Return the class of the failure."""
        return Failure.STOCKOUT if self.empty_seconds else classify_failure(self.error, self.code)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptDecision:
    """What to do for a demand, with the attempt that this is about."""

    attempt: int
    decision: Decision
    failure: Failure | None = None
    """The class of the failure that the decision follows; None without one."""
    error: str = ""
    """GKE's words about that failure."""
    next_at: float | None = None
    """Unix seconds of the next try, if a pause comes before it."""


def find_newest(pools: Collection[PoolSnapshot]) -> PoolSnapshot | None:
    """Return the pool of the newest attempt of one claim; None without pools.

    Numbers of attempts start again after `ATTEMPTS_MAX`, so the time of creation comes first.
    """
    return max(pools, key=rank_attempt, default=None)


def is_superseded(pool: PoolSnapshot, pools: Iterable[PoolSnapshot]) -> bool:
    """Return whether one of some pools is of a later attempt of a pool's claim, and stays."""
    mine = pool.owner.claim_hash if pool.owner else ""
    alike = (each for each in pools if mine and each.owner and each.owner.claim_hash == mine)
    return any(each.status != PoolStatus.STOPPING and rank_attempt(each) > rank_attempt(pool) for each in alike)


def rank_attempt(pool: PoolSnapshot) -> tuple[int, int]:
    """Return the order of a claim's attempts, the oldest first."""
    owner = pool.owner
    return ((owner.created_at or 0), owner.attempt) if owner else (0, 0)


def find_pause(claim_hash: str, attempt: int, candidates: int = 1) -> float:
    """Return the seconds between a failed attempt and the next one; 0 within a round.

    Args:
        claim_hash: of the claim; the jitter is a pure function of it and of the round.
        attempt: the attempt that failed.
        candidates: N.
    """
    done, index = divmod(attempt, candidates)
    if index != candidates - 1:
        return 0.0
    pause = min(PAUSE_SECONDS * (1 << min(done, _LONGEST_ROUND)), PAUSE_SECONDS_MAX)
    digest = hashlib.sha256(f"{claim_hash} {done}".encode()).digest()
    return pause * (1 + JITTER_SHARE * int.from_bytes(digest[:4]) / 2**32)


def choose_next(attempt: int, used: Collection[int] = (), candidates: int = 1) -> int:
    """Return the number of the attempt after one; never one that a pool of the claim still has.

    After the last number it goes on with the first round whose pause is the longest, and with the
    same candidate. A number that is in use is left out together with the rest of its round, so that
    the candidate stays the same.
    """
    following = attempt + 1
    while following in used or following >= ATTEMPTS_MAX:
        if following >= ATTEMPTS_MAX:
            following = _LONGEST_ROUND * candidates + following % candidates
        else:
            following += candidates
    return following


def record_failure(demand: Demand, pool: PoolSnapshot, last: Creation | None) -> FailedAttempt:
    """Return the failed attempt that a pool is the record of.

    The failure of a pool of another shape says nothing about the shape that is wanted now.

    Args:
        demand: what the slice needs now.
        pool: its creation failed.
        last: the newest creation of its claim, if GKE's list of operations was read.
    """
    owner = pool.owner
    if owner is None or not owner.was_made_for(demand.fingerprint):
        attempt = owner.attempt if owner else 0
        return FailedAttempt(pool=pool.name, attempt=attempt, error=pool.error, binding=False)
    told = last if last is not None and last.pool == pool.name and last.ended else None
    return FailedAttempt(
        pool=pool.name,
        attempt=owner.attempt,
        candidate=owner.candidate,
        error=pool.error or (told.error if told else ""),
        code=told.code if told else 0,
        at=told.ended_at if told and told.ended_at is not None else owner.created_at,
    )


def record_empty(pool: PoolSnapshot, error: FillError | None, *, seconds: int) -> FailedAttempt:
    """Return the failed attempt that a pool is which GKE's autoscaler could not fill.

    Args:
        pool: it has no nodes.
        error: what kept it empty; None if it was empty for too long without an error.
        seconds: how long that is.
    """
    owner, at = pool.owner, error.at if error else None
    if at is not None and owner and owner.created_at is not None:
        # GKE forgets old errors, and each try of the autoscaler adds one. The pause must end.
        at = min(at, owner.created_at + min(seconds, PAUSE_SECONDS_MAX))
    return FailedAttempt(
        pool=pool.name,
        attempt=owner.attempt if owner else 0,
        candidate=owner.candidate if owner else "",
        error=error.message if error else "",
        empty_seconds=0 if error else seconds,
        at=owner.created_at if owner and at is None else at,
    )


def decide_next_attempt(
    demand: Demand,
    create: Decision,
    failed: FailedAttempt,
    *,
    used: Collection[int] = (),
    number: int | None = None,
    now: float,
) -> AttemptDecision:
    """Return what follows a failed attempt: CREATE with the next one, WAIT in its pause, or REFUSE.

    With a list no failure is final: it may be one of this candidate, whatever GKE's words are.

    Args:
        demand: what the slice needs.
        create: the decision that its pool may be created.
        failed: the newest attempt.
        used: attempts of the claim whose pools exist.
        number: of the next attempt; None if it follows from the failed one.
        now: unix seconds. A time of failure that cannot be true gives no pause.
    """
    failure, tried = failed.failure, demand.on_attempt(failed.attempt)
    rule, edited = RULES[failure], failed.candidate not in (None, tried.candidate_mark)
    empty = f"no nodes for {failed.empty_seconds} s" if failed.empty_seconds else ""
    error, place = empty or _shorten(failed.error), "" if edited else tried.place_of_list
    cause = f"failed: {rule.words.format(zone='its zone' if edited else tried.zone)} ({empty or f'GKE: {error}'})"
    head = f"attempt {failed.attempt}{f' ({place})' if place else ''} {cause}"
    if rule.lasting and failed.binding and not edited and demand.choices == 1:
        message = (
            f"{head}; this would fail again, so nothing more is created; correct the cause, then delete "
            f"node pool {failed.pool} to try again"
        )
        decision = Decision(Verdict.REFUSE, rule.reason, message)
        return AttemptDecision(attempt=failed.attempt, decision=decision, failure=failure, error=error)
    ended = failed.attempt if failed.rounds is None else failed.rounds * demand.choices - 1
    counted = ended + rule.doublings * demand.choices
    pause = 0.0 if edited else find_pause(demand.claim.hash, counted, demand.choices)
    passed = measure_seconds(failed.at, now)
    if failed.at is not None and passed is not None and passed < pause:
        next_at = failed.at + pause
        decision = Decision(Verdict.WAIT, rule.reason, f"{head}; next try at {format_minute(next_at)}")
        return AttemptDecision(
            attempt=failed.attempt, decision=decision, failure=failure, error=error, next_at=next_at
        )
    # The number of a candidate means another one in a list that was edited: begin with its first.
    last = failed.attempt - failed.attempt % demand.choices + demand.choices - 1 if edited else failed.attempt
    attempt = choose_next(last, used, demand.choices) if number is None else number
    message = f"{head}; attempt {attempt}: {describe_creation(demand.on_attempt(attempt))}"
    decision = Decision(create.verdict, Reason.POOL_FAILED, message)
    return AttemptDecision(attempt=attempt, decision=decision, failure=failure, error=error)


def _shorten(error: str) -> str:
    text = leave_out_operations(error or "ERROR")
    return text if len(text) <= _MESSAGE_LENGTH_MAX else f"{text[: _MESSAGE_LENGTH_MAX - 1]}…"


def decide_after_creation(
    demand: Demand, create: AttemptDecision, last: Creation | None, *, since: float = 0.0, now: float
) -> AttemptDecision:
    """Return the decision to create a pool, with what became of the claim's last creation.

    The number of the attempt stays: only the sweep knows such creations, and two functions at the
    same time must come to the same name. The pause of a round comes before that, and doubles with
    the failures of the same candidate.

    Args:
        demand: what the slice needs.
        create: the decision for an attempt whose pool does not exist.
        last: the claim's newest creation whose pool does not exist; None if GKE lists none.
        since: unix seconds before which no failure counts.
        now: unix seconds.
    """
    decision = create.decision
    if last is None or (last.error and last.ended_at is not None and last.ended_at < since):
        return create
    if not last.ended:
        began = f" since {format_time(last.began_at)}" if last.began_at is not None else ""
        message = f"GKE creates node pool {last.pool}{began}, but does not list it yet"
        wait = Decision(Verdict.WAIT, Reason.POOL_IN_PROGRESS, message)
        return AttemptDecision(attempt=create.attempt, decision=wait)
    if last.error:
        attempt = find_attempt(last.pool)
        alike = sum((each - attempt) % demand.choices == 0 for each in last.failed)
        failed = FailedAttempt(
            pool=last.pool,
            attempt=attempt,
            error=last.error,
            code=last.code,
            at=last.ended_at,
            binding=False,
            rounds=max(attempt // demand.choices + 1, alike),
        )
        return decide_next_attempt(demand, decision, failed, number=create.attempt, now=now)
    message = f"GKE has created this node pool before, but it no longer exists; {decision.message} again"
    told = Decision(decision.verdict, decision.reason, message)
    return AttemptDecision(attempt=create.attempt, decision=told)


def decide_after_refusal(
    demand: Demand, refused: AttemptDecision, *, used: Collection[int], first: int = 0
) -> AttemptDecision | None:
    """Return the decision to try the next candidate of a round after GKE refused one at once.

    It is None after the last candidate of a round that begins with the candidate of `first`, and
    for any other decision than such a refusal. `used` is that of `decide_next_attempt`.
    """
    attempt, decision = choose_next(refused.attempt, used, demand.choices), refused.decision
    if not is_refused_at_once(decision) or (attempt - first) % demand.choices == 0:
        return None
    message = f"{decision.message}; attempt {attempt}: {describe_creation(demand.on_attempt(attempt))}"
    return AttemptDecision(attempt=attempt, decision=Decision(Verdict.CREATE, Reason.POOL_FAILED, message))


def is_refused_at_once(decision: Decision) -> bool:
    """Return whether GKE refused a create, so that no pool is the record of it."""
    return decision.verdict == Verdict.REFUSE and decision.reason in REFUSED_BY_GKE


def decide_removal(pool: PoolSnapshot, following: str) -> Decision:
    """Return the decision to delete the pool of a failed attempt after the next one's."""
    message = f"node pool {pool.name} failed and is deleted: {following} is created in its place"
    return Decision(Verdict.DELETE, Reason.POOL_FAILED, message)


def find_attempt(pool_name: str) -> int:
    """Return the attempt in the name of a pool of ours; 0 for any other name."""
    parsed = parse_pool_name(pool_name)
    return parsed.attempt if parsed else 0


def find_used(pool_name: str, names: Iterable[str]) -> set[int]:
    """Return the attempts of a pool's claim that some names have, pools of others included."""
    stem = f"{pool_name.rpartition('-')[0]}-"
    return {find_attempt(name) for name in names if name.startswith(stem)}
