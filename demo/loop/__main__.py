"""``python -m demo.loop``: run workloads on a local stack and watch them get their node pools.

Exit codes: 0 the end state is verified, 1 it is not, 2 the input cannot be run.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated

import httpx
import typer
from rich.console import Console

from cli.access.operator_access import open_deployment
from cli.board.site import Board, listening, render_page
from demo.loop.following import Run, RunOptions
from demo.loop.manifests import BadManifest, Document, load
from demo.loop.views import LiveView, Outcome, PlainView, View, print_outcome
from demo.stack.clusters import (
    EMBEDDED_KINDS,
    ClusterKind,
    ClusterMissing,
    check_present,
    choose_further,
    find_faults,
)
from demo.stack.commands import StackSettings
from demo.stack.environments import operator_environment
from demo.stack.layout import PROJECT_ROOT, Layout
from demo.stack.stack import Stack, StagingFailed
from standins.google.gke.faults.scenario import ScenarioError
from standins.kit.lifecycle import exit_on_sigterm, refuse
from standins.kit.processes import NotReady, ProcessDied

DEFAULT_MANIFEST = PROJECT_ROOT / "examples" / "v6e-two-slices.yaml"
_PLAIN_WIDTH = 200

Manifests = Annotated[
    list[str] | None,
    typer.Argument(help="Manifests with workloads: files, globs or folders. Default: a two-slice v6e JobSet."),
]
Speed = Annotated[float, typer.Option(help="Virtual seconds per real second; 1 is real time.", min=0.1, max=1000)]
Report = Annotated[str, typer.Option(help="Write the board with the run inside: a path that ends in .html.")]
Timeout = Annotated[
    float, typer.Option(help="Stop after this many real seconds. 0: a limit that depends on the speed.", min=0)
]
ExpectAll = Annotated[bool, typer.Option("--expect-all", help="Treat a refused workload as a failure.")]
Faults = Annotated[
    str, typer.Option(help="A file of faults and capacity for the fake GKE (see standins/google/gke/README.md).")
]
Seed = Annotated[int, typer.Option(help="Seed of the stand-ins: the same seed gives the same timings.")]
Cluster = Annotated[
    ClusterKind,
    typer.Option(help="The Kubernetes to use: embedded, or the real control plane (see docs/local-stack.md)."),
]
IdleSeconds = Annotated[
    int, typer.Option(help="Real seconds for which a workload may keep its pools when it is over.", min=0)
]
ShowBoard = Annotated[bool, typer.Option("--board", help="Serve the board of the run, and print its address.")]


app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def demo(
    manifests: Manifests = None,
    speed: Speed = 30.0,
    report: Report = "",
    timeout: Timeout = 0.0,
    faults: Faults = "",
    seed: Seed = 1,
    cluster: Cluster = ClusterKind.EMBEDDED,
    *,
    idle_seconds_max: IdleSeconds = 0,
    expect_all: ExpectAll = False,
    board: ShowBoard = False,
) -> None:
    """Start a stack, apply the manifests, show the run, verify that nothing is left, stop all."""
    exit_on_sigterm()
    console = Console() if sys.stdout.isatty() else Console(width=_PLAIN_WIDTH)
    try:
        documents = load(manifests or [str(DEFAULT_MANIFEST)])
        check_report(report)
        controllers = choose_controllers(documents, cluster)
        check_present(cluster, controllers)
        faults_file = find_faults(faults)
    except (BadManifest, BadReport, ClusterMissing, ScenarioError) as error:
        refuse(error)
    settings = StackSettings(
        speed=speed,
        seed=seed,
        faults=faults_file,
        cluster=cluster,
        controllers=controllers,
        idle_seconds_max=idle_seconds_max,
    )
    options = RunOptions(timeout_seconds=timeout, expect_all=expect_all)
    outcome = _run(console, documents, settings, options, board=board)
    print_outcome(console, outcome)
    if report:
        Path(report).write_bytes(render_page(outcome.page))
        typer.echo(f"wrote {report}")
    if outcome.problems:
        raise typer.Exit(1)


class BadReport(Exception):
    """The path of the report cannot be used; the text says what is valid."""


def check_report(path: str) -> None:
    """Accept a path to which the report can be written, or none."""
    folder = Path(path).parent
    if path and (not path.endswith(".html") or not folder.is_dir()):
        raise BadReport(f"--report: cannot be written (got {path!r}); valid: a path in a folder, ending in .html")


def choose_controllers(documents: list[Document], cluster: ClusterKind) -> tuple[str, ...]:
    """Return the further controllers that some documents need.

    Raises BadManifest: the embedded cluster has no controller for any of them.
    """
    kinds = sorted({each.kind for each in documents if each.is_workload})
    if cluster is ClusterKind.REAL:
        return choose_further(kinds)
    if not any(each in EMBEDDED_KINDS for each in kinds):
        valid = f"{', '.join(EMBEDDED_KINDS)}; or CLUSTER=real (--cluster=real)"
        raise BadManifest(f"kind: the embedded cluster does not run {', '.join(kinds)}; valid: {valid}")
    return ()


def _run(
    console: Console, documents: list[Document], settings: StackSettings, options: RunOptions, *, board: bool
) -> Outcome:
    home = Path(tempfile.mkdtemp(prefix="tpu-provisioner-demo-"))
    view: View = LiveView(console) if console.is_terminal else PlainView(console)
    outcome = None
    try:
        with Stack(home, settings, say=view.say) as stack, _board_of(stack, view) if board else nullcontext():
            view.start()
            try:
                outcome = Run(stack, view, options).perform(documents)
            finally:
                view.stop()
    except BadManifest as error:
        shutil.rmtree(home, ignore_errors=True)
        refuse(error)
    except (ProcessDied, NotReady, StagingFailed, httpx.HTTPError) as error:
        typer.echo(f"The local stack failed: {error}\nIts logs are in {_describe_logs(home, settings)}", err=True)
        raise typer.Exit(1) from error
    except (KeyboardInterrupt, SystemExit):
        shutil.rmtree(home, ignore_errors=True)
        raise
    if not outcome.problems:
        shutil.rmtree(home, ignore_errors=True)
    else:
        typer.echo(f"The logs of every process are in {_describe_logs(home, settings)}")
    return outcome


@contextmanager
def _board_of(stack: Stack, view: View) -> Iterator[None]:
    """Serve the board of the run, which only shows: faults would fail the demo."""
    environment = operator_environment(stack.layout, stack.settings, stack.addresses)
    board = Board(open_deployment(environment), every=1.0)
    with listening(board):
        view.say(f"the board: {board.address}")
        yield


def _describe_logs(home: Path, settings: StackSettings) -> str:
    layout = Layout(home)
    real = settings.cluster is ClusterKind.REAL
    return f"{layout.logs} and {layout.control_plane_logs}" if real else str(layout.logs)


if __name__ == "__main__":
    app()
