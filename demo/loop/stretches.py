"""What one slice did from its demand to the end of its pools, as stretches of time. Pure.

Each creation is a stretch of its own, also a failed one. A stretch that goes on at the end of the
run has no end, so that a run that is given up is not drawn as one that is over.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from demo.loop.observations import Decided
from demo.loop.states import SliceTimeline
from demo.loop.steps import Step
from demo.loop.timeline import Timeline
from shared.model.decisions import FAILURE_REASONS

UNNAMED = "unexplained"
"""The cause of a failed creation that no decision names; else it is the decision's reason."""
NOT_DONE = "none"
"""What a function decided when an API refused its request."""


class Phase(StrEnum):
    """What a stretch is. The board of the command has the same."""

    WAIT = "wait"
    CREATE = "create"
    FAILED = "failed"
    PLACE = "place"
    RUN = "use"
    OVER = "over"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """One stretch of a slice, in unix seconds."""

    phase: Phase
    start: float
    end: float
    ends: bool = True
    """False if it went on when the run ended."""
    cause: str = ""
    """Why a creation failed."""
    told: str = ""
    """What the functions said about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One creation that GKE accepted, and what became of its pool, in unix seconds."""

    pool: str
    start: float
    ready_at: float | None = None
    """When all of its nodes were ready for the first time."""
    failed_at: float | None = None
    cause: str = ""
    told: str = ""
    deleted_at: float | None = None
    """When GKE accepted the deletion."""
    gone_at: float | None = None


def list_attempts(one: SliceTimeline, timeline: Timeline) -> list[Attempt]:
    """Return the creations of a slice that GKE accepted, in their order."""
    created = sorted((at, pool) for pool in one.pools for at in timeline.list_calls(pool, "CreateNodePool"))
    found = []
    for index, (start, pool) in enumerate(created):
        following = created[index + 1] if index + 1 < len(created) else None
        again = next((at for at, name in created[index + 1 :] if name == pool), math.inf)

        def first(moments: Iterable[float], start: float = start, again: float = again) -> float | None:
            return next((at for at in moments if start <= at < again), None)

        made = Attempt(
            pool=pool,
            start=start,
            ready_at=_find_ready(one, timeline, pool, start, again),
            deleted_at=first(timeline.list_calls(pool, "DeleteNodePool")),
            gone_at=first(timeline.ends.get(pool, [])),
        )
        decision = next((each for each in one.decisions if _tells_of(each, made, again)), None)
        ends = [first(timeline.errors.get(pool, [])), decision.at if decision else None]
        if following and (any(ends) or (made.ready_at is None and made.deleted_at is None)):
            ends.append(following[0])
        failed_at = min((max(start, each) for each in ends if each is not None), default=None)
        if failed_at is not None:
            cause, told = (
                (decision.reason, decision.message) if decision else (UNNAMED, f"node pool {pool} failed")
            )
            made = replace(made, failed_at=failed_at, cause=cause, told=told)
        found.append(made)
    return found


def _find_ready(one: SliceTimeline, timeline: Timeline, pool: str, start: float, again: float) -> float | None:
    count = one.creation.node_count if one.creation else 0
    ready = sorted(
        each.ready_at
        for each in timeline.nodes_seen
        if each.pool == pool and each.ready_at is not None and start <= each.ready_at < again
    )
    return ready[count - 1] if 0 < count <= len(ready) else None


def _tells_of(decided: Decided, made: Attempt, again: float) -> bool:
    """Return whether a decision is about the failure of an attempt."""
    return decided.pool == made.pool and decided.reason in FAILURE_REASONS and made.start <= decided.at < again


def list_stretches(one: SliceTimeline, timeline: Timeline, ended_at: float) -> list[Stretch]:
    """Return the stretches of a slice in their order; none overlaps another.

    `ended_at` is when the run ended, in Unix seconds.
    """
    return _Teller(one, timeline, ended_at).tell()


class _Teller:
    """Finds what a slice did at each moment at which something changed."""

    def __init__(self, one: SliceTimeline, timeline: Timeline, ended_at: float) -> None:
        self._one, self._ended_at = one, ended_at
        self._attempts = list_attempts(one, timeline)
        pools = {each.pool for each in self._attempts}
        self._nodes = [each for each in timeline.nodes_seen if each.pool in pools]
        workload = timeline.workloads.get((one.namespace, one.workload))
        over = one.steps.get(Step.COMPLETED, workload.ended_at if workload else None)
        self._over = math.inf if over is None else over

    def tell(self) -> list[Stretch]:
        moments = self._list_moments()
        found: list[Stretch] = []
        owners: list[Attempt | None] = []
        for start, end in pairwise(moments):
            phase, attempt = self._find_phase(start)
            if phase is None:
                continue
            owner = attempt if phase in (Phase.CREATE, Phase.FAILED) else None  # each is a bar of its own
            if found and (found[-1].phase, owners[-1], found[-1].end) == (phase, owner, start):
                found[-1] = replace(found[-1], end=end)
                continue
            failed = attempt if phase is Phase.FAILED else None
            cause, told = (failed.cause, failed.told) if failed else ("", "")
            found.append(Stretch(phase=phase, start=start, end=end, cause=cause, told=told))
            owners.append(owner)
        if found and found[-1].end == self._ended_at and self._find_phase(self._ended_at)[0] is found[-1].phase:
            found[-1] = replace(found[-1], ends=False)
        return found

    def _list_moments(self) -> list[float]:
        """Return when something may have changed, from the demand to the end of the run."""
        one = self._one
        known = [self._over, self._ended_at, *(each.began_at for each in self._nodes)]
        for stay in (*one.runs, *one.bindings):
            known += [stay.start, math.inf if stay.end is None else stay.end]
        for each in self._attempts:
            moments = (each.start, each.ready_at, each.failed_at, each.deleted_at, each.gone_at)
            known += [at for at in moments if at is not None]
        known += [each.ended_at for each in self._nodes if each.ended_at is not None]
        begin = one.steps.get(Step.UNSCHEDULABLE, min(known))
        return sorted({begin, *(at for at in known if begin <= at <= self._ended_at)})

    def _find_phase(self, at: float) -> tuple[Phase | None, Attempt | None]:
        attempt = next((each for each in reversed(self._attempts) if each.start <= at), None)
        if at >= self._over:
            if attempt is None or _is_past(attempt.gone_at, at):
                return None, attempt
            return (Phase.DELETE if _is_past(attempt.deleted_at, at) else Phase.OVER), attempt
        if any(stay.holds(at) for stay in self._one.runs):
            return Phase.RUN, attempt
        binding = next((stay for stay in self._one.bindings if stay.holds(at)), None)
        elsewhere = binding is not None and (attempt is None or binding.pool not in ("", attempt.pool))
        if attempt is None or elsewhere or _is_past(attempt.failed_at, at):
            return (Phase.PLACE if binding else Phase.WAIT), attempt
        return self._find_phase_of_pool(attempt, at), attempt

    def _find_phase_of_pool(self, attempt: Attempt, at: float) -> Phase:
        """Return what a slice does that has a pool and no running pods."""
        if attempt.failed_at is not None and not _is_past(attempt.ready_at, attempt.failed_at):
            return Phase.FAILED
        if _is_past(attempt.deleted_at, at):
            return Phase.WAIT if _is_past(attempt.gone_at, at) else Phase.DELETE
        if not _is_past(attempt.ready_at, at):
            return Phase.CREATE
        there = any(
            each.pool == attempt.pool and each.began_at <= at and not _is_past(each.ended_at, at)
            for each in self._nodes
        )
        return Phase.PLACE if there else Phase.WAIT  # nodes that were taken back


def _is_past(moment: float | None, at: float) -> bool:
    return moment is not None and moment <= at


def list_refused(one: SliceTimeline) -> list[Decided]:
    """Return when an API refused what a function asked for the slice, in the order of time."""
    return sorted((each for each in one.decisions if each.decision == NOT_DONE), key=lambda each: each.at)


def describe_failures(one: SliceTimeline, timeline: Timeline) -> str:
    """Return how often creations of a slice failed, and requests for it were refused, by cause."""
    failed = [each.cause for each in list_attempts(one, timeline) if each.failed_at is not None]
    told = [
        f"{verb}: " + ", ".join(f"{times} × {cause}" for cause, times in Counter(causes).items())  # noqa: RUF001
        for verb, causes in (("failed", failed), ("refused", [each.reason for each in list_refused(one)]))
        if causes
    ]
    return "; ".join(told)
