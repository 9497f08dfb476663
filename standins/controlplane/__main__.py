"""``python -m standins.controlplane``: build the control plane, serve it, say what is built."""

import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import httpx
import typer

from standins.controlplane.building import BuildFailed, BuildMissing, find_build, make_builds
from standins.controlplane.chart import ManifestBroken, read_local_chart
from standins.controlplane.plane import ControlPlane, StartEnded
from standins.controlplane.programs import (
    Product,
    RecipeBroken,
    UnknownController,
    check_together,
    choose_products,
    read_products,
)
from standins.kit.addresses import PortTaken, check_writable, write_ports, write_private
from standins.kit.lifecycle import refuse, write_record
from standins.kit.processes import NotReady, ProcessDied

_FAILED, _INTERRUPTED = 1, 130
_LOOK_SECONDS = 0.1
_ALL = "all"
_EXPECTED = (
    *(ProcessDied, NotReady, PortTaken, ManifestBroken, BuildMissing, RecipeBroken),
    *(httpx.HTTPError, LookupError, OSError),
)

app = typer.Typer(
    help="A real Kubernetes control plane as plain processes: etcd, API server, controllers, scheduler, JobSet.",
    no_args_is_help=True,
    add_completion=False,
)
With = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="NAME",
        help="A further controller, given once or more: "
        + ", ".join(name for name, each in read_products().items() if each.optional),
    ),
]
WrittenFile = Annotated[Path | None, typer.Option(callback=check_writable)]


@app.command()
def build(with_controllers: With = None) -> None:
    """Build the pinned programs into ~/.cache/tpu-provisioner/controlplane, unless they are there.

    Needs Go and, the first time, the Go module proxy. About twelve minutes on two cores with
    nothing cached; a second call takes a moment. --with builds further controllers too, minutes
    each; "all" means every one.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        builds = make_builds(_choose(with_controllers), lambda text: typer.echo(text, err=True))
    except (BuildFailed, RecipeBroken, OSError) as error:
        _give_up(str(error))
    except KeyboardInterrupt:
        _give_up("interrupted; nothing half-built was kept, and what Go has compiled is remembered", _INTERRUPTED)
    typer.echo("\n".join(str(each.folder) for each in builds))


@app.command()
def status(with_controllers: With = None) -> None:
    """Show what is pinned and where it is built; exit code 1 when some of it is not."""
    for product in _choose(with_controllers):
        try:
            typer.echo(f"{product.name} {product.version}: {find_build(product).folder}")
        except (BuildMissing, RecipeBroken) as error:
            _give_up(str(error))


@app.command()
def serve(
    *,
    ports_file: WrittenFile = None,
    kubeconfig_file: WrittenFile = None,
    folder: Annotated[
        Path | None, typer.Option(help="Keep data, keys and logs here; default: temporary, removed at the end.")
    ] = None,
    chart: Annotated[
        Path | None, typer.Option(help="The chart of the exporter to apply, infra/helm, without its pods.")
    ] = None,
    accounts_folder: Annotated[
        Path | None,
        typer.Option(help="Write NAME.kubeconfig and NAME.token of every ServiceAccount of --chart here."),
    ] = None,
    with_controllers: With = None,
) -> None:
    """Serve the Kubernetes API until SIGTERM; write {url} to --ports-file once it is ready.

    Everything listens on 127.0.0.1. A process that dies is named with its last lines; all others
    are ended then, and the exit code is 1. Logs are JSON, one object per line.
    """
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stopping.set())
    try:
        check_together(choose_products(with_controllers or ()))
        things = read_local_chart(chart) if chart else []
    except (UnknownController, ManifestBroken) as error:
        refuse(error)
    plane = ControlPlane(*(with_controllers or ()), folder=folder, say=write_record, stopping=stopping)
    if not serve_until(stopping, plane, Outputs(ports_file, kubeconfig_file, accounts_folder, things)):
        raise typer.Exit(_FAILED)


@dataclass(frozen=True, slots=True)
class Outputs:
    """What is written for others, and what they want in the cluster."""

    ports_file: Path | None
    kubeconfig_file: Path | None
    accounts_folder: Path | None
    things: list[dict[str, Any]]

    def forget(self) -> None:
        """Remove what says where the server is."""
        for path in (self.ports_file, self.kubeconfig_file):
            if path is not None:
                path.unlink(missing_ok=True)


def serve_until(stopping: threading.Event, plane: ControlPlane, outputs: Outputs) -> bool:
    """Serve until the event is set; return False when the control plane failed, which is logged.

    The ports file and the kubeconfig are removed at the start and at the end, so that nobody finds
    the address of a dead server.
    """
    outputs.forget()
    try:
        with plane:
            plane.apply(outputs.things)
            if outputs.accounts_folder:
                plane.write_accounts(outputs.accounts_folder, outputs.things)
            if outputs.kubeconfig_file:
                write_private(outputs.kubeconfig_file, plane.kubeconfig.read_text(encoding="utf-8"))
            write_record("listening", url=plane.url, logs=str(plane.layout.logs), processes=plane.processes)
            # Last: whoever waits for this file may rely on all else, the log included.
            write_ports(outputs.ports_file, {"url": plane.url})
            while not stopping.wait(_LOOK_SECONDS):
                plane.check()
    except StartEnded as part:
        write_record("told to end before the start was over", waited_for=str(part))
    except _EXPECTED as error:
        sys.stderr.write(f"error: {error}\n")
        # Last: whoever started this process finds the whole reason in the last line of its log.
        write_record(str(error), "CRITICAL", kind=type(error).__name__)
        return False
    finally:
        outputs.forget()
    write_record("stopped")
    return True


def _choose(names: list[str] | None) -> tuple[Product, ...]:
    """Return the products of a command; end it with code 2 when there is none of a name."""
    try:
        return tuple(read_products().values()) if names == [_ALL] else choose_products(names or ())
    except UnknownController as error:
        refuse(error)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _give_up(text: str, code: int = _FAILED) -> NoReturn:
    sys.stderr.write(f"error: {text}\n")
    raise typer.Exit(code)


if __name__ == "__main__":
    app(prog_name="python -m standins.controlplane")
