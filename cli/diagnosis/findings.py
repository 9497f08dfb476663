"""The result of a check of `doctor`, with the command that repairs it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from cli.exit_codes import say
from cli.printing import Column, print_line, print_table, styled
from shared.model.errors import ProvisionerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console


class Result(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    """It works, but a person should look."""
    BAD = "bad"
    SKIPPED = "skipped"
    """Not checked. The text says why."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check says."""

    result: Result
    text: str
    fix: str = ""
    """A command, or where to look."""
    check: str = ""


def fine(text: str) -> Finding:
    """Return that nothing is to be done."""
    return Finding(Result.OK, text)


def bad(text: str, fix: str, *, serious: bool = True) -> Finding:
    """Return what does not work, or at which a person should look, and what repairs it."""
    return Finding(Result.BAD if serious else Result.WARN, text, fix)


def skipped(text: str) -> Finding:
    """Return why a check was not made."""
    return Finding(Result.SKIPPED, f"not checked: {text}")


NO_LOGIN = "there are no Google credentials"
"""Such an error names its own remedy."""
NO_ANSWER = "no answer"
"""Begins the text of a check that could not ask."""


def look(check: str, ask: Callable[[], Finding], fix: str = "") -> Finding:
    """Return what a check says; one that cannot ask is a finding itself."""
    try:
        return replace(ask(), check=check)
    except ProvisionerError as error:
        return Finding(Result.BAD, f"{NO_ANSWER} ({error.reason}): {say(error)}", fix, check)


def merge_unanswered(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings; checks that could not ask for the same cause become one."""
    merged: list[Finding] = []
    causes: dict[str, list[Finding]] = {}
    for each in findings:
        same = causes.setdefault(each.text if each.text.startswith(NO_ANSWER) else each.check, [])
        same.append(each)
        if len(same) == 1:
            merged.append(each)
    for place, first in enumerate(merged):
        others = ", ".join(each.check for each in causes.get(first.text, [])[1:])
        if others:
            fix = "" if NO_LOGIN in first.text else first.fix
            text = f"{first.text}; for the same cause not checked: {others}"
            merged[place] = replace(first, text=text, fix=fix)
    return merged


_LOOKS = {Result.OK: "ok", Result.WARN: "warn", Result.BAD: "bad", Result.SKIPPED: "dim"}
COLUMNS: list[Column[Finding]] = [
    Column(
        "result", lambda each: str(each.result), "RESULT", lambda each: styled(each.result, _LOOKS[each.result])
    ),
    Column("check", heading="CHECK"),
    Column("text", heading="FOUND"),
    Column("fix"),
]


def print_findings(console: Console, findings: Sequence[Finding]) -> None:
    """Print findings for people: a line each, then what fixes those that need it, then the sum."""
    print_table(console, COLUMNS, findings)
    print_line(console)
    for each in findings:
        if each.fix:
            print_line(console, f"{each.check}: {each.fix}")
    counts = {result: sum(each.result is result for each in findings) for result in Result}
    print_line(console, ", ".join(f"{count} {result}" for result, count in counts.items() if count))
