"""The commands `build`, `serve` and `status`."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from local.controlplane.building import BuildFailed, find_build, make_build
from local.controlplane.cache import BuildBroken, default_cache
from local.controlplane.commands import Choices
from local.controlplane.manifests import ManifestBroken, read_kustomization
from local.controlplane.progress import Progress
from local.controlplane.recipe import RecipeBroken
from local.controlplane.serving import Outputs, serve_until
from local.controlplane.toolchain import NoToolchain

if TYPE_CHECKING:
    from types import FrameType

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


@app.command()
def build(
    cache_folder: CacheFolder = None,
    nice: Annotated[int, typer.Option(min=0, max=19, help="Step back behind other programs; 19 the most.")] = 0,
) -> None:
    """Build the pinned programs into the cache, unless they are there.

    Needs Go and, the first time, the Go module proxy. About twelve minutes on two cores with nothing cached; a
    second call takes a moment.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    started = time.monotonic()
    progress = Progress()
    try:
        made = make_build(cache_folder or default_cache(), progress, nice=nice)
    except (NoToolchain, BuildFailed, BuildBroken, RecipeBroken, OSError) as error:
        _give_up(str(error))
    except KeyboardInterrupt:
        _give_up("interrupted; nothing half-built was kept, and what Go has compiled is remembered", _INTERRUPTED)
    typer.echo(f"{made.folder} ({time.monotonic() - started:.1f} s)")


@app.command()
def serve(
    ports_file: Annotated[Path | None, typer.Option(help="Write {url} here as JSON once ready.")] = None,
    kubeconfig_file: Annotated[Path | None, typer.Option(help="Write an administrator's kubeconfig here.")] = None,
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
    manifests: Annotated[
        Path | None, typer.Option(help="A kustomize folder to apply, for example infra/kubernetes/local.")
    ] = None,
    cache_folder: CacheFolder = None,
    *,
    accounts_folder: Annotated[
        Path | None,
        typer.Option(help="Write NAME.kubeconfig and NAME.token of every ServiceAccount in --manifests here."),
    ] = None,
    jobset: Annotated[bool, typer.Option(help="Install JobSet.")] = True,
) -> None:
    """Serve the Kubernetes API until SIGTERM.

    Everything listens on 127.0.0.1. A process that dies is named with its last lines; all others are ended then,
    and the exit code is 1. Logs are JSON, one object per line.
    """
    choices = Choices(
        api_port=port,
        compaction_seconds=compaction_seconds,
        scheduler_backoff_seconds=scheduler_backoff_seconds,
        jobset=jobset,
    )
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: ending.set())
    try:
        found = find_build(cache_folder or default_cache())
        things = read_kustomization(manifests) if manifests else []
    except (BuildBroken, RecipeBroken, ManifestBroken) as error:
        _give_up(str(error))
    outputs = Outputs(ports_file, kubeconfig_file, folder, accounts_folder, things)
    if not serve_until(ending, found, choices, outputs):
        raise typer.Exit(_FAILED)


@app.command()
def status(cache_folder: CacheFolder = None) -> None:
    """Show what is pinned and whether it is built; exit code 1 when it is not."""
    try:
        found = find_build(cache_folder or default_cache())
    except (BuildBroken, RecipeBroken) as error:
        _give_up(str(error))
    table = Table("program", "size", title=f"{found.stamp.toolchain}, built in {found.stamp.seconds:.0f} s")
    for name, size in found.stamp.sizes.items():
        if name.startswith("bin/"):
            table.add_row(name.removeprefix("bin/"), f"{size / 1e6:.0f} MB")
    console = Console()
    console.print(table)
    versions = ", ".join(f"{name} {version}" for name, version in found.stamp.versions.items())
    console.print(versions, str(found.folder), sep="\n", highlight=False)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _give_up(text: str, code: int = _FAILED) -> NoReturn:
    sys.stderr.write(f"error: {text}\n")
    raise typer.Exit(code)
