"""The geometry of the picture of a run: a lane for each slice, bars for phases, marks. Pure.

Sizes are in SVG units; the templates only fill them in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from demo.loop.steps import SENTENCES, STEPS, Step

if TYPE_CHECKING:
    from demo.loop.observations import Decided
    from demo.loop.run_outcome import Outcome
    from demo.loop.states import SliceTimeline
    from demo.loop.timeline import Timeline

WIDTH = 1240
LEFT = 310
RIGHT = 30
TOP = 96
LANE = 46
BAR = 18
_TICKS_MAX = 12


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of a slice's life between two steps."""

    name: str
    first: Step
    last: Step
    color: str


PHASES = (
    Phase("demand to create", Step.UNSCHEDULABLE, Step.ACCEPTED, "#c9762b"),
    Phase("GKE creates nodes", Step.ACCEPTED, Step.NODES_READY, "#3f7cac"),
    Phase("pods are placed", Step.NODES_READY, Step.RUNNING, "#8ab6d6"),
    Phase("running", Step.RUNNING, Step.COMPLETED, "#4f9d69"),
    Phase("over, not yet deleted", Step.COMPLETED, Step.DELETE_ACCEPTED, "#b0a48f"),
    Phase("GKE deletes the pool", Step.DELETE_ACCEPTED, Step.DELETED, "#8d5a97"),
)


FAILED = Phase("a creation that failed", Step.ACCEPTED, Step.ACCEPTED, "url(#failed)")
_CHARACTER = 6.5
"""The width of a small letter."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One phase in one lane."""

    x: float
    width: float
    color: str
    title: str
    label: str = ""
    """Shown inside; empty where it does not fit."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One moment in one lane: a step (a tick) or a decision (a diamond)."""

    x: float
    title: str
    kind: str


@dataclass(frozen=True, slots=True)
class Lane:
    """One slice."""

    y: float
    name: str
    detail: str
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    note: str
    """Shown in the lane when the slice was refused or shares another's pool."""


@dataclass(frozen=True, slots=True)
class Tick:
    """One line of the time axis."""

    x: float
    real: str
    virtual: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """Everything the templates need."""

    width: int
    height: int
    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]
    title: str
    subtitle: str
    phases: tuple[Phase, ...] = (*PHASES, FAILED)
    left: int = LEFT
    bar: int = BAR


def draw(outcome: Outcome) -> Drawing:
    """Return the drawing of a run."""
    timeline = outcome.timeline
    moments = [at for one in timeline.slices.values() for at in one.steps.values()]
    seconds = max([*(at - timeline.started_at for at in moments), 1.0]) * 1.02
    scale = (WIDTH - LEFT - RIGHT) / seconds
    # A refusal without a slice is of the whole workload.
    refused = {(each.namespace, each.slice or each.workload): each.reason for each in outcome.refusals}
    lanes = tuple(
        _draw_lane(one, index, scale, timeline, _find_refusal(one, refused))
        for index, one in enumerate(timeline.slices.values())
    )
    served = sum(bool(one.pools) for one in timeline.slices.values())
    state = "end state verified" if outcome.verified else "END STATE NOT VERIFIED"
    return Drawing(
        width=WIDTH,
        height=TOP + LANE * len(lanes) + 64,
        lanes=lanes,
        ticks=_draw_ticks(seconds, scale, outcome.speed),
        title=f"{len(lanes)} slices, {served} node pools, {outcome.pools_left} left: {state}",
        subtitle=(
            f"{outcome.elapsed_seconds:.1f} real seconds; GKE's clock ran {outcome.speed:g} times as fast"
            f" ({outcome.elapsed_seconds * outcome.speed / 60:.0f} virtual minutes)"
        ),
    )


def _find_refusal(one: SliceTimeline, refused: dict[tuple[str, str], str]) -> str:
    return refused.get((one.namespace, one.job)) or refused.get((one.namespace, one.workload), "")


def _draw_lane(one: SliceTimeline, index: int, scale: float, timeline: Timeline, refused: str) -> Lane:
    started_at = timeline.started_at

    def place(at: float) -> float:
        return round(LEFT + max(0.0, at - started_at) * scale, 1)

    def span(start: float, end: float) -> tuple[float, float]:
        return place(start), round(max(1.5, place(end) - place(start)), 1)

    failures = _list_failures(one, timeline)
    bars = []
    for phase in PHASES:
        if phase.first in one.steps and phase.last in one.steps:
            start, end = one.steps[phase.first], one.steps[phase.last]
            if failures and phase.first == Step.ACCEPTED:
                start = failures[-1].end
            bars.append(Bar(*span(start, end), phase.color, f"{phase.name}: {max(0.0, end - start):.2f} s"))
    for each in failures:
        x, width = span(each.start, each.end)
        width -= 1  # so that two failures can be told apart
        label = each.cause if len(each.cause) * _CHARACTER <= width else ""
        bars.append(Bar(x, width, FAILED.color, f"{each.end - each.start:.2f} s: {each.told}", label))
    ticks = [
        Mark(place(one.steps[step]), f"{one.steps[step] - started_at:.2f} s: {SENTENCES[step]}", "step")
        for step in STEPS
        if step in one.steps
    ]
    diamonds = [
        Mark(place(each.at), f"{each.at - started_at:.2f} s: {_describe(each)}", "decision")
        for each in one.decisions
    ]
    note = f"refused: {refused}" if refused else ""
    if one.shares_pool:
        note = f"runs on {one.pool}"
    y = TOP + LANE * index
    return Lane(y, one.job, _shape(one), tuple(bars), tuple(ticks + diamonds), note)


@dataclass(frozen=True, slots=True)
class _Failure:
    """A creation that failed, until the next one was accepted."""

    start: float
    end: float
    cause: str
    told: str


def _list_failures(one: SliceTimeline, timeline: Timeline) -> list[_Failure]:
    """Return the creations that the next attempt followed, in their order."""
    found = []
    for pool, following in pairwise(one.pools):
        start, end = timeline.find_creation(pool), timeline.find_creation(following)
        made = next((each for each in one.decisions if each.pool == following and each.failure), None)
        if start is not None and end is not None and made is not None:
            found.append(_Failure(start, end, made.failure, made.message))
    return found


def _shape(one: SliceTimeline) -> str:
    made = one.creation
    if made is None:
        return f"{one.pods} pods"
    placement = "" if made.placement in ("", "none") else f", {made.placement}"
    return f"{made.node_count} x {made.machine_type}{placement}, {made.tier}"


def _describe(decided: Decided) -> str:
    return f"{decided.function}: {decided.decision} ({decided.reason}) {decided.message}".rstrip()


def _draw_ticks(seconds: float, scale: float, speed: float) -> tuple[Tick, ...]:
    step = _round_up(seconds / _TICKS_MAX)
    count = int(seconds / step) + 1
    return tuple(
        Tick(round(LEFT + index * step * scale, 1), f"{index * step:g} s", _virtual(index * step * speed))
        for index in range(count)
    )


def _round_up(value: float) -> float:
    """Return the next value of the form 1, 2 or 5 times a power of ten."""
    power = 10 ** math.floor(math.log10(max(value, 1e-3)))
    return next(float(factor * power) for factor in (1, 2, 5, 10) if factor * power >= value)


def _virtual(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min" if not rest else f"{minutes}:{rest:02d} min"
