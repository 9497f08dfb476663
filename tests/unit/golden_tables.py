"""The policy as committed tables: what is decided in every situation, in as few rows as say it all.

``python -m tests.unit.golden_tables --write`` writes them anew after a change of policy; the
difference is what the change means. ``*`` stands for any value of a column, ``a | b`` for either.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from shared.core.decisions import Decision
from tests.unit.decision_enumeration import (
    ATTEMPT_AXES,
    BROKEN_AXES,
    COLLECT_AXES,
    PROVISION_AXES,
    Situation,
    decide_everything_broken,
    decide_everything_to_collect,
    decide_everything_to_follow,
    decide_everything_to_provision,
)
from tests.unit.filling_enumeration import FILLING_AXES, decide_everything_empty
from tests.unit.warm_enumeration import WARM_AXES, decide_everything_warm

FOLDER = Path(__file__).parent / "golden"
Axes = dict[str, tuple[str, ...]]


def render_provision() -> str:
    """Return the table of provisioning."""
    return _render(PROVISION_AXES, decide_everything_to_provision())


def render_collect() -> str:
    """Return the table of collecting."""
    return _render(COLLECT_AXES, decide_everything_to_collect())


def render_broken() -> str:
    """Return the table of pools with errors whose owner is live."""
    return _render(BROKEN_AXES, decide_everything_broken())


def render_warm() -> str:
    """Return the table of pools that may stay without use."""
    return _render(WARM_AXES, decide_everything_warm())


def render_filling() -> str:
    """Return the table of autoscaled pools without nodes."""
    return _render(FILLING_AXES, decide_everything_empty())


def render_attempts() -> str:
    """Return the table of what follows a failed creation."""
    return _render(ATTEMPT_AXES, decide_everything_to_follow())


TABLES = {
    "provision.txt": render_provision,
    "collect.txt": render_collect,
    "broken.txt": render_broken,
    "attempts.txt": render_attempts,
    "warm.txt": render_warm,
    "filling.txt": render_filling,
}


def _render(axes: Axes, decided: Iterable[tuple[Situation, Decision]]) -> str:
    answers = {tuple(row.values()): f"{decision.verdict:<7} {decision.reason}" for row, decision in decided}
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
    for name, render in TABLES.items():
        (FOLDER / name).write_text(render())
        sys.stdout.write(f"wrote {FOLDER / name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
