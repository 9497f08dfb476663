"""The geometry of the picture of a run: a lane for each slice, bars for stretches, marks. Pure.

Places and widths are percents of the time axis, so that the picture and the page draw the same at
any width. Heights are SVG units.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from demo.loop.headlines import Headlines, Spread, find_headlines
from demo.loop.observations import Decided
from demo.loop.run_outcome import Outcome
from demo.loop.states import SliceTimeline
from demo.loop.steps import SENTENCES, STEPS
from demo.loop.stretches import Phase, Stretch, describe_failures, list_refused, list_stretches
from demo.loop.timeline import Timeline

WIDTH = 880
MARGIN = 24
TOP = 156
LANE = 62
_TICKS_MAX = 10
_BAR_PERCENT_MIN = 0.15
_LETTER_PERCENT = 0.75
"""The width of a small letter."""
_NAME_LETTERS_MAX = 36
_DETAIL_LETTERS_MAX = 52
_ROW_PIXELS = WIDTH - 2 * MARGIN - 18
_LETTER_PIXELS = {"name": 7.3, "detail": 6.2, "cause": 6.9}
"""The name is bold; the sizes are those of the picture."""

LEGEND = {
    Phase.WAIT: ("waits for a node pool", "#c9762b"),
    Phase.CREATE: ("GKE creates the nodes", "#3f7cac"),
    Phase.FAILED: ("a creation that failed", "url(#failed)"),
    Phase.PLACE: ("pods are placed", "#8ab6d6"),
    Phase.RUN: ("running", "#4f9d69"),
    Phase.OVER: ("over, not yet deleted", "#b0a48f"),
    Phase.DELETE: ("GKE deletes the pool", "#8d5a97"),
}
"""Names and colours: those of the board."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One stretch in one lane."""

    phase: Phase
    left: float
    width: float
    title: str
    label: str = ""
    """Shown inside; empty where it does not fit."""
    ends: bool = True
    """False if it went on when the run ended."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One moment in one lane."""

    left: float
    title: str
    kind: str
    """``step``, ``decision`` or ``refused``."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One slice."""

    y: float
    workload: str
    name: str
    short: str
    """The name, cut from the front to the width of the picture."""
    detail: str
    cause: str
    """What went wrong, or on whose pool it runs; empty if all was well."""
    short_cause: str
    bad: bool
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]

    @property
    def told(self) -> str:
        """Return the lane in words."""
        return "; ".join(bar.title for bar in self.bars) or "nothing happened"


@dataclass(frozen=True, slots=True)
class Tick:
    """One line of the time axis."""

    left: float
    real: str
    virtual: str
    major: bool
    """Whether it is shown where there is room for few."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One headline number."""

    value: str
    name: str
    detail: str
    bad: bool = False


@dataclass(frozen=True, slots=True)
class Drawing:
    """Everything that the templates need."""

    height: int
    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]
    figures: tuple[Figure, ...]
    title: str
    subtitle: str
    width: int = WIDTH
    margin: int = MARGIN
    legend: tuple[tuple[Phase, str, str], ...] = tuple((phase, *each) for phase, each in LEGEND.items())


def draw(outcome: Outcome) -> Drawing:
    """Return the drawing of a run."""
    timeline = outcome.timeline
    slices = list(timeline.slices.values())
    moments = [at for one in slices for at in one.steps.values()]
    moments += [each.at for one in slices for each in one.decisions]
    stretches = [list_stretches(one, timeline, outcome.ended_at) for one in slices]
    moments += [each.end for found in stretches for each in found]
    axis = _Axis(timeline.started_at, max([*(at - timeline.started_at for at in moments), 1.0]) * 1.01)
    # A refusal without a slice is of the whole workload.
    refused = {(each.namespace, each.slice or each.workload): each.reason for each in outcome.refusals}
    lanes = tuple(
        _draw_lane(one, found, TOP + LANE * index, axis, _find_cause(one, timeline, _find_refusal(one, refused)))
        for index, (one, found) in enumerate(zip(slices, stretches, strict=True))
    )
    return Drawing(
        height=TOP + LANE * len(lanes) + 92,
        lanes=lanes,
        ticks=_draw_ticks(axis.seconds, outcome.speed),
        figures=_write_figures(find_headlines(outcome)),
        title=_write_title(outcome),
        subtitle=(
            f"{outcome.elapsed_seconds:.1f} real seconds; GKE's clock ran {outcome.speed:g} times as fast"
            f" ({outcome.elapsed_seconds * outcome.speed / 60:.0f} virtual minutes)"
        ),
    )


@dataclass(frozen=True, slots=True)
class _Axis:
    started_at: float
    seconds: float

    def place(self, at: float) -> float:
        return round(min(100.0, max(0.0, at - self.started_at) / self.seconds * 100), 3)

    def since(self, at: float) -> str:
        return f"{max(0.0, at - self.started_at):.2f} s"


def cut_front(text: str, letters: int) -> str:
    """Return a text of at most so many letters; the end of a name tells more than its beginning."""
    return text if len(text) <= letters else "…" + text[len(text) - letters + 1 :]


def _write_title(outcome: Outcome) -> str:
    slices = outcome.timeline.slices.values()
    served = sum(bool(one.pools) for one in slices)
    state = "end state verified" if outcome.verified else "END STATE NOT VERIFIED"
    return f"{len(slices)} slices, {served} node pools, {outcome.pools_left} left: {state}"


def _find_refusal(one: SliceTimeline, refused: dict[tuple[str, str], str]) -> str:
    return refused.get((one.namespace, one.job)) or refused.get((one.namespace, one.workload), "")


def _draw_lane(
    one: SliceTimeline, stretches: Iterable[Stretch], y: int, axis: _Axis, found: tuple[str, bool]
) -> Lane:
    cause, bad = found
    short, detail = cut_front(one.job, _NAME_LETTERS_MAX), _cut(describe_shape(one), _DETAIL_LETTERS_MAX)
    taken = len(short) * _LETTER_PIXELS["name"] + len(detail) * _LETTER_PIXELS["detail"]
    return Lane(
        y=y,
        workload=f"{one.namespace}/{one.workload}",
        name=one.job,
        short=short,
        detail=detail,
        cause=cause,
        short_cause=_cut(cause, int((_ROW_PIXELS - taken) / _LETTER_PIXELS["cause"])),
        bad=bad,
        bars=tuple(_draw_bar(each, axis) for each in stretches),
        marks=tuple(_draw_marks(one, axis)),
    )


def _draw_bar(each: Stretch, axis: _Axis) -> Bar:
    left, right = axis.place(each.start), axis.place(each.end)
    width = round(max(_BAR_PERCENT_MIN, right - left), 3)
    so_far = "" if each.ends else ", and it went on"
    cause = f": {each.cause}: {each.told}" if each.cause else ""
    title = f"{LEGEND[each.phase][0]}, {each.end - each.start:.2f} s{so_far}{cause}"
    label = each.cause if len(each.cause) * _LETTER_PERCENT <= width else ""
    return Bar(each.phase, min(left, 100 - width), width, title, label, each.ends)


def _draw_marks(one: SliceTimeline, axis: _Axis) -> Iterable[Mark]:
    for step in STEPS:
        if step in one.steps:
            at = one.steps[step]
            yield Mark(axis.place(at), f"{axis.since(at)}: {SENTENCES[step]}", "step")
    refused = list_refused(one)
    for each in one.decisions:
        bad = each in refused or each.decision == "refuse"
        yield Mark(
            axis.place(each.at), f"{axis.since(each.at)}: {_describe(each)}", "refused" if bad else "decision"
        )


def _find_cause(one: SliceTimeline, timeline: Timeline, refused: str) -> tuple[str, bool]:
    if refused:
        return f"refused: {refused}", True
    found = describe_failures(one, timeline)
    if found:
        return found, True
    return (f"runs on {one.pool}", False) if one.shares_pool else ("", False)


def describe_shape(one: SliceTimeline) -> str:
    """Return what was created for a slice, in words; the number of its pods if nothing was."""
    made = one.creation
    if made is None:
        return f"{one.pods} pods"
    topology = f", {made.topology}" if made.topology else ""
    return f"{made.node_count} x {made.machine_type}{topology}, {made.tier}"


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else text[: letters - 1] + "…"


def _describe(decided: Decided) -> str:
    return f"{decided.function}: {decided.decision} ({decided.reason}) {decided.message}".rstrip()


def _write_figures(found: Headlines) -> tuple[Figure, ...]:
    def write(spread: Spread | None, unit: str, scale: float) -> tuple[str, str]:
        if spread is None:
            return "never", "no slice got so far"
        return f"{spread.median / scale:.1f} {unit}", f"median; the longest {spread.longest / scale:.1f}"

    asked, asked_detail = write(found.demand_to_create, "s", 1)
    ran, ran_detail = write(found.create_to_running, "min", 60)
    if found.running < found.slices:
        ran_detail = f"{found.running} of {found.slices} slices ran"
    paid = f"{found.run:.0f} of {found.paid:.0f}" if found.paid else f"0 of {found.paid:.0f}"
    share = f"{found.run / found.paid:.0%} were used" if found.paid else "nothing was paid for"
    return (
        Figure(asked, "demand → create", asked_detail, found.demand_to_create is None),
        Figure(ran, "create → running", ran_detail, found.running < found.slices),
        Figure(paid, "chip·minutes run, of paid", share, not found.run and bool(found.slices)),
        Figure(f"{found.calls_per_slice:.1f}", "GKE calls per slice", f"{found.slices} slices"),
    )


def _draw_ticks(seconds: float, speed: float) -> tuple[Tick, ...]:
    step = _round_up(seconds / _TICKS_MAX)
    count = int(seconds / step) + 1
    few = max(1, math.ceil(count / 4))
    return tuple(
        Tick(
            round(index * step / seconds * 100, 3),
            f"{index * step:g} s",
            _virtual(index * step * speed),
            index % few == 0,
        )
        for index in range(count)
    )


def _round_up(value: float) -> float:
    """Return the next value of the form 1, 2 or 5 times a power of ten."""
    power = 10 ** math.floor(math.log10(max(value, 1e-3)))
    return next(float(factor * power) for factor in (1, 2, 5, 10) if factor * power >= value)


def _virtual(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min" if not rest else f"{minutes}:{rest:02d}"
