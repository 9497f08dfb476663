"""The policy as committed tables: what is decided in every situation, in as few rows as say it all.

``python -m tests.unit.golden_tables --write`` writes them anew after a change of policy; the
difference is what the change means. ``*`` stands for any value of a column, ``a | b`` for either.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shared.core.decide.attempts import AttemptDecision

from tests.unit.decision_enumeration import ATTEMPTS, BROKEN, COLLECT, PROVISION
from tests.unit.decision_table import DecisionTable
from tests.unit.filling_enumeration import FILLING
from tests.unit.warm_enumeration import WARM

FOLDER = Path(__file__).parent / "golden"
Axes = dict[str, tuple[str, ...]]
TABLES = {
    "provision.txt": PROVISION,
    "collect.txt": COLLECT,
    "broken.txt": BROKEN,
    "attempts.txt": ATTEMPTS,
    "warm.txt": WARM,
    "filling.txt": FILLING,
}


def render(table: DecisionTable) -> str:
    """Return a table as text."""
    axes, answers = table.axes, {}
    for row, found in table.everything:
        decision = found.decision if isinstance(found, AttemptDecision) else found
        answers[tuple(row.values())] = f"{decision.verdict:<7} {decision.reason}"
    rows = [(*axes, "decision"), *_unfold(axes, _fold(tuple(axes.values()), (), answers))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(axes) + 1)]
    lines = ("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _fold(axes: tuple[tuple[str, ...], ...], key: tuple[str, ...], answers: dict[tuple[str, ...], str]) -> Any:
    """Return the table as a tree in which values that lead to the same decisions share a branch."""
    if not axes:
        return answers[key]
    branches = defaultdict(list)
    for value in axes[0]:
        branches[_fold(axes[1:], (*key, value), answers)].append(value)
    return tuple((tuple(values), tree) for tree, values in branches.items())


def _unfold(axes: Axes, tree: Any) -> Iterator[tuple[str, ...]]:
    if not axes:
        yield (tree,)
        return
    (_, domain), *rest = axes.items()
    for values, branch in tree:
        cell = "*" if values == domain else " | ".join(values)
        for row in _unfold(dict(rest), branch):
            yield (cell, *row)


def main() -> int:
    if sys.argv[1:] != ["--write"]:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    for name, table in TABLES.items():
        (FOLDER / name).write_text(render(table))
        sys.stdout.write(f"wrote {FOLDER / name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
