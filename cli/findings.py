"""The result of a check of `doctor`, with the command that repairs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from cli.printing import print_columns, print_line, styled
from shared.core.errors import ProvisionerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.text import Text


class Result(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    """It works, but a person should look."""
    BAD = "bad"
    SKIPPED = "skipped"
    """Not checked. The text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    check: str
    result: Result
    text: str
    mend: str = ""
    """A command, or where to look."""

    def as_data(self) -> dict[str, str]:
        """Return it for programs."""
        return {key: str(value) for key, value in asdict(self).items()}


Check = Callable[[], Iterable[Finding]]


def look(name: str, check: Check, mend: str = "") -> list[Finding]:
    """Return what a check finds; one that cannot ask is a finding itself.

    Args:
        name: what is looked at.
        check: the look.
        mend: what mends it when nothing can be asked.
    """
    try:
        return list(check())
    except ProvisionerError as error:
        return [Finding(check=name, result=Result.BAD, text=f"no answer ({error.reason}): {error}", mend=mend)]


_LOOKS = {Result.OK: "ok", Result.WARN: "warn", Result.BAD: "bad", Result.SKIPPED: "dim"}


def print_findings(console: Console, findings: Sequence[Finding]) -> None:
    """Print findings for people: a line each, then what mends those that need it, then the sum."""
    rows: list[list[str | Text]] = [
        [styled(str(each.result), _LOOKS[each.result]), each.check, each.text] for each in findings
    ]
    print_columns(console, ["RESULT", "CHECK", "FOUND"], rows)
    print_line(console)
    for each in findings:
        if each.mend:
            print_line(console, f"{each.check}: {each.mend}")
    counts = {result: sum(each.result is result for each in findings) for result in Result}
    print_line(console, ", ".join(f"{count} {result}" for result, count in counts.items() if count))
