"""Runs independent tasks side by side, or one after the other where there are no threads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, TypeVar

from shared.core.errors import OutOfTime, Throttled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from shared.core.ports import Clock, Ports, SideBySide

T = TypeVar("T")
CALLS_AT_ONCE = 16  # assumes: operations-at-once, creates-side-by-side
"""For one cluster. GKE has an unpublished ceiling of operations per cluster; batches of 10 to 100
are reported to pass. What is over it is answered with 429."""
CLUSTERS_AT_ONCE = 8
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 2.0, 30.0


@dataclass(frozen=True, slots=True)
class OneByOne:
    """`SideBySide` without threads: one task after the other, each to its end."""

    clock: Clock

    def __call__(
        self,
        tasks: Sequence[Callable[[], T]],
        *,
        at_once: int,  # noqa: ARG002 -- the port's
        until: float,
    ) -> list[T | Exception]:
        """Return what each task returned or raised, in the order of the tasks."""
        return [self._run(task, until) for task in tasks]

    def _run(self, task: Callable[[], T], until: float) -> T | Exception:
        if self.clock.now() >= until:
            return OutOfTime("the time for this work is over; a later run does it")
        try:
            return task()
        except Exception as error:  # noqa: BLE001 -- the caller gets every error
            return error


def run_paced(tasks: Sequence[Callable[[], T]], ports: Ports) -> list[T | Exception]:
    """Run tasks that change pools side by side; those that are refused with 429 run again.

    The first refusal ends a round, since GKE counts operations that run for minutes: what has not
    begun by then waits for the next round. The pauses are 2 s, and double up to 30 s as those of
    Google's own autoscaler while nothing is accepted. What is left when the next round would begin
    after the end of the delivery has a `Throttled` in its place.
    """
    left, done, pause = dict(enumerate(tasks)), dict[int, T | Exception](), PAUSE_SECONDS / 2
    while True:
        begin = _Round()
        found = get_runner(ports)(
            [partial(begin, task) for task in left.values()], at_once=CALLS_AT_ONCE, until=ports.until
        )
        done |= dict(zip(left, found, strict=True))
        refused = {place: task for place, task in left.items() if isinstance(done[place], Throttled)}
        pause = min(2 * pause, PAUSE_SECONDS_MAX) if len(refused) == len(left) else PAUSE_SECONDS
        advised = begin.refused.retry_after_seconds if begin.refused else None
        wait = max(pause, advised or 0.0)
        if not refused or ports.clock.now() + wait >= ports.until:
            return [done[place] for place in range(len(tasks))]
        ports.clock.pause(wait)
        left = refused


@dataclass(slots=True)
class _Round:
    """One round of tasks, which ends with the first refusal."""

    refused: Throttled | None = None

    def __call__(self, task: Callable[[], T]) -> T:
        if self.refused is not None:
            raise self.refused
        try:
            return task()
        except Throttled as error:
            self.refused = error
            raise


def get_runner(ports: Ports) -> SideBySide:
    """Return what runs independent tasks."""
    return ports.threads or OneByOne(ports.clock)


def take_some(found: Iterable[T], most: int, *, now: float) -> list[T]:
    """Return at most so many objects: of more, each with the same chance, in no more memory."""
    chance = Random(now)  # noqa: S311 -- no secret
    taken: list[T] = []
    for at, each in enumerate(found):
        if at < most:
            taken.append(each)
        elif (place := chance.randrange(at + 1)) < most:
            taken[place] = each
    return taken
