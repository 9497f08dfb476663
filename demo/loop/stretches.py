"""What one slice did from its demand to the end of its pools, as stretches of time. Pure.

Each creation is a stretch of its own, also a failed one. A stretch that goes on at the end of the
run has no end, so that a run that is given up is not drawn as one that is over.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING

from demo.loop.steps import Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demo.loop.observations import Decided
    from demo.loop.states import SliceTimeline
    from demo.loop.timeline import Timeline

UNNAMED = "unexplained"
"""The cause of a failed creation that no decision names."""
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
    """The class of a failed creation."""
    told: str = ""
    """What the functions said about it."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One creation that GKE accepted."""

    pool: str
    start: float
    failed_at: float | None = None
    cause: str = ""
    told: str = ""


def list_attempts(one: SliceTimeline, timeline: Timeline) -> list[Attempt]:
    """Return the creations of a slice that GKE accepted, in their order."""
    created = [(at, pool) for pool in one.pools if (at := timeline.find_creation(pool)) is not None]
    created.sort()
    before = {pool: earlier for (_, earlier), (_, pool) in pairwise(created)}
    words: dict[str, Decided] = {}
    for each in one.decisions:
        if each.failure:  # a creation names the next pool, every other decision the failed one
            failed = before.get(each.pool, "") if each.decision == "create" else each.pool
            words.setdefault(failed, each)
    found = []
    for index, (at, pool) in enumerate(created):
        said, ready = words.get(pool), one.steps.get(Step.NODES_READY)
        moments = [timeline.errors_at.get(pool), said.at if said else None]
        if index + 1 < len(created):
            following = created[index + 1][0]
            moments.append(following if any(moments) or ready is None or ready > following else None)
        failed_at = min((each for each in moments if each is not None), default=None)
        if failed_at is None:
            found.append(Attempt(pool, at))
            continue
        cause, told = (said.failure, said.message) if said else (UNNAMED, f"node pool {pool} failed")
        found.append(Attempt(pool, at, max(at, failed_at), cause, told))
    return found


def list_stretches(one: SliceTimeline, timeline: Timeline, ended_at: float) -> list[Stretch]:
    """Return the stretches of a slice in their order; none overlaps another.

    Args:
        one: the slice.
        timeline: of the whole run.
        ended_at: when the run ended, in unix seconds.
    """
    found = [each for each in _Teller(one, timeline, ended_at).tell() if each.end > each.start]
    found.sort(key=lambda each: each.start)
    nexts = [each.start for each in found[1:]] + [ended_at]
    cut = [replace(each, end=min(each.end, start)) for each, start in zip(found, nexts, strict=True)]
    return [each for each in cut if each.end > each.start]


class _Teller:
    def __init__(self, one: SliceTimeline, timeline: Timeline, ended_at: float) -> None:
        self._steps, self._ended_at = one.steps, ended_at
        self._attempts = list_attempts(one, timeline)
        workload = timeline.workloads.get((one.namespace, one.workload))
        self._over = one.steps.get(Step.COMPLETED, workload.ended_at if workload else None)
        latest = self._attempts[-1].start if self._attempts else 0.0
        deleted = one.steps.get(Step.DELETE_ACCEPTED)
        # Before that, the failed pools of earlier attempts were deleted.
        self._deleted = deleted if self._attempts and deleted is not None and deleted >= latest else None

    def tell(self) -> Iterator[Stretch]:
        at = self._steps.get(Step.UNSCHEDULABLE)
        for each in self._attempts:
            yield from self._until(Phase.WAIT, at, each.start)
            if each.failed_at is not None:
                at = each.failed_at
                yield Stretch(phase=Phase.FAILED, start=each.start, end=at, cause=each.cause, told=each.told)
            else:
                ready = [self._find(Step.NODES_READY, Step.LEADER_BOUND), self._find(Step.RUNNING)]
                at = max(each.start, min(known)) if (known := [one for one in ready if one is not None]) else None
                yield from self._until(Phase.CREATE, each.start, at)
        if not self._attempts or self._attempts[-1].failed_at is not None:
            placed = self._find(Step.LEADER_BOUND)
            yield from self._until(Phase.WAIT, at, placed)
            at = placed
        yield from self._use(at)

    def _use(self, at: float | None) -> Iterator[Stretch]:
        running = self._find(Step.RUNNING)
        yield from self._until(Phase.PLACE, at, running)
        yield from self._until(Phase.RUN, running, None)
        if self._over is not None and self._attempts and Step.LEADER_BOUND in self._steps:
            yield from self._until(Phase.OVER, self._over, self._deleted, stops=[])
        gone = self._steps.get(Step.DELETED)
        if self._deleted is not None:
            yield from self._until(Phase.DELETE, self._deleted, gone, stops=[])

    def _find(self, *steps: Step) -> float | None:
        return next((self._steps[step] for step in steps if step in self._steps), None)

    def _until(
        self, phase: Phase, start: float | None, end: float | None, stops: Sequence[float | None] | None = None
    ) -> Iterator[Stretch]:
        """Yield a stretch until its end, that of the workload, or the deletion of its pool."""
        if start is None:
            return
        bounds = [end, *([self._over, self._deleted] if stops is None else stops)]
        known = [each for each in bounds if each is not None]
        yield Stretch(phase=phase, start=start, end=min(known, default=self._ended_at), ends=bool(known))


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
