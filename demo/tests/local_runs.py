"""One run of the demo in this process: its outcome, and the lines that it showed."""

import io
from pathlib import Path

from rich.console import Console

from demo.loop.following import Run, RunOptions
from demo.loop.manifests import load
from demo.loop.views import Outcome, PlainView
from demo.stack.clusters import ClusterKind
from demo.stack.commands import StackSettings
from demo.stack.stack import Stack


def perform(
    home: Path, patterns: list[str], cluster: ClusterKind, *, options: RunOptions | None = None, **chosen: object
) -> tuple[Outcome, str]:
    """Run manifests on a stack of their own; return what it came to, and what a person saw."""
    settings = StackSettings(cluster=cluster, **chosen)  # type: ignore[arg-type]
    console = Console(record=True, width=300, file=io.StringIO())
    view = PlainView(console)
    with Stack(home / "stack", settings, say=view.say) as stack:
        outcome = Run(stack, view, options or RunOptions()).perform(load(patterns))
    return outcome, console.export_text()


def list_stories(outcome: Outcome, workload: str) -> list[tuple[int, str, str, str, int]]:
    """Return nodes, machine, topology, tier and attempt of each pool of a workload."""
    stories = [each for each in outcome.stories.values() if each.row.owner.startswith(workload)]
    stories.sort(key=lambda each: (each.row.slot, each.row.attempt))
    return [
        (each.nodes, each.row.machine_type, each.row.topology, each.row.tier, each.row.attempt) for each in stories
    ]
