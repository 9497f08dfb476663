"""``python -m demo.kinds``: run one manifest of each kind on a real control plane.

Exit codes: 0 every case got its pools and gave them back, 1 one did not, 2 what was given cannot be
run.
"""

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from demo.kinds.cases import Case, find_problems, leave_out, list_cases
from demo.kinds.following import Following
from demo.loop.applying import Applier
from demo.loop.demo_manifests import BadManifest, read_documents
from demo.loop.views import format_line
from demo.loop.writing import BadReportPath, check_folder
from demo.stack.clusters import ClusterKind, ClusterMissing, check_present
from demo.stack.commands import StackSettings
from demo.stack.layout import PROJECT_ROOT, Layout
from demo.stack.readiness import NotReady
from demo.stack.stack import Stack, StagingFailed
from demo.stack.supervisor import ProcessDied
from standins.controlplane import plane
from standins.controlplane.building import find_addition_build, find_build
from standins.controlplane.cache import BuildBroken, default_cache
from standins.controlplane.commands import Choices
from standins.controlplane.recipe import find_additions
from standins.processes.shutdown import exit_on_sigterm
from terminal.wrong_arguments import Command, refuse

EXAMPLES = (PROJECT_ROOT / "examples" / "v6e-node-selector.yaml", PROJECT_ROOT / "examples" / "kinds")
_PLAIN_WIDTH = 200
_FAILURES = (ProcessDied, NotReady, StagingFailed, plane.ProcessDied, plane.NotReady)
_FOR_EVER = 1_000_000.0
"""Virtual seconds that pods run: until their workload is deleted."""

Manifests = Annotated[
    list[str] | None,
    typer.Argument(help="Manifests: files, globs or folders. Default: examples/kinds, and a JobSet."),
]
app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command)
def demo(
    manifests: Manifests = None,
    speed: Annotated[float, typer.Option(help="Virtual seconds per real second.", min=0.1, max=1000)] = 30.0,
    timeout: Annotated[float, typer.Option(help="Give up after this many real seconds.", min=1)] = 900.0,
    cluster: Annotated[
        ClusterKind,
        typer.Option(help="The Kubernetes to use. The embedded one runs only the kinds without own controllers."),
    ] = ClusterKind.REAL,
    report: Annotated[Path | None, typer.Option(help="Also write the results as JSON to this file.")] = None,
) -> None:
    """Apply each manifest in its own namespace, wait for its pods, delete it, wait for its pools.

    Needs the real control plane (make controlplane); a kind whose controller is not built is named
    and left out.
    """
    exit_on_sigterm()
    console = Console() if sys.stdout.isatty() else Console(width=_PLAIN_WIDTH)
    try:
        cases = list_cases(read_documents(manifests or [str(path) for path in EXAMPLES]))
        check_present(cluster)
        check_folder(report)
        embedded = cluster is ClusterKind.EMBEDDED
        missing = _name_controllers(cases) if embedded else _find_missing(cases)
        cases, left_out = leave_out(cases, missing, embedded=embedded)
    except (BadManifest, BadReportPath, ClusterMissing) as error:
        refuse(error)
    for sentence in left_out:
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)
    if not cases:
        raise typer.Exit(2)
    settings = StackSettings(speed=speed, cluster=cluster, run_virtual_seconds=_FOR_EVER)
    started_at, left = _run(console, cases, settings, timeout)
    problems = [text for case in cases for text in find_problems(case)]
    problems += [f"GKE still has node pool {name}" for name in left]
    console.print(_draw(cases, started_at))
    for text in problems:
        console.print(text, style="red", markup=False, soft_wrap=True)
    if report:
        report.write_text(json.dumps(_report(cases, left_out, problems, started_at), indent=2) + "\n")
    if problems:
        raise typer.Exit(1)
    message = f"verified: all {len(cases)} examples got their pools and ran, and every pool is deleted"
    console.print(message, style="green", highlight=False)


def _find_missing(cases: list[Case]) -> list[str]:
    missing = []
    for name in _name_controllers(cases):
        try:
            find_addition_build(default_cache(), name)
        except BuildBroken:
            missing.append(name)
    return missing


def _name_controllers(cases: list[Case]) -> tuple[str, ...]:
    return tuple(sorted(frozenset[str]().union(*(case.controllers for case in cases))))


@contextmanager
def _start_plane(console: Console, cases: list[Case], cluster: ClusterKind) -> Iterator[plane.ControlPlane | None]:
    """Yield a control plane with the cases' controllers; None for the embedded cluster."""
    if cluster is ClusterKind.EMBEDDED:
        yield None
        return
    names = _name_controllers(cases)
    titles = "".join(f", {each.name} ({each.version})" for each in find_additions(names))
    console.print(f"starting a real Kubernetes control plane with JobSet{titles}", highlight=False)
    choices = Choices(scheduler_backoff_seconds=1, controllers=names)
    with plane.ControlPlane(find_build(default_cache()), choices) as started:
        yield started


def _run(console: Console, cases: list[Case], settings: StackSettings, seconds: float) -> tuple[float, list[str]]:
    """Run the cases; return when they were applied, and which pools are left."""
    home = Path(tempfile.mkdtemp(prefix="tpu-provisioner-kinds-"))
    keep = False
    try:
        with (
            _start_plane(console, cases, settings.cluster) as started,
            Stack(home, settings, say=lambda text: console.print(text, highlight=False), plane=started) as stack,
            closing(Applier(stack.addresses.kubeconfig)) as applier,
        ):
            started_at = time.time()
            applied = applier.apply([document for case in cases for document in case.documents])
            for note in applied.notes:
                console.print(note, markup=False, highlight=False, soft_wrap=True)
            following = Following(
                stack, applier, cases, lambda line: console.print(format_line(line, started_at), soft_wrap=True)
            )
            left = following.follow(seconds)
        keep = bool(left) or not all(case.over for case in cases)
    except _FAILURES as error:
        keep = True
        typer.echo(f"The local stack failed: {error}", err=True)
        raise typer.Exit(1) from error
    finally:
        if keep and Layout(home).logs.exists():
            typer.echo(f"The logs of every process are in {Layout(home).logs}", err=True)
        else:
            shutil.rmtree(home, ignore_errors=True)
    return started_at, left


def _draw(cases: list[Case], started_at: float) -> Table:
    headings = ("workload", "pools", "machines", "calls to GKE", "asked", "all pods run", "deleted", "pools gone")
    table = Table(*headings, title="Seconds since the manifests were applied")
    for case in cases:
        moments = (case.asked_at, case.runs_at, case.let_go_at, case.given_back_at)
        shown = [f"{at - started_at:.1f}" if at else "-" for at in moments]
        machines = ", ".join(sorted(set(case.pools.values())))
        pools, nodes = str(len(case.pools)), f"{case.nodes} x {machines}" if machines else "-"
        table.add_row(Text(case.who), pools, nodes, str(case.calls), *shown)
    return table


def _report(cases: list[Case], left_out: list[str], problems: list[str], started_at: float) -> dict[str, object]:
    return {
        "verified": not problems,
        "problems": problems,
        "left_out": left_out,
        "cases": [
            {
                "manifest": case.path.name,
                "workloads": [f"{each.kind}/{each.name}" for each in case.workloads],
                "pools": len(case.pools),
                "nodes": case.nodes,
                "machine_types": sorted(set(case.pools.values())),
                "gke_calls": case.calls,
                "refusals": case.refusals,
                "seconds": {
                    "asked": case.asked_at - started_at,
                    "runs": case.runs_at - started_at,
                    "given_back": case.given_back_at - started_at,
                },
            }
            for case in cases
        ],
    }


if __name__ == "__main__":
    app()
