"""Two views of a run and of its end: live for terminals, lines for everything else."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from cli.printing import count
from demo.loop.feed import Line, Story, draw_table

_REFRESH_PER_SECOND = 4
_LINES_MIN = 6
"""So many lines of the screen are left to the feed above the table."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a workload will not run."""

    workload: str
    reason: str
    message: str


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The end of a run."""

    stories: dict[str, Story]
    """Every pool that there was, by its name."""
    endings: dict[str, str] = field(default_factory=dict)
    """By workload: ``Completed``, ``Failed``, or nothing if it was deleted."""
    refusals: list[Refusal] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What kept the end state from being verified; empty when it was."""
    calls: dict[str, int] = field(default_factory=dict)
    """How many calls of GKE changed something, by method."""
    page: dict[str, Any] = field(default_factory=dict)
    """The last reading of the board, with the pools of the whole run."""


class View(Protocol):
    """What a run tells while it happens."""

    def start(self) -> None:
        """Begin to show."""

    def say(self, text: str) -> None:
        """Show a word about the demo itself."""

    def show(self, lines: Sequence[Line], stories: Sequence[Story]) -> None:
        """Show new lines, and the pools as they are."""

    def stop(self) -> None:
        """Leave the terminal as it was found."""


class PlainView:
    """One line for each change."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def start(self) -> None:
        """Nothing to begin."""

    def say(self, text: str) -> None:
        """Print a word about the demo itself."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self, lines: Sequence[Line], stories: Sequence[Story]) -> None:  # noqa: ARG002 -- View's shape
        """Print the new lines."""
        for line in lines:
            self._console.print(line.as_text(), soft_wrap=True)

    def stop(self) -> None:
        """Nothing to restore."""


class LiveView:
    """The same lines, and below them the table of the pools, which changes in its place."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=_REFRESH_PER_SECOND, transient=True)

    def start(self) -> None:
        """Begin to draw."""
        self._live.start()

    def say(self, text: str) -> None:
        """Print a word about the demo itself above the table."""
        self._console.print(Text(text, style="dim"))

    def show(self, lines: Sequence[Line], stories: Sequence[Story]) -> None:
        """Print the new lines, and draw the table anew."""
        for line in lines:
            self._console.print(line.as_text())
        rows_max = max(1, self._console.height - _LINES_MIN)
        self._live.update(draw_table(stories, width=self._console.width, rows_max=rows_max))

    def stop(self) -> None:
        """End the drawing."""
        self._live.stop()


def print_outcome(console: Console, outcome: Outcome) -> None:
    """Print the pools of a run, what did not go on, and whether its end is verified."""
    if outcome.stories:
        console.print()
        console.print(draw_table(list(outcome.stories.values()), width=console.width))
    calls = ", ".join(f"{number} {method}" for method, number in sorted(outcome.calls.items()))
    console.print(f"\nchanges asked of GKE: {calls or 'none'}", highlight=False)
    if outcome.problems:
        console.print("NOT VERIFIED:", style="bold red")
        for each in outcome.problems:
            console.print(f"  - {each}", markup=False, highlight=False, soft_wrap=True)
        return
    refused = len({each.workload for each in outcome.refusals})
    tail = f"; {count(refused, 'workload')} refused, with reasons above" if refused else ""
    pools = count(len(outcome.stories), "node pool")
    console.print(f"Verified: {pools} created and deleted, none is left{tail}.", style="green", highlight=False)
    console.print("Next: make up keeps such a cloud for kubectl and gcloud.", highlight=False)
