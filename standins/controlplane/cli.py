"""The commands `build`, `serve` and `status`."""

import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from standins.controlplane.building import (
    BuildFailed,
    find_addition_build,
    find_build,
    make_addition_build,
    make_build,
)
from standins.controlplane.cache import Build, BuildBroken, default_cache
from standins.controlplane.chart import ManifestBroken, read_local_chart
from standins.controlplane.commands import Choices
from standins.controlplane.controllers import ControllersClash, choose_controllers
from standins.controlplane.recipe import ADDITIONS, RecipeBroken, UnknownAddition, find_additions
from standins.controlplane.serving import Outputs, serve_until
from standins.controlplane.toolchain import NoToolchain, Progress
from standins.kit.addresses import check_writable
from standins.kit.lifecycle import refuse

_FAILED, _INTERRUPTED = 1, 130

app = typer.Typer(
    help="A real Kubernetes control plane as plain processes: etcd, API server, controllers, scheduler, JobSet.",
    no_args_is_help=True,
    add_completion=False,
)
CacheFolder = Annotated[
    Path | None,
    typer.Option("--cache-folder", help="Where builds are kept; default ~/.cache/tpu-provisioner/controlplane."),
]
_ALL = "all"
With = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="NAME",
        help="A further controller, given once or more: " + ", ".join(each.name for each in ADDITIONS) + ".",
    ),
]


@app.command()
def build(
    with_controllers: With = None,
    cache_folder: CacheFolder = None,
    nice: Annotated[int, typer.Option(min=0, max=19, help="Step back behind other programs; 19 the most.")] = 0,
) -> None:
    """Build the pinned programs into the cache, unless they are there.

    Needs Go and, the first time, the Go module proxy. About twelve minutes on two cores with
    nothing cached; a second call takes a moment. --with builds further controllers too, minutes
    each; "all" means every one.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    started = time.monotonic()
    progress, cache = Progress(), cache_folder or default_cache()
    try:
        names = _named(with_controllers)
        made = [make_build(cache, progress, nice=nice)]
        made += [make_addition_build(cache, name, progress, nice=nice) for name in names]
    except UnknownAddition as error:
        refuse(error)
    except (NoToolchain, BuildFailed, BuildBroken, RecipeBroken, OSError) as error:
        _give_up(str(error))
    except KeyboardInterrupt:
        _give_up("interrupted; nothing half-built was kept, and what Go has compiled is remembered", _INTERRUPTED)
    typer.echo("\n".join(str(each.folder) for each in made) + f" ({time.monotonic() - started:.1f} s)")


@app.command()
def serve(
    ports_file: Annotated[
        Path | None, typer.Option(help="Write {url} here as JSON once ready.", callback=check_writable)
    ] = None,
    kubeconfig_file: Annotated[
        Path | None, typer.Option(help="Write an administrator's kubeconfig here.", callback=check_writable)
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the API on 127.0.0.1; 0 takes a free one.")] = 0,
    compaction_seconds: Annotated[
        int, typer.Option(min=1, help="How long old resource versions stay readable; Kubernetes: 300.")
    ] = 300,
    scheduler_backoff_seconds: Annotated[
        int, typer.Option(min=1, help="Longest pause before a pod is tried again; Kubernetes: 10.")
    ] = 2,
    folder: Annotated[
        Path | None, typer.Option(help="Keep data, keys and logs here; default: temporary, removed at the end.")
    ] = None,
    chart: Annotated[
        Path | None, typer.Option(help="The chart of the exporter to apply, infra/helm, without its pods.")
    ] = None,
    cache_folder: CacheFolder = None,
    *,
    with_controllers: With = None,
    accounts_folder: Annotated[
        Path | None,
        typer.Option(help="Write NAME.kubeconfig and NAME.token of every ServiceAccount of --chart here."),
    ] = None,
) -> None:
    """Serve the Kubernetes API until SIGTERM.

    Everything listens on 127.0.0.1. A process that dies is named with its last lines; all others
    are ended then, and the exit code is 1. Logs are JSON, one object per line.
    """
    choices = Choices(
        api_port=port,
        compaction_seconds=compaction_seconds,
        scheduler_backoff_seconds=scheduler_backoff_seconds,
        controllers=tuple(with_controllers or ()),
    )
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stopping.set())
    try:
        choose_controllers(choices.controllers)
        found = find_build(cache_folder or default_cache())
        things = read_local_chart(chart) if chart else []
    except (UnknownAddition, ControllersClash, ManifestBroken) as error:
        refuse(error)
    except (BuildBroken, RecipeBroken) as error:
        _give_up(str(error))
    outputs = Outputs(ports_file, kubeconfig_file, folder, accounts_folder, things)
    if not serve_until(stopping, found, choices, outputs):
        raise typer.Exit(_FAILED)


@app.command()
def status(with_controllers: With = None, cache_folder: CacheFolder = None) -> None:
    """Show what is pinned and whether it is built; exit code 1 when some of it is not."""
    cache = cache_folder or default_cache()
    try:
        names = _named(with_controllers)
        found = [find_build(cache), *(find_addition_build(cache, name) for name in names)]
    except UnknownAddition as error:
        refuse(error)
    except (BuildBroken, RecipeBroken) as error:
        _give_up(str(error))
    for each in found:
        _show(each)


def _show(build: Build) -> None:
    table = Table("program", "size", title=f"{build.stamp.toolchain}, built in {build.stamp.seconds:.0f} s")
    for name, size in build.stamp.sizes.items():
        if name.startswith("bin/"):
            table.add_row(name.removeprefix("bin/"), f"{size / 1e6:.0f} MB")
    console = Console()
    console.print(table)
    versions = ", ".join(f"{name} {version}" for name, version in build.stamp.versions.items())
    console.print(versions, str(build.folder), sep="\n", highlight=False)


def _named(names: list[str] | None) -> list[str]:
    wanted = [each.name for each in ADDITIONS] if names == [_ALL] else names or []
    return [each.name for each in find_additions(wanted)]


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _give_up(text: str, code: int = _FAILED) -> NoReturn:
    sys.stderr.write(f"error: {text}\n")
    raise typer.Exit(code)
