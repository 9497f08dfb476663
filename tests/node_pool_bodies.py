"""Reads the tables of docs/evidence/node-pool-bodies.md, which tests hold to code and source."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs/evidence/node-pool-bodies.md"
Row = dict[str, str]


def read_tables() -> tuple[list[Row], list[Row], list[Row]]:
    """Return families, tiers and fields: for each row its cells by the heads of the columns."""
    tables = []
    for table in re.findall(r"(?:^\|.*\n)+", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines())
        tables.append([dict(zip(head, row, strict=True)) for row in rows])
    families, tiers, fields = tables
    return families, tiers, fields


def read_values(cell: str) -> dict[str, str]:
    """Return the fields and values of a cell like "`field`: value; `field`: value"."""
    return dict(re.findall(r"`([\w.]+)`: ([^;]+)", cell))


def read_names(cell: str) -> set[str]:
    """Return the fields of a cell like "`field`, `field`"."""
    return set(re.findall(r"`([\w.]+)`", cell))
