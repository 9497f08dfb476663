"""Two views of a run while it happens: live for terminals, plain lines for everything else."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from demo.loop.drawing import cut_front
from demo.loop.states import FeedLine, SliceTimeline
from demo.loop.steps import SENTENCES, STEPS, Step
from demo.loop.stretches import describe_failures
from demo.loop.timeline import Timeline

_FEED_LINES = 12
_FEED_LINES_MIN = 4
_OTHER_LINES = 7
"""Heading, empty lines and the line about more slices, which all fit on the screen too."""
_SLICE_ROWS_MAX = 24
_NAME_COLUMNS = 34
_WIDE = 110
"""From so many columns on, name, steps and state of a slice are on one line."""
_COLORS = {"good": "green", "bad": "red"}
_REFRESH_PER_SECOND = 8


class View(Protocol):
    """What a run tells while it happens."""

    def start(self) -> None:
        """Begin to show."""

    def say(self, text: str) -> None:
        """Show a word about the demo itself."""

    def show(self, lines: list[FeedLine], timeline: Timeline, now: float) -> None:
        """Show new lines and the state at this moment."""

    def stop(self) -> None:
        """Leave the terminal as it was found."""


class PlainView:
    """One line per event, as it happens."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def start(self) -> None:
        """Nothing to begin."""

    def say(self, text: str) -> None:
        """Print a word about the demo itself."""
        self._console.print(text, markup=False, highlight=False)

    def show(self, lines: list[FeedLine], timeline: Timeline, now: float) -> None:  # noqa: ARG002 -- View's shape
        """Print the new lines."""
        for line in lines:
            self._console.print(format_line(line, timeline.started_at), soft_wrap=True)

    def stop(self) -> None:
        """Nothing to restore."""


class LiveView:
    """A calm picture: one row per slice whose steps light up, and below it what happened last."""

    def __init__(self, console: Console, speed: float) -> None:
        self._console, self._speed = console, speed
        self._live: Live | None = None
        self._feed: deque[FeedLine] = deque(maxlen=_FEED_LINES)

    def start(self) -> None:
        """Begin to draw."""
        self._live = Live(console=self._console, refresh_per_second=_REFRESH_PER_SECOND, transient=True)
        self._live.start()

    def say(self, text: str) -> None:
        """Print a word about the demo itself above the picture."""
        self._console.print(Text(text, style="dim"))

    def show(self, lines: list[FeedLine], timeline: Timeline, now: float) -> None:
        """Draw the state at this moment."""
        self._feed.extend(lines)
        if self._live:
            self._live.update(self._draw(timeline, now))

    def stop(self) -> None:
        """End the drawing."""
        if self._live:
            self._live.stop()
            self._live = None

    def _draw(self, timeline: Timeline, now: float) -> RenderableType:
        elapsed = now - timeline.started_at
        pools = timeline.pools_now or {}
        heading = Text.assemble(
            ("TPU Provisioner", "bold"),
            f"   {elapsed:5.1f} s real   {_format_virtual(elapsed * self._speed)} virtual (x{self._speed:g})",
            f"   {len(pools)} pools   {len(timeline.nodes_left)} nodes",
        )
        stacked = self._console.width < _WIDE
        lines_each = 2 if stacked else 1
        room = max(_FEED_LINES_MIN + lines_each, self._console.height - _OTHER_LINES)
        rows_max = min(_SLICE_ROWS_MAX, (room - _FEED_LINES_MIN) // lines_each)
        shown = sorted(timeline.slices.values(), key=lambda one: STEPS[-1] in one.steps)[:rows_max]
        draw_rows = _draw_stacked if stacked else _draw_beside
        rows = draw_rows([(one, _draw_state(one, timeline, now)) for one in shown], self._console.width)
        hidden = len(timeline.slices) - len(shown)
        more = [Text(f"and {hidden} more slices", style="dim")] if hidden > 0 else []
        latest = list(self._feed)[-(room - len(shown) * lines_each) :]
        feed = [self._write(line, timeline.started_at, stacked=stacked) for line in latest]
        return Group(Text(), heading, Text(), rows, *more, Text(), *feed)

    def _write(self, line: FeedLine, started_at: float, *, stacked: bool) -> Text:
        """Return one line of the feed; what is too long for the terminal ends in an ellipsis."""
        short = replace(line, who=cut_front(line.who, self._console.width // 3)) if stacked else line
        text = format_line(short, started_at)
        text.no_wrap, text.overflow = True, "ellipsis"
        return text


Row = tuple["SliceTimeline", Text]


def _draw_beside(rows: Sequence[Row], _width: int) -> RenderableType:
    """One line for each slice: name, steps, state."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, min_width=min(_NAME_COLUMNS, max((len(one.job) for one, _ in rows), default=0)))
    grid.add_column(no_wrap=True, min_width=2 * len(STEPS))
    grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for one, state in rows:
        grid.add_row(Text(cut_front(one.job, _NAME_COLUMNS), style="bold"), _draw_steps(one), state)
    return grid


def _draw_stacked(rows: Sequence[Row], width: int) -> RenderableType:
    """Two lines for each slice: its name and steps, and below them its state."""
    lines = []
    for one, state in rows:
        steps = _draw_steps(one)
        name = cut_front(one.job, max(8, width - steps.cell_len - 1))
        first = Text.assemble((name, "bold"), " " * max(1, width - steps.cell_len - len(name)), steps)
        second = Text("  ") + state
        for line in (first, second):
            line.no_wrap, line.overflow = True, "ellipsis"
        lines += [first, second]
    return Group(*lines)


def _draw_steps(one: SliceTimeline) -> Text:
    lights = Text()
    reached = [index for index, step in enumerate(STEPS) if step in one.steps]
    current = (reached[-1] + 1) if reached else 0
    for index, step in enumerate(STEPS):
        if step in one.steps:
            lights.append("● ", style="green")
        elif one.refusal:
            lights.append("× ", style="red")  # noqa: RUF001 -- a glyph, not a letter
        elif index == current:
            lights.append("◐ ", style="yellow")
        else:
            lights.append("○ ", style="bright_black")
    return lights


def _draw_state(one: SliceTimeline, timeline: Timeline, now: float) -> Text:
    if one.refusal:
        return Text(f"refused: {one.refusal.reason}", style="red")
    reached = [step for step in STEPS if step in one.steps]
    if not reached:
        return Text("waiting for its pods", style="dim")
    last = reached[-1]
    failures = "" if Step.RUNNING in one.steps else describe_failures(one, timeline)
    if failures:
        text = Text(failures, style="red")
    else:
        text = Text(f"{SENTENCES[last]}, {max(0.0, now - one.steps[last]):.0f} s ago")
    if one.decisions:
        latest = one.decisions[-1]
        text.append(f"   {latest.function}: {latest.decision} ({latest.reason})", style="dim")
    return text


def format_line(line: FeedLine, started_at: float) -> Text:
    """Return one line of the feed, with its seconds since the start."""
    text = Text(f"{line.at - started_at:7.2f} s  ", style="dim")
    text.append(f"{line.who}  ", style="cyan")
    text.append(line.text, style=_COLORS.get(line.emphasis, "default"))
    return text


def _format_virtual(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d} min"
