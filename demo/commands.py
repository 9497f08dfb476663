"""The commands of the demo and of the local stack."""

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from demo import background
from demo.background import AlreadyRuns, NothingRuns, StartFailed
from demo.parts import export_lines, operator_environment, tool_environment
from demo.settings import (
    DEFAULT_HOME,
    SPEED,
    SUPERVISOR,
    BadSettings,
    ClusterKind,
    Layout,
    StackSettings,
    State,
    check_settings,
)
from standins.kit.lifecycle import exit_on_sigterm, refuse
from standins.kit.processes import NotReady, ProcessDied, last_words

_LAST_LINES = 12
_INTERRUPTED = 130

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, add_completion=False, help=__doc__)
Manifests = Annotated[
    list[str] | None,
    typer.Argument(help="Manifests with workloads: files or folders. Default: a two-slice v6e JobSet."),
]
Home = Annotated[Path, typer.Option(help="The folder for ports, logs, kubeconfig and state.", file_okay=False)]
Speed = Annotated[float, typer.Option(help="Virtual seconds per real second; 1 is real time.", min=0.1, max=1000)]
Faults = Annotated[
    str, typer.Option(help="A file of faults and capacity for the fake GKE (see standins/google/gke/README.md).")
]
Cluster = Annotated[
    ClusterKind,
    typer.Option(help="The Kubernetes to use: embedded, or the real control plane (see docs/local-stack.md)."),
]
Report = Annotated[str, typer.Option(help="Write the board with the run inside: a path that ends in .html.")]
Timeout = Annotated[float, typer.Option(help="Stop after so many real seconds; 0: as the speed asks for.", min=0)]
IdleSeconds = Annotated[
    int, typer.Option(help="Real seconds for which a workload may keep its pools when it is over.", min=0)
]


@app.command()
def run(
    manifests: Manifests = None,
    *,
    speed: Speed = SPEED,
    faults: Faults = "",
    cluster: Cluster = ClusterKind.EMBEDDED,
    report: Report = "",
    timeout: Timeout = 0.0,
    idle_seconds_max: IdleSeconds = 0,
) -> None:
    """Start a stack, apply the manifests, show the run, verify that nothing is left, stop all."""
    # Imported late: `up` should not wait for what a run shows.
    from demo.following import RunOptions  # noqa: PLC0415 -- see above
    from demo.run import run_manifests  # noqa: PLC0415 -- see above

    catch_interrupts()
    exit_on_sigterm()
    settings = StackSettings(speed=speed, faults=faults, cluster=cluster, idle_seconds_max=idle_seconds_max)
    if not run_manifests(manifests or [], settings, RunOptions(timeout_seconds=timeout), report):
        raise typer.Exit(1)


@app.command()
def up(
    home: Home = DEFAULT_HOME, speed: Speed = SPEED, faults: Faults = "", cluster: Cluster = ClusterKind.EMBEDDED
) -> None:
    """Start a stack in the background and print how to reach it."""
    settings = _read_settings(speed, faults, cluster)
    catch_interrupts()
    try:
        typer.echo(f"starting a stack in {home}; its log: {Layout(home).log(SUPERVISOR)}")
        state = background.start(home, settings)
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
    processes = _read_state(layout).processes
    table = Table("process", "pid", "state", "restarts")
    for each in processes:
        state = "[green]running[/]" if each.exit_code is None else f"[red]ended ({each.exit_code})[/]"
        table.add_row(each.name, str(each.pid), state, str(each.restarts))
    console = Console()
    console.print(table)
    dead = [each for each in processes if each.exit_code is not None]
    for each in dead:
        console.print(f"[red]{each.name} ended with code {each.exit_code}; its last lines:[/]")
        console.print("\n".join(last_words(layout.log(each.name), _LAST_LINES)), markup=False, highlight=False)
    if dead:
        raise typer.Exit(1)


@app.command()
def env(home: Home = DEFAULT_HOME) -> None:
    """Print shell lines that point kubectl, gcloud, client libraries and the CLI at the stack."""
    layout = Layout(home.resolve())
    state = _read_state(layout)
    environment = tool_environment(layout, state.addresses)
    typer.echo(export_lines(environment | operator_environment(layout, state.settings, state.addresses)))


@app.command(hidden=True)
def serve(
    home: Home = DEFAULT_HOME, speed: Speed = SPEED, faults: Faults = "", cluster: Cluster = ClusterKind.EMBEDDED
) -> None:
    """Run a stack in the foreground until SIGTERM or Ctrl-C (what `up` puts in the background)."""
    # Imported late: `up` starts this process, and needs no stack of its own.
    from demo.stack import Stack  # noqa: PLC0415 -- see above

    settings = _read_settings(speed, faults, cluster)
    catch_interrupts()
    exit_on_sigterm()
    try:
        background.take_lock(Layout(home.resolve()))
        with Stack(home, settings, say=typer.echo, keep_ports=True):
            typer.echo("ready")
            threading.Event().wait()
    except (AlreadyRuns, ProcessDied, NotReady) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


def catch_interrupts() -> None:
    """Let Ctrl-C end what is started from now on in order."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _read_settings(speed: float, faults: str, cluster: ClusterKind) -> StackSettings:
    """Return the settings of a stack that can be started; end with code 2 otherwise."""
    try:
        return check_settings(StackSettings(speed=speed, faults=faults, cluster=cluster))
    except BadSettings as error:
        refuse(error)


def _read_state(layout: Layout) -> State:
    """Return what runs; end with code 1 if nothing does."""
    try:
        return background.read_state(layout)
    except NothingRuns as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
