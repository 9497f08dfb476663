"""The table of docs/lives-kinds.md: the calls of each scenario of tests/kinds in its latest run.

A run of some scenarios replaces their rows; the others stay as the document has them.
``python -m tests.lives.table --write kinds`` writes it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shared.core.kinds.table import KIND_NAMES
from tests.lives.results import FOLDER, read_scenario

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.lives.results import LifeOfKind

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "lives-kinds.md"
BEGIN, END = "<!-- kinds: begin -->", "<!-- kinds: end -->"
CLUSTERS = ("embedded", "real")
METHODS = ("CreateNodePool", "GetNodePool", "DeleteNodePool", "SetNodePoolSize")
HEADINGS = (
    "kind",
    "scenario",
    "cluster",
    "it ends",
    "pools made",
    "create / get / delete / set size",
    "calls",
    "calls at most",
    "calls per pool",
    "calls of Compute Engine",
)
_BOTH = "; "
"""Between what the two clusters say, where it differs."""
_UNKNOWN = "-"
"""In the cells of a scenario that was not run since it was written."""


@dataclass(frozen=True, slots=True)
class Row:
    """One scenario's lives of one kind on one cluster."""

    test: str
    """As pytest names it: ``FILE::FUNCTION``."""
    kind: str
    cluster: str
    cells: tuple[str, ...]
    """The others, in the order of the headings."""

    @property
    def is_counted(self) -> bool:
        return self.cluster != _UNKNOWN

    @property
    def calls(self) -> int:
        return int(self.cells[3])

    @property
    def calls_most(self) -> int:
        return int(self.cells[4])


def list_scenarios(folder: Path = ROOT / "tests" / "kinds") -> list[str]:
    """Return the tests that live something on a running stack, file by file."""
    return [
        f"{path.relative_to(folder.parents[1]).as_posix()}::{node.name}"
        for path in sorted(folder.glob("test_*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and "cloud" in {each.arg for each in node.args.args}
    ]


def count(test: str, cluster: str, lives: Sequence[LifeOfKind]) -> list[Row]:
    """Return the rows of one run of a scenario: one for each kind of which it lived something."""
    kinds = sorted({life.kind for life in lives}, key=_place)
    return [_sum_up(test, kind, cluster, [life for life in lives if life.kind == kind]) for kind in kinds]


def _sum_up(test: str, kind: str, cluster: str, lives: Sequence[LifeOfKind]) -> Row:
    found = [life.measured for life in lives]
    by_method = [
        sum(number for each in found for said, number in each.calls.items() if said.split()[0] == method)
        for method in METHODS
    ]
    calls, pools = sum(each.calls_in_all for each in found), sum(each.creates for each in found)
    elastic = " (elastic)" if any(life.elastic for life in lives) else ""
    cells = (
        ", ".join(sorted({each.end for each in found})),
        f"{pools}{elastic}",
        " / ".join(map(str, by_method)),
        str(calls),
        str(sum(life.calls_most for life in lives)),
        f"{calls / pools:.1f}" if pools else "",
        str(sum(each.compute_calls for each in found)),
    )
    return Row(test, kind, cluster, cells)


def collect(text: str, folder: Path = FOLDER) -> list[Row]:
    """Return the rows of all scenarios, from the previous document and the latest results."""
    before = parse(text)
    rows = []
    for test in list_scenarios():
        mine = []
        for cluster in CLUSTERS:
            mine += count(test, cluster, read_scenario(cluster, test, folder)) or [
                row for row in before if (row.test, row.cluster) == (test, cluster)
            ]
        rows += mine or [Row(test, _UNKNOWN, _UNKNOWN, (_UNKNOWN,) * (len(HEADINGS) - 3))]
    return sorted(rows, key=lambda row: _place(row.kind))


def _place(kind: str) -> tuple[int, str]:
    """Return a kind's place: in the order of the table of kinds, then others, then uncounted."""
    known = KIND_NAMES.index(kind) if kind in KIND_NAMES else len(KIND_NAMES)
    return (known + (kind == _UNKNOWN), kind)


def render(rows: Iterable[Row]) -> list[tuple[str, ...]]:
    """Return the lines of the table, cell by cell: one line for a scenario on both clusters."""
    lived: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        lived.setdefault((row.kind, _link(row.test)), []).append(row)
    return [
        (*named, *(_join(cell) for cell in zip(*((row.cluster, *row.cells) for row in mine), strict=True)))
        for named, mine in lived.items()
    ]


def _join(values: Sequence[str]) -> str:
    return values[0] if len(set(values)) == 1 else _BOTH.join(values)


def parse(text: str) -> list[Row]:
    """Return the rows of a document."""
    _, _, rest = text.partition(BEGIN)
    table, _, _ = rest.partition(END)
    rows = []
    for line in table.strip().splitlines()[2:]:
        kind, link, *joined = (cell.strip() for cell in line.strip().strip("|").split("|"))
        sentence, _, file = link.removeprefix("[").removesuffix(")").partition("](../")
        clusters = joined[0].split(_BOTH)
        said = [cell.split(_BOTH) * (1 if _BOTH in cell else len(clusters)) for cell in joined]
        test = f"{file}::test_{sentence.replace(' ', '_')}"
        rows += [Row(test, kind, cluster, tuple(cells)) for cluster, *cells in zip(*said, strict=True)]
    return rows


def _link(test: str) -> str:
    file, _, function = test.partition("::")
    return f"[{function.removeprefix('test_').replace('_', ' ')}](../{file})"
