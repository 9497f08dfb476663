"""``explain``: the section of the runbook about a reason or an alert."""

from __future__ import annotations

import difflib
import re
from importlib.resources import files
from typing import Annotated

import typer

from cli.exit_codes import BadInput, ExitCode, answering

_HEADING = re.compile(r"^#{2,3} (.+)$", re.MULTILINE)
_ROW = re.compile(r"^\| <a id=\"\w+\"></a>`(\w+)` \| (.+) \| (.+) \|$", re.MULTILINE)
"""Of the table of reasons that ask nothing of a person."""
_MEANS = "- **Means:** "  # begins the text about a reason
_LINK = re.compile(r"\[([^\]]+)\]\((?:#[-\w]+|[^)\s]+\.md[^)\s]*)\)")


def read_sections() -> dict[str, str]:
    """Return the text about each heading and row of the runbook, which comes with the command."""
    page = (files("cli") / "runbook.md").read_text(encoding="utf-8")
    parts = _HEADING.split(page)
    sections = dict(zip(parts[1::2], (each.strip() for each in parts[2::2]), strict=True))
    for reason, means, following in _ROW.findall(page):
        sections[reason] = f"{_MEANS}{means}\n- **Next:** {following}\n- **You:** nothing."
    return sections


def find_section(reason: str) -> tuple[str, str]:
    """Return the heading and the text about a reason or an alert."""
    sections = read_sections()
    by_name = {_plain(heading): heading for heading in sections}
    name = _plain(reason)
    near = difflib.get_close_matches(name, by_name)
    for wanted in (name, f"alert: {name}"):
        if wanted in by_name:
            return by_name[wanted], sections[by_name[wanted]]
    valid = ", ".join(by_name[each] for each in near) or "a reason as status, why and Events have it in brackets"
    raise BadInput(f"REASON: the runbook has no heading {reason[:80]!r}; valid: {valid}")


def find_summary(reason: str) -> str:
    """Return the first sentence of the runbook about a reason; empty if it has no such heading."""
    try:
        _, text = find_section(reason)
    except BadInput:
        return ""
    paragraph = re.split(r"\n\n|\n *- ", drop_links(text).removeprefix(_MEANS))[0]
    return " ".join(paragraph.split()).partition(". ")[0].rstrip(".:") + "."


def drop_links(text: str) -> str:
    """Return a section without links to other places of the documentation; their words stay."""
    return _LINK.sub(r"\1", text)


def _plain(text: str) -> str:
    return text.strip().strip("[]").lower()


@answering
def explain(
    reason: Annotated[str, typer.Argument(metavar="REASON", help="A reason or an alert, for example stockout.")],
) -> ExitCode:
    """Print what the runbook says about a reason.

    It says what the reason means, what follows, and what to do.

    Example: tpu-provisioner explain stockout
    """
    heading, text = find_section(reason)
    typer.echo(f"## {heading}\n\n{drop_links(text)}")
    return ExitCode.FINE
