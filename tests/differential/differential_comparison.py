"""Two traces side by side: every difference that a watcher could see, as data.

Two causes can fall into one write, so a watcher may miss a state. So numbers are compared by their
turning points, and states by the order in which their fields changed: what came first in one run
must not come last in the other.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from tests.differential.differential_observer import NODES
from tests.differential.differential_traces import PASSING, Course, Flat, Trace

T = TypeVar("T")

ABSENT = "(absent)"
_NUMBER = re.compile(r"-?\d+")
_UNORDERED = re.compile(r"metadata\.generation|.*(Time|Timestamp)$")
"""Paths without an order of their own: they go along with others."""
_PASSING_AT_THE_END = re.compile(r"status\.(active|ready|terminating)")
"""As `PASSING`, for deleted Jobs: they may go before or after the end of their pods is counted.

The real Job controller counts once a second and goes on while the Job is being deleted; the
embedded one does not. So these are compared only up to the deletion.
"""
_DELETION = "metadata.deletionTimestamp"


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """One thing that the two clusters show differently."""

    scene: str
    aspect: str
    """`presence`, `watch`, `final`, `course`, `order`, `events`, `observed` or `answer`."""
    subject: str
    """The watch (or kind) and the object, or the question."""
    what: str
    """The path of the field, or the text of the event."""
    embedded: str
    real: str

    @property
    def line(self) -> str:
        """Everything but the scene, for patterns."""
        return f"{self.aspect} | {self.subject} | {self.what} | {self.embedded} | {self.real}"

    def __str__(self) -> str:
        return (
            f"{self.scene} | {self.aspect} | {self.subject} | {self.what}\n"
            f"      embedded: {self.embedded}\n      real:     {self.real}"
        )


def compare(embedded: Trace, real: Trace) -> list[Difference]:
    """Return all differences, sorted."""
    found = [
        *_compare_courses(embedded, real),
        *_compare_events(embedded, real),
        *_compare_observed(embedded, real),
        *_compare_answers(embedded, real),
    ]
    return sorted(found)


def _compare_courses(embedded: Trace, real: Trace) -> Iterator[Difference]:
    for key in sorted(embedded.courses.keys() | real.courses.keys()):
        scene, subject = key[0], f"{key[1]} {key[2]}"
        ours, theirs = embedded.courses.get(key), real.courses.get(key)
        if ours is None or theirs is None:
            shown = ["present" if course else ABSENT for course in (ours, theirs)]
            yield Difference(scene, "presence", subject, "", *shown)
            continue
        for aspect, what, one, other in _compare_course(ours, theirs):
            # Several programs write labels, taints and status of a node, in any order.
            if (key[1], aspect) != (NODES, "order"):
                yield Difference(scene, aspect, subject, what, one, other)


def _compare_course(ours: Course, theirs: Course) -> Iterator[tuple[str, str, str, str]]:
    one, other = (" ".join(_without_repeats(course.types)) for course in (ours, theirs))
    if one != other:
        yield "watch", "types", one, other
    last, last_real = ours.states[-1], theirs.states[-1]
    deleted = ours.types[-1] == theirs.types[-1] == "DELETED"
    for path in sorted(last.keys() | last_real.keys()):
        if last.get(path) != last_real.get(path) and not _is_passing(path, deleted=deleted):
            yield "final", path, last.get(path, ABSENT), last_real.get(path, ABSENT)
    paths = sorted({path for course in (ours, theirs) for state in course.states for path in state})
    for path in paths:
        passing = _is_passing(path, deleted=deleted)
        one, other = (
            " → ".join(course_of(path, _rests(path, course) if passing else course.states))
            for course in (ours, theirs)
        )
        if one != other and (passing or last.get(path) == last_real.get(path)):
            yield "course", path, one, other
    for first, second in _contradictions(ours.states, theirs.states):
        yield "order", f"{first} / {second}", "the first came first", "the second came first"


def _is_passing(path: str, *, deleted: bool) -> bool:
    return bool(PASSING.fullmatch(path) or (deleted and _PASSING_AT_THE_END.fullmatch(path)))


def _rests(path: str, course: Course) -> list[Flat]:
    ends = bool(_PASSING_AT_THE_END.fullmatch(path))
    return [state for state in course.rests if not (ends and _DELETION in state)]


def course_of(path: str, states: Sequence[Flat]) -> list[str]:
    """Return the distinct values of a field in their order; of numbers only where they turn."""
    values = _without_repeats([state.get(path, ABSENT) for state in states])
    if values == [ABSENT] or not all(_NUMBER.fullmatch(value) or value == ABSENT for value in values):
        return values
    return _turning_points(values)


def _turning_points(values: list[str]) -> list[str]:
    """Leave out a number between a lower and a higher one; an absent counter is 0."""
    numbers = _without_repeats([0 if value == ABSENT else int(value) for value in values])
    kept = [
        number
        for index, number in enumerate(numbers)
        if index in (0, len(numbers) - 1) or (numbers[index - 1] < number) == (numbers[index + 1] < number)
    ]
    return [str(number) for number in kept]


def _without_repeats(values: Sequence[T]) -> list[T]:
    return [value for index, value in enumerate(values) if index == 0 or values[index - 1] != value]


def _contradictions(ours: Sequence[Flat], theirs: Sequence[Flat]) -> list[tuple[str, str]]:
    """Return the pairs of changes that happened in one order here and in the other there."""
    mine, yours = _moments(ours), _moments(theirs)
    both = sorted(mine.keys() & yours.keys())
    return [
        (one, other) for one in both for other in both if mine[one] < mine[other] and yours[one] > yours[other]
    ]


def _moments(states: Sequence[Flat]) -> dict[str, int]:
    """Return the state in which each change was first seen; without numbers and times."""
    found: dict[str, int] = {}
    for index, (before, after) in enumerate(pairwise(states), start=1):
        for path in before.keys() | after.keys():
            value = after.get(path, ABSENT)
            if before.get(path) == after.get(path) or _NUMBER.fullmatch(value) or _UNORDERED.fullmatch(path):
                continue
            found.setdefault(f"{path}={value}", index)
    return found


def _compare_events(embedded: Trace, real: Trace) -> Iterator[Difference]:
    for scene, subject in sorted(embedded.events.keys() | real.events.keys()):
        ours, theirs = embedded.events[scene, subject], real.events[scene, subject]
        for text in sorted(ours.keys() | theirs.keys()):
            if ours[text] != theirs[text]:
                yield Difference(scene, "events", subject, text, f"{ours[text]} times", f"{theirs[text]} times")


def _compare_observed(embedded: Trace, real: Trace) -> Iterator[Difference]:
    for scene, subject in sorted(embedded.observed.keys() | real.observed.keys()):
        one, other = (" → ".join(trace.observed[scene, subject]) for trace in (embedded, real))
        if one != other:
            yield Difference(scene, "observed", subject, "published", one, other)


def _compare_answers(embedded: Trace, real: Trace) -> Iterator[Difference]:
    for scene, question in sorted(embedded.answers.keys() | real.answers.keys()):
        one, other = (trace.answers.get((scene, question), ABSENT) for trace in (embedded, real))
        if one != other:
            yield Difference(scene, "answer", question, "verdict", one, other)
