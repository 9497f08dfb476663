"""Writes the table of docs/kinds.md from shared/kinds/table.py; a test compares the two.

Run as ``python -m infra.build.write_kinds`` from the repository's root.
"""

from __future__ import annotations

import re
from pathlib import Path

from shared.kinds.table import KINDS

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/kinds.md"
_TABLE = re.compile(r"(^\| kind \| API \|.*\n\|(?:---\|)+\n)(?:\|.*\n)+", re.MULTILINE)


def write_table(page: str) -> str:
    """Return the page with the rows of its table written anew.

    Raises:
        ValueError: the page has no table of kinds, or two.
    """
    rows = "".join(
        f"| {kind.name} | `{kind.api_version}` | {kind.text.leaders} | {kind.text.slice} | {kind.text.over} "
        f"| {kind.text.released} |\n"
        for kind in KINDS
    )
    written, count = _TABLE.subn(lambda table: table[1] + rows, page)
    if count != 1:
        raise ValueError(f"{DOCUMENT.name}: has {count} tables of kinds; valid: one")
    return written


if __name__ == "__main__":
    DOCUMENT.write_text(write_table(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
