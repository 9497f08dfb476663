"""Completed indexes of an Indexed Job, written as Kubernetes writes them: `0-3,7`.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode
"""

from __future__ import annotations


def parse_indexes(text: str) -> set[int]:
    """Return the set that a `completedIndexes` text names."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def format_indexes(indexes: set[int]) -> str:
    """Return a set of indexes as text, runs of three or more (and of two) written as `first-last` or `a,b`."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(_run(run) for run in runs)


def _run(run: list[int]) -> str:
    if len(run) == 1:
        return str(run[0])
    separator = "," if run[0] + 1 == run[-1] else "-"
    return f"{run[0]}{separator}{run[-1]}"
