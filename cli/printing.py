"""Prints answers: columns for people (as kubectl does), JSON and YAML for programs.

On a terminal the columns fold at its width and carry colour (never with NO_COLOR); elsewhere every
row is one line, whatever its length, so that grep and awk can be trusted.
"""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

import typer
import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.exit_codes import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cli.exit_codes import ExitCode


_AGO = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_EARLIEST = 365 * 86_400  # the begin of 1971. Readers look at the days before a time too.
_VALID = "RFC 3339 with a zone (2026-11-21T08:00:00Z), or how long ago (90s, 15m, 2h, 3d)"


def parse_since(text: str, *, now: float) -> float:
    """Return the unix seconds of a moment in the past."""
    if ago := _AGO.fullmatch(text.strip()):
        seconds = now - int(ago[1]) * _SECONDS[ago[2]]
    else:
        try:
            moment = datetime.fromisoformat(text.strip())
        except ValueError as error:
            raise BadInput(f"--since: is not a time (got {text!r}); valid: {_VALID}") from error
        if moment.tzinfo is None:
            raise BadInput(f"--since: has no time zone (got {text!r}); valid: {_VALID}")
        seconds = moment.timestamp()
    if not _EARLIEST <= seconds <= now:
        # Pub/Sub accepts a future time, and then drops all waiting messages.
        raise BadInput(f"--since: is no time from 1971 until now (got {text!r}); valid: {_VALID}")
    return seconds


def format_moment(seconds: float) -> str:
    """Return RFC 3339 in UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_exact(seconds: float) -> str:
    """Return RFC 3339 in UTC with microseconds, for a program."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


PAUSE_SECONDS = 5.0


def watch(show: Callable[[], ExitCode], *, endless: bool) -> ExitCode:
    """Show an answer once, or every 5 seconds until Ctrl-C; return its last exit code."""
    code = show()
    try:
        while endless:
            time.sleep(PAUSE_SECONDS)
            console = open_console()
            if console.is_terminal:
                console.clear()
            code = show()
    except KeyboardInterrupt:
        return code
    return code


_GAP = "   "
R = TypeVar("R")
STYLES = {"ok": "green", "warn": "yellow", "bad": "bold red", "dim": "dim", "": ""}
MINUTE, HOUR, DAY = 60, 3600, 86_400


class Format(StrEnum):
    """How an answer is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"

    @property
    def for_programs(self) -> bool:
        """Return whether nothing but data may be printed."""
        return self in (Format.JSON, Format.YAML)


def open_console() -> Console:
    """Return a console on standard output as it is now."""
    return Console(highlight=False, markup=False, emoji=False)


def print_data(data: Any, form: Format) -> None:
    """Print data for programs."""
    if form is Format.YAML:
        sys.stdout.write(yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
    else:
        sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """One column of an answer: for people by its heading, for programs by its key."""

    key: str  # in JSON and YAML; empty: for people only
    get: Callable[[R], Any] | None = None
    """Returns its value for a row; by default the row's attribute of that key."""
    heading: str = ""  # empty: for programs only
    show: Callable[[R], Any] | None = None  # returns its cell, if that is not just the value
    wide: bool = False  # it is shown by ``-o wide`` only

    def is_shown(self, *, wide: bool) -> bool:
        """Return whether people see it."""
        return bool(self.heading) and (wide or not self.wide)

    def read(self, row: R) -> Any:
        """Return its value for a row."""
        return self.get(row) if self.get else getattr(row, self.key)

    def write(self, row: R) -> str | Text:
        """Return its cell for a row."""
        value = self.show(row) if self.show else self.read(row)
        if value is None or not str(value):
            return "-"
        return value if isinstance(value, Text) else str(value)


def as_data(columns: Sequence[Column[R]], row: R) -> dict[str, Any]:
    """Return a row for programs."""
    return {column.key: column.read(row) for column in columns if column.key}


def print_table(console: Console, columns: Sequence[Column[R]], rows: Sequence[R], *, wide: bool = False) -> None:
    """Print rows by their columns: folded on a terminal, one line each elsewhere."""
    shown = [column for column in columns if column.is_shown(wide=wide)]
    headings = [column.heading for column in shown]
    cells = [[_escape(column.write(row)) for column in shown] for row in rows]
    if not console.is_terminal:
        _print_lines(console, headings, cells)
        return
    table = Table(*headings, box=None, pad_edge=False, padding=(0, len(_GAP), 0, 0), header_style="bold")
    for column in table.columns:
        column.overflow = "fold"
    for row in cells:
        table.add_row(*row)
    console.print(table)


def _print_lines(console: Console, headings: Sequence[str], cells: Sequence[Sequence[Text]]) -> None:
    lines = [headings, *([cell.plain for cell in row] for row in cells)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(headings))]
    for line in lines:
        console.out(_GAP.join(map(str.ljust, line, widths)).rstrip())


def print_line(console: Console, text: str | Text = "") -> None:
    """Print one line; it folds on a terminal and stays whole elsewhere."""
    if console.is_terminal:
        console.print(_escape(text))
    else:
        console.out(_escape(text).plain)


def warn(text: str) -> None:
    """Print one line on standard error."""
    sys.stderr.write(f"{_escape(text)}\n")


def _escape(text: str | Text) -> Text:
    """Return a text whose control characters, which objects may hold, do nothing to a terminal."""
    shown = (each if each.isprintable() else each.encode("unicode_escape").decode() for each in str(text))
    return Text("".join(shown), style=text.style if isinstance(text, Text) else "")


def styled(text: str, look: str) -> Text:
    """Return a text with a style for terminals: ``ok``, ``warn``, ``bad`` or ``dim``."""
    return Text(text, style=STYLES[look])


def format_age(seconds: float | None) -> str:
    """Return an age as kubectl writes it: ``45s``, ``12m``, ``3h5m``, ``2d4h``; ``?``: unknown."""
    if seconds is None:
        return "?"
    whole = int(seconds)
    if whole < 2 * MINUTE:
        return f"{whole}s"
    if whole < HOUR:
        return f"{whole // MINUTE}m"
    if whole < DAY:
        return f"{whole // HOUR}h{whole % HOUR // MINUTE}m"
    return f"{whole // DAY}d{whole % DAY // HOUR}h"


def format_minute(seconds: float) -> str:
    """Return unix seconds as hour and minute in UTC, rounded up; for times of today."""
    return datetime.fromtimestamp(-(-seconds // 60) * 60, UTC).strftime("%H:%M UTC")


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where it belongs."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def short_cluster(cluster: str) -> str:
    """Return ``PROJECT/LOCATION/NAME`` of a cluster's full name."""
    _, project, _, location, _, name = cluster.split("/")
    return f"{project}/{location}/{name}"


_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def _check(text: str) -> str:
    if text and not _NAME.fullmatch(text):
        raise typer.BadParameter(f"is not a Kubernetes name (got {text[:80]!r}); valid: a name like team-a")
    return text


Namespace = Annotated[
    str,
    typer.Option("--namespace", "-n", metavar="NAME", callback=_check, help="Only workloads of this namespace."),
]
Output = Annotated[Format, typer.Option("--output", "-o", help="Format of the output.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Show it again every 5 seconds, until Ctrl-C.")]
Sure = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
