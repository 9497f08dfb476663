"""The tables of docs/lives.md: what the catalogue promises, and what the latest runs measured.

``python -m tests.lives.table --write`` writes them anew between their markers. Needs a whole run on
each cluster before: ``python -m pytest tests/lives -m "not cluster"``, then ``-m cluster``.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.stack.clusters import ClusterKind
from tests.lives.catalogue import LIVES, Life
from tests.lives.results import NotMeasured, read, read_shuffle
from tests.lives.running import Measured

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "lives.md"
_KINDS = (ClusterKind.EMBEDDED, ClusterKind.REAL)
BEGIN, END = "<!-- lives: begin -->", "<!-- lives: end -->"
SLICES_BEGIN, SLICES_END = "<!-- slices: begin -->", "<!-- slices: end -->"
STRATEGIES = {"pinned": "node selector", "default": "default"}
SLICE_HEADINGS = (
    "strategy",
    "cluster",
    "slices",
    "pools made",
    "slices on another's pool",
    "slices that began again, their pool being deleted",
    "moments with two slices on a pool",
)
HEADINGS = (
    "life",
    "what happens",
    "it ends",
    "pools made",
    "creates / deletes that GKE accepts",
    "calls at most",
    "calls seen, embedded / real",
    "what else is seen",
)


Seen = tuple[int | None, int]
"""Calls on the embedded cluster, None where it does not play the life, and on the real one."""
NOT_PLAYED = "-"


@dataclass(frozen=True, slots=True)
class Row:
    """One row as it stands in the document."""

    promised: tuple[str, ...]
    """Everything that the catalogue says, in the order of the columns."""
    seen: Seen
    """Calls on the embedded and on the real cluster."""


def promise(life: Life) -> tuple[str, ...]:
    """Return the cells of a life that are not measured."""
    accepted = f"{life.creates} / {life.creates}"
    return (life.name, life.sentence, life.end, str(life.pools), accepted, str(life.calls_most), life.remark)


def render(seen: Mapping[str, Seen]) -> str:
    """Return the table, given the calls of every life on both clusters."""
    rows = []
    for life in LIVES:
        *first, remark = promise(life)
        embedded, real = seen[life.name]
        rows.append((*first, f"{NOT_PLAYED if embedded is None else embedded} / {real}", remark))
    return show_table(HEADINGS, rows)


def render_slices(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the table of the shuffled runs, given what each cluster's came to."""
    rows = []
    for strategy, text in STRATEGIES.items():
        for kind, run in found.items():
            tally = run[strategy]
            counts = (tally["slices"], tally["pools_made"], len(tally["foreign"]), len(tally["drained"]))
            rows.append((text, kind, *map(str, counts), str(len(run["shared"]))))
    return show_table(SLICE_HEADINGS, rows)


def show_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as the documents have it."""
    lines = [headings, *rows]
    texts = ["| " + " | ".join(cells) + " |" for cells in lines]
    return "\n".join([texts[0], "|" + "---|" * len(headings), *texts[1:]]) + "\n"


def parse(text: str) -> dict[str, Row]:
    """Return the rows of a document, by the life's name."""
    _, _, rest = text.partition(BEGIN)
    table, _, _ = rest.partition(END)
    rows = {}
    for line in table.strip().splitlines()[2:]:
        *first, seen, remark = (cell.strip() for cell in line.strip().strip("|").split("|"))
        embedded, real = seen.split(" / ")
        rows[first[0]] = Row((*first, remark), (None if embedded == NOT_PLAYED else int(embedded), int(real)))
    return rows


def measured_calls() -> dict[str, Seen]:
    """Return the calls of every life on both clusters, from the latest whole runs.

    Raises:
        NotMeasured: one of them is missing, or does not know a life.
    """
    embedded, real = (read(str(kind)) for kind in _KINDS)
    missing = [
        life.name for life in LIVES if life.name not in real or not (life.real_only or life.name in embedded)
    ]
    if missing:
        raise NotMeasured(f"no result for {', '.join(missing)}; run tests/lives on both clusters again")
    return {life.name: (None if life.real_only else _calls(embedded, life), _calls(real, life)) for life in LIVES}


def _calls(found: Mapping[str, Measured], life: Life) -> int:
    return found[life.name].calls_in_all


def _put(text: str, begin: str, end: str, table: str) -> str:
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{table}{end}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the tables into their document")
    options = parser.parse_args()
    try:
        lives = render(measured_calls())
        slices = render_slices({str(kind): read_shuffle(str(kind)) for kind in _KINDS})
    except NotMeasured as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    tables = [(BEGIN, END, lives), (SLICES_BEGIN, SLICES_END, slices)]
    if not options.write:
        sys.stdout.write("\n".join(table for _, _, table in tables))
        return 0
    text = DOCUMENT.read_text()
    for begin, end, table in tables:
        text = _put(text, begin, end, table)
    DOCUMENT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
