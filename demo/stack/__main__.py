"""``python -m demo.stack``: bring a local stack up, look at it, take it down."""

import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from demo.stack import background
from demo.stack.background import AlreadyRuns, NothingRuns, StartFailed, State
from demo.stack.clusters import ClusterKind, ClusterMissing, check_present, find_faults
from demo.stack.commands import RUN_VIRTUAL_SECONDS, StackSettings
from demo.stack.environments import export_lines, operator_environment, tool_environment
from demo.stack.layout import DEFAULT_HOME, Layout
from demo.stack.stack import Stack, StagingFailed
from standins.google.gke.faults.scenario import ScenarioError
from standins.kit.lifecycle import refuse
from standins.kit.processes import NotReady, ProcessDied, ProcessState, last_words

_INTERRUPTED, _TERMINATED = 130, 143

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
    help="The local stack: Kubernetes, GKE, Pub/Sub, the exporter and the functions, all on 127.0.0.1.",
)
Home = Annotated[Path, typer.Option(help="The folder for ports, logs, kubeconfig and state.", file_okay=False)]
Speed = Annotated[float, typer.Option(help="Virtual seconds per real second; 1 is real time.", min=0.1, max=1000)]
Seed = Annotated[int, typer.Option(help="Seed of the stand-ins: the same seed gives the same timings.")]
RunSeconds = Annotated[
    float, typer.Option(help="Virtual seconds that a pod runs, unless an annotation sets them.", min=0)
]
Faults = Annotated[
    str, typer.Option(help="A file of faults and capacity for the fake GKE (see standins/google/gke/README.md).")
]
Cluster = Annotated[
    ClusterKind,
    typer.Option(help="The Kubernetes to use: embedded, or the real control plane (see docs/local-stack.md)."),
]
Restart = Annotated[bool, typer.Option("--restart/--no-restart", help="Restart crashed stateless processes.")]


@app.command()
def up(
    home: Home = DEFAULT_HOME,
    speed: Speed = 30.0,
    seed: Seed = 1,
    run_seconds: RunSeconds = RUN_VIRTUAL_SECONDS,
    faults: Faults = "",
    cluster: Cluster = ClusterKind.EMBEDDED,
    *,
    restart: Restart = True,
) -> None:
    """Start a stack in the background and print how to reach it."""
    settings = _read_settings(speed, seed, run_seconds, faults, cluster, restarts=restart)
    try:
        state = background.start(home, settings, typer.echo)
    except AlreadyRuns as error:
        typer.echo(str(error))
        return
    except (StartFailed, NotReady) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as error:
        typer.echo("interrupted; the stack is stopped", err=True)
        raise typer.Exit(_INTERRUPTED) from error
    typer.echo(f"The stack is up; its clock runs {speed:g} times as fast. Logs: {Layout(home).logs}")
    typer.echo('Point your tools at it with:  eval "$(make -s env)"')
    typer.echo(export_lines(tool_environment(Layout(home.resolve()), state.addresses)))
    typer.echo("Then, for example:")
    typer.echo("  kubectl apply -f examples/v6e-two-slices.yaml")
    typer.echo("  gcloud container node-pools list --region=us-east5 --cluster=demo")
    typer.echo("  tpu-provisioner status    (or: python -m cli status)")
    typer.echo("Stop it with:  make down")


@app.command()
def down(home: Home = DEFAULT_HOME) -> None:
    """End the stack and everything that it started."""
    try:
        background.stop(home)
    except NothingRuns as error:
        typer.echo(str(error))
    else:
        typer.echo("The stack is down.")


@app.command()
def status(home: Home = DEFAULT_HOME) -> None:
    """Show every process; exit with 1 when one is dead or nothing runs."""
    layout = Layout(home.resolve())
    state = _read_state(layout)
    console = Console()
    console.print(_status_table(state.processes))
    dead = [each for each in state.processes if each.exit_code is not None]
    for each in dead:
        console.print(f"[red]{each.name} ended with code {each.exit_code}; its last lines:[/]")
        console.print("\n".join(last_words(layout.log(each.name), 12)), markup=False, highlight=False)
    if dead:
        raise typer.Exit(1)


@app.command()
def env(home: Home = DEFAULT_HOME) -> None:
    """Print shell lines that point kubectl, gcloud, client libraries and the CLI at the stack."""
    layout = Layout(home.resolve())
    state = _read_state(layout)
    environment = tool_environment(layout, state.addresses)
    typer.echo(export_lines(environment | operator_environment(layout, state.settings, state.addresses)))


@app.command()
def run(
    home: Home = DEFAULT_HOME,
    speed: Speed = 30.0,
    seed: Seed = 1,
    run_seconds: RunSeconds = RUN_VIRTUAL_SECONDS,
    faults: Faults = "",
    cluster: Cluster = ClusterKind.EMBEDDED,
    *,
    restart: Restart = True,
) -> None:
    """Run a stack in the foreground until SIGTERM or Ctrl-C (what `up` puts in the background)."""
    settings = _read_settings(speed, seed, run_seconds, faults, cluster, restarts=restart)
    ready, stopping = threading.Event(), threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        first = not stopping.is_set()
        stopping.set()
        if first and not ready.is_set():  # A start is broken off; an end that is under way is not.
            raise SystemExit(_TERMINATED)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    try:
        background.take_lock(Layout(home.resolve()))
        with Stack(home, settings, say=typer.echo, keep_ports=True):
            ready.set()
            typer.echo("ready")
            stopping.wait()
    except (AlreadyRuns, ProcessDied, NotReady, StagingFailed) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


def _read_state(layout: Layout) -> State:
    """Return what runs; end with code 1 if nothing does."""
    try:
        return background.read_state(layout)
    except NothingRuns as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


def _read_settings(
    speed: float, seed: int, run_seconds: float, faults: str, cluster: ClusterKind, *, restarts: bool
) -> StackSettings:
    """Return the settings of a stack that can be started; end with code 2 otherwise."""
    try:
        faults_file = find_faults(faults)
        check_present(cluster)
    except (ClusterMissing, ScenarioError) as error:
        refuse(error)
    return StackSettings(
        speed=speed,
        seed=seed,
        run_virtual_seconds=run_seconds,
        faults=faults_file,
        restarts=restarts,
        cluster=cluster,
    )


def _status_table(processes: list[ProcessState]) -> Table:
    table = Table("process", "pid", "state", "restarts")
    for each in processes:
        state = "[green]running[/]" if each.exit_code is None else f"[red]ended ({each.exit_code})[/]"
        table.add_row(each.name, str(each.pid), state, str(each.restarts))
    return table


if __name__ == "__main__":
    app()
