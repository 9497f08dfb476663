"""The report of a run: it is written after each answer, so that the next run continues it."""

from __future__ import annotations

import json
import secrets
import textwrap
from typing import TYPE_CHECKING, Any

import msgspec

from cli.conformance.questions import Verdict
from cli.exit_codes import BadInput
from shared.json_text import JSON_ERRORS
from shared.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from cli.conformance.assumption_list import Assumption
    from cli.conformance.questions import Question


_WIDTH = 100


class Answer(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What came of one question."""

    assumed: str
    seen: str
    verdict: Verdict
    at: str = ""
    """When it was asked, as RFC 3339."""
    seconds: float = 0.0
    details: dict[str, str] = {}
    faults: list[dict[str, Any]] = []
    timings: dict[str, float] = {}


class Report(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """All answers of a run, and the pools that it made."""

    run: str = msgspec.field(default_factory=lambda: secrets.token_hex(3))
    cluster: str
    version: str = VERSION
    made: list[str] = []
    """The names of its pools, each written down before the pool was requested."""
    cleaned: int = 0
    """So many of them are certainly deleted."""
    answers: dict[str, Answer] = {}
    scenario: dict[str, Any] = {}
    """What makes the fake GKE answer as this project did, as its option ``--faults`` takes it."""

    def add(self, name: str, answer: Answer) -> None:
        """Add an answer, with what it means to the fake GKE."""
        self.answers[name] = answer
        answers = self.answers.values()
        self.scenario = {
            "faults": [fault for each in answers for fault in each.faults],
            "timings": {key: seconds for each in answers for key, seconds in each.timings.items()},
        }


def load_report(path: Path, cluster: str) -> Report:
    """Return the report of a file; a new one if there is no file.

    Raises:
        BadInput: the file is not a report, or is about another cluster.
    """
    if not path.exists():
        return Report(cluster=cluster)
    valid = "a report of this command, or a path where no file is"
    try:
        report = msgspec.json.decode(path.read_bytes(), type=Report)
    except (OSError, *JSON_ERRORS) as error:
        raise BadInput(f"--report: {path} cannot be read: {error}; valid: {valid}") from error
    if report.cluster != cluster:
        raise BadInput(f"--report: is about another cluster (got {report.cluster!r}); valid: {valid}")
    return report


def save_report(path: Path, report: Report, questions: Iterable[Question], facts: Sequence[Assumption]) -> None:
    """Write the report, and beside it the same as a page for people (``.md``).

    Each file is replaced as a whole, so a killed run leaves the one before.

    Raises:
        BadInput: a file cannot be written.
    """
    data = json.dumps(msgspec.to_builtins(report), indent=2, ensure_ascii=False) + "\n"
    for file, text in ((path, data), (path.with_suffix(".md"), render_page(report, questions, facts))):
        partial = file.with_name(f".{file.name}.partial")
        try:
            partial.write_text(text, encoding="utf-8")
            partial.replace(file)
        except OSError as error:
            raise BadInput(f"--report: {file} cannot be written: {error.strerror}; valid: a path") from error


def render_page(report: Report, questions: Iterable[Question], facts: Sequence[Assumption]) -> str:
    """Return the report as a page in Markdown."""
    names = [each.name for each in questions]
    counts = {verdict: sum(each.verdict == verdict for each in report.answers.values()) for verdict in Verdict}
    lines = [
        f"# What Google answered in `{report.cluster}`",
        "",
        f"Run `{report.run}`: {', '.join(f'{number} {verdict}' for verdict, number in counts.items())}.",
        "",
        "| question | assumed | seen | verdict | details |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in [*names, *(each for each in report.answers if each not in names)]:
        if answer := report.answers.get(name):
            details = "; ".join(f"{key}: {value}" for key, value in answer.details.items())
            cells = (f"`{name}`", answer.assumed, answer.seen, str(answer.verdict), details)
            lines.append(f"| {' | '.join(' '.join(cell.replace('|', '¦').split()) for cell in cells)} |")
    wrong = [each for each in facts if _differs(report, each.question)]
    if wrong:
        lines += ["", "## What this may break", ""]
        broken = [f"- {each.fact} *If this is false:* {each.breaks}" for each in wrong]
        lines += [textwrap.fill(each, _WIDTH, subsequent_indent="  ") for each in broken]
    return "\n".join(lines) + "\n"


def _differs(report: Report, question: str) -> bool:
    answer = report.answers.get(question)
    return answer is not None and answer.verdict == Verdict.DIFFERS
