"""What changes from one status of the product to the next: a line for each change, and the pools.

Statuses come in; lines, and a table that changes in its place, go to a console.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cli.fleet.rows import KEPT, PoolRow, WaitingRow
from cli.fleet.status import Status
from cli.printing import STYLES, count

WAIT, CREATE, FAILED, PLACE, USE = "wait", "create", "failed", "place", "use"
LOST, OVER, DELETE, GONE = "lost", "over", "delete", "gone"
_OF_STATE = {"PROVISIONING": CREATE, "ERROR": FAILED, "STOPPING": DELETE}
_WORDS = {
    CREATE: "GKE creates it",
    FAILED: "its creation failed",
    WAIT: "has no nodes yet",
    PLACE: "has nodes, and no pod runs on them",
    USE: "is in use",
    LOST: "has lost its nodes",
    OVER: "is not in use",
    DELETE: "GKE deletes it",
    GONE: "is gone",
}
_LOOKS = {FAILED: "bad", LOST: "bad", USE: "ok", GONE: "dim"}
_SECONDS_WIDTH = len("9999.9 s  ")
_COLUMNS = ("WORKLOAD", "POOL", "NODES", "CREATED", "IN USE", "GONE")


@dataclass(slots=True)
class Story:
    """One pool, from its first sight to its end."""

    row: PoolRow  # as it was last
    nodes: int = 0  # the most that it had
    began: dict[str, float] = field(default_factory=dict)
    """By phase: the seconds after which it was seen first."""
    phase: str = ""
    errors: list[str] = field(default_factory=list)  # GKE's words about it

    def as_row(self) -> dict[str, Any]:
        """Return its last row for the board, with what became of it."""
        moments = [f"{seconds:.0f} s: {_WORDS[phase]}" for phase, seconds in self.began.items()]
        kept = replace(self.row, state=self.phase.upper(), nodes=self.nodes, decision="over", reason="")
        return asdict(replace(kept, message="; ".join([*moments, *self.errors])))

    def as_cells(self) -> list[str]:
        """Return its row of the table."""
        moments = (self.began.get(phase) for phase in (CREATE, USE, GONE))
        shown = ("-" if moment is None else f"{moment:.0f} s" for moment in moments)
        return [f"{self.row.owner} {self.row.slot}".strip(), self.row.pool, str(self.nodes), *shown]


class Feed:
    """Takes one status after the other; it begins with the first moment that it is told."""

    def __init__(self, began_at: float) -> None:
        self.stories: dict[str, Story] = {}
        self._began_at = began_at
        self._waits: set[tuple[str, ...]] = set()

    def take(self, status: Status, now: float) -> list[Text]:
        """Return what has changed; what a cluster did not answer changes nothing."""
        seconds = now - self._began_at
        lines = [*self._see_waiting(status, seconds)]
        for row in status.pools:
            lines += self._see_pool(row, seconds)
        if not status.errors:
            lines += self._see_gone({row.pool for row in status.pools}, seconds)
        return lines

    def say(self, about: str, text: str, now: float, look: str = "") -> Text:
        """Return a line about something else, in one of the looks of `cli.printing.STYLES`."""
        return _write(now - self._began_at, about, text, look)

    def _see_waiting(self, status: Status, seconds: float) -> Iterator[Text]:
        waits: set[tuple[str, ...]] = set()
        for row in (*status.waiting, *status.left_alone):
            wait = (row.owner, row.shape or row.message, row.decision, row.reason)
            if wait not in self._waits | waits:
                yield _write(seconds, row.owner, _describe_wait(row), "bad" if row.stuck else "warn")
            waits.add(wait)
        if not status.errors:
            self._waits = waits

    def _see_pool(self, row: PoolRow, seconds: float) -> Iterator[Text]:
        story = self.stories.setdefault(row.pool, Story(row))
        story.row, story.nodes = row, max(story.nodes, row.nodes)
        error = row.error if row.error not in story.errors else ""
        story.errors += [error] if error else []
        phase = find_phase(row)
        phase = LOST if phase == WAIT and story.nodes else phase
        again = phase == story.phase or (phase == PLACE and phase in story.began)
        first, story.phase = not story.phase, phase
        if again:
            return
        story.began.setdefault(phase, seconds)
        what = f" ({row.machine_type} {row.topology}".rstrip() + f", {row.tier})" if first else ""
        words = f"{_WORDS[phase]}: {error}".removesuffix(": ")
        if phase == OVER:
            words = f"{row.message.removeprefix(f'node pool {row.pool} ')} [{row.reason}]"
        yield _write(seconds, row.owner, f"pool {row.pool}{what}: {words}", _LOOKS.get(phase, ""))

    def _see_gone(self, names: set[str], seconds: float) -> Iterator[Text]:
        for name, story in self.stories.items():
            if name not in names and story.phase != GONE:
                story.phase = GONE
                story.began[GONE] = seconds
                yield _write(seconds, story.row.owner, f"pool {name}: {_WORDS[GONE]}", _LOOKS[GONE])


def find_phase(row: PoolRow) -> str:
    """Return the phase of a pool that is there."""
    if row.state in _OF_STATE:
        return _OF_STATE[row.state]
    if row.hosts_busy:
        return USE
    if row.decision != KEPT:
        return OVER
    return PLACE if row.nodes else WAIT


def draw_table(stories: Sequence[Story], *, rows_max: int | None = None) -> Table:
    """Return the pools as a table; of many, those that are gone are left out first.

    Where there is little width names are cut, and no moment: the lines have names and machines.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for heading in _COLUMNS:
        table.add_column(heading, no_wrap=True, overflow="ellipsis", min_width=len(heading))
    shown = sorted(stories, key=lambda story: story.phase == GONE)[:rows_max]
    for story in sorted(shown, key=lambda story: (story.row.owner, story.row.slot, story.row.attempt)):
        look = "dim" if story.phase == GONE else _LOOKS.get(story.phase, "")
        table.add_row(*map(Text, story.as_cells()), style=STYLES[look])
    return table


def _write(seconds: float, about: str, text: str, look: str) -> Text:
    """Return one change, for people; the seconds are those since the feed began."""
    line = Text.assemble((f"{seconds:6.1f} s  ", "dim"), (about, "bold"), "  ")
    return line.append(text, STYLES[look])


def _describe_wait(row: WaitingRow) -> str:
    reason = f" [{row.reason}]" if row.reason else ""
    what = f"{count(row.slices, 'slice')} of {row.shape}" if row.shape else count(row.slices, "pod")
    return f"waiting, {what}: {row.message}{reason}"


_LINES_MIN = 6  # so many lines of the screen are left to the lines above the table


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a workload will not run."""

    workload: str
    reason: str
    message: str


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The end of a run."""

    stories: dict[str, Story]  # every pool that there was, by its name
    endings: dict[str, str] = field(default_factory=dict)
    """By workload: ``Completed``, ``Failed``, or nothing if it was deleted."""
    refusals: list[Refusal] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What kept the end state from being verified; empty when it was."""
    calls: dict[str, int] = field(default_factory=dict)
    """How many calls of GKE changed something, by method."""
    page: dict[str, Any] = field(default_factory=dict)
    """The last reading of the board, with the pools of the whole run."""


class View:
    """A console: one line for each change, and on a terminal the table of the pools below them."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        """Show a word about the demo itself."""
        self._console.print(Text(text, style="dim"), soft_wrap=not self._console.is_terminal)

    def show(self, lines: Sequence[Text], stories: Sequence[Story]) -> None:
        """Show new lines, and the pools as they are."""
        for line in lines:
            self._print_change(line)
        if self._console.is_terminal and stories:
            rows_max = max(1, self._console.height - _LINES_MIN)
            self._live.update(draw_table(stories, rows_max=rows_max))

    def _print_change(self, line: Text) -> None:
        """Print a line; in a pipe it stays one, on a terminal it folds beside its seconds."""
        if not self._console.is_terminal:
            self._console.print(line, soft_wrap=True)
            return
        folded = Table.grid()
        folded.add_row(line[:_SECONDS_WIDTH], line[_SECONDS_WIDTH:])
        self._console.print(folded)


def print_outcome(console: Console, outcome: Outcome) -> None:
    """Print the pools of a run, what did not go on, and whether its end is verified."""
    if outcome.stories:
        console.print()
        console.print(draw_table(list(outcome.stories.values())))
    calls = ", ".join(f"{number} {method}" for method, number in sorted(outcome.calls.items()))
    console.print(f"\nchanges asked of GKE: {calls or 'none'}", highlight=False)
    if outcome.problems:
        console.print("NOT VERIFIED:", style="bold red")
        for each in outcome.problems:
            console.print(f"  - {each}", markup=False, highlight=False, soft_wrap=True)
        return
    refused = len({each.workload for each in outcome.refusals})
    tail = f"; {count(refused, 'workload')} given up, with reasons above" if refused else ""
    pools = count(outcome.calls.get("CreateNodePool", 0), "node pool")
    console.print(f"Verified: {pools} created and deleted, none is left{tail}.", style="green", highlight=False)
    console.print("Next: make up keeps such a cloud for kubectl and gcloud.", highlight=False)
