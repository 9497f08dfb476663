"""Prints a plan as annotations of GitHub's checks, at the documents that they are about.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from cli.planning.plan import summarize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cli.planning.manifests import Found, Place
    from cli.planning.plan import PlannedSlice


def print_notes(found: Found, planned: Sequence[PlannedSlice]) -> None:
    """Print an error for each refusal and problem, a warning for what gets no pool, and the sum."""
    seen = set[str]()
    for problem in found.problems:
        _print(seen, "error", problem.where, "cannot be read", problem.text)
    for each in planned:
        if not each.creates:
            level = "error" if each.refused else "warning"
            what = f"{each.namespace}/{each.workload}: {each.decision.message}"
            _print(seen, level, each.where, str(each.decision.reason), what)
    print_escaped = _escape(f"tpu-provisioner plan: {summarize(planned)}")
    sys.stdout.write(f"::notice::{print_escaped}\n")


def _print(seen: set[str], level: str, where: Place | None, title: str, text: str) -> None:
    """Print an annotation once: GitHub shows ten of a kind, and slices of a group are alike."""
    place = f"file={_escape_property(where.file)},line={where.line}," if where else ""
    line = f"::{level} {place}title={_escape_property(title)}::{_escape(text)}\n"
    if line not in seen:
        seen.add(line)
        sys.stdout.write(line)


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")
