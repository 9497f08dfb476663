"""The result of a check of `doctor`, with the command that repairs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from cli.exit_codes import say
from cli.printing import print_columns, print_line, styled
from shared.model.errors import ProvisionerError

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


def fine(check: str, text: str) -> Finding:
    """Return that nothing is to be done."""
    return Finding(check=check, result=Result.OK, text=text)


def warn(check: str, text: str, mend: str) -> Finding:
    """Return that a person should look, and where."""
    return Finding(check=check, result=Result.WARN, text=text, mend=mend)


def bad(check: str, text: str, mend: str) -> Finding:
    """Return what does not work, and what repairs it."""
    return Finding(check=check, result=Result.BAD, text=text, mend=mend)


def poor(check: str, text: str, mend: str, *, serious: bool) -> Finding:
    """Return what is bad if it is serious, and else that a person should look."""
    return bad(check, text, mend) if serious else warn(check, text, mend)


def skipped(check: str, text: str) -> Finding:
    """Return why a check was not made."""
    return Finding(check=check, result=Result.SKIPPED, text=text)


NO_LOGIN = "there are no Google credentials"
"""Such an error names its own remedy."""
NO_ANSWER = "no answer"
"""Begins the text of a check that could not ask."""
Check = Callable[[], Iterable[Finding]]


def look(name: str, check: Check, mend: str = "") -> list[Finding]:
    """Return what a check finds; one that cannot ask is a finding itself."""
    try:
        return list(check())
    except ProvisionerError as error:
        return [bad(name, f"{NO_ANSWER} ({error.reason}): {say(error)}", mend)]


def merge_unanswered(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings; checks that could not ask for the same cause become one."""
    alike: dict[str, list[Finding]] = {}
    for each in findings:
        if each.text.startswith(NO_ANSWER):
            alike.setdefault(each.text, []).append(each)
    merged = {}
    for text, found in alike.items():
        if len(found) > 1:
            names = ", ".join(each.check for each in found[1:])
            mend = "" if NO_LOGIN in text else found[0].mend
            merged[text] = replace(found[0], text=f"{text}; for the same cause not checked: {names}", mend=mend)
    told: list[Finding] = []
    for each in findings:
        one = merged.get(each.text, each)
        if one not in told:
            told.append(one)
    return told


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
