"""``python -m demo.ray``: install Ray, and live a RayCluster's scaling with Ray's own autoscaler.

Exit codes: 0 all was as it should be, 1 it was not, 2 something that it needs is missing.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import httpx
import typer

from demo.ray.image import write_image
from demo.ray.installing import Installation, InstallFailed, default_folder, install_ray, ray_version
from demo.ray.ray_manifests import GROUPS
from demo.ray.ray_run import Outcome, Run
from demo.ray.recording import BadRecord, check_record, write_record
from demo.ray.run_log import Line
from demo.stack.clusters import ClusterKind
from demo.stack.commands import StackSettings
from demo.stack.readiness import NotReady
from demo.stack.stack import Stack, StagingFailed
from demo.stack.supervisor import ProcessDied
from standins.controlplane.building import find_addition_build, find_build
from standins.controlplane.cache import Build, BuildBroken, default_cache
from standins.controlplane.commands import Choices
from standins.controlplane.plane import ControlPlane
from standins.controlplane.plane import NotReady as PartNotReady
from standins.controlplane.plane import ProcessDied as PartDied
from standins.controlplane.recipe import RecipeBroken
from standins.processes.shutdown import exit_on_sigterm
from terminal.wrong_arguments import Commands, refuse

KUBERAY = "kuberay-1.6"
ALL_KINDS = ",".join(GROUPS)

Speed = Annotated[float, typer.Option(help="Virtual seconds per real second, for GKE.", min=0.1, max=1000)]
Timeout = Annotated[float, typer.Option(help="Give up after this many real seconds.", min=1)]
Record = Annotated[Path | None, typer.Option(help="Write the timeline into this document, between its marks.")]
Kinds = Annotated[str, typer.Option(help="What the driver asks for, of: " + ", ".join(GROUPS))]

app = typer.Typer(cls=Commands, add_completion=False, rich_markup_mode=None)


@app.command()
def install() -> None:
    """Install Ray into the user's cache folder, once."""
    try:
        made = install_ray(default_folder(), typer.echo)
    except InstallFailed as error:
        refuse(error)
    typer.echo(f"Ray {ray_version()} is in {made.folder}")


@app.command()
def demo(speed: Speed = 30.0, timeout: Timeout = 900.0, record: Record = None, kinds: Kinds = ALL_KINDS) -> None:
    """Start a real control plane with KubeRay and a stack, run Ray, check the end, stop all."""
    exit_on_sigterm()
    asked = tuple(kinds.split(","))
    if unknown := sorted(set(asked) - set(GROUPS)):
        refuse(f"--kinds: is not valid (got {', '.join(unknown)!r}); valid: {', '.join(GROUPS)}")
    try:
        if record is not None:
            check_record(record)
        find_addition_build(default_cache(), KUBERAY)
        build, ray = find_build(default_cache()), install_ray(default_folder(), typer.echo)
    except (BuildBroken, RecipeBroken) as error:
        refuse(f"KubeRay is not built; build it, once, with: make controlplane controllers\n({error})")
    except (BadRecord, InstallFailed) as error:
        refuse(error)
    home = Path(tempfile.mkdtemp(prefix="tpu-provisioner-ray-"))
    outcome = _run(home, build, ray, asked, speed=speed, seconds_max=timeout)
    _conclude(outcome, home)
    if record is not None:
        versions = f"Ray {ray_version()}, {KUBERAY.replace('kuberay-', 'KubeRay ')}"
        write_record(record, outcome, versions=versions, speed=speed)
        typer.echo(f"wrote {record}")


def _run(
    home: Path, build: Build, ray: Installation, kinds: tuple[str, ...], *, speed: float, seconds_max: float
) -> Outcome:
    choices = Choices(controllers=(KUBERAY,), scheduler_backoff_seconds=1)
    settings = StackSettings(speed=speed, cluster=ClusterKind.REAL, images=(write_image(home / "image", ray),))
    typer.echo("starting a real control plane with KubeRay, and the stack")
    try:
        with ControlPlane(build, choices) as plane, Stack(home, settings, plane=plane) as stack:
            return Run(stack, ray, tell=Printer().show, seconds_max=seconds_max).perform(kinds)
    except (KeyboardInterrupt, SystemExit):
        shutil.rmtree(home, ignore_errors=True)
        raise
    except (PartDied, ProcessDied, PartNotReady, NotReady, StagingFailed, httpx.HTTPError) as error:
        typer.echo(f"The local stack failed: {error}\nIts logs are in {home / 'logs'}", err=True)
        raise typer.Exit(1) from error


def _conclude(outcome: Outcome, home: Path) -> None:
    for pool, methods in outcome.calls.items():
        called = ", ".join(f"{method} {count}" for method, count in sorted(methods.items()))
        typer.echo(f"GKE calls about {pool}: {called}")
    if outcome.problems:
        for problem in outcome.problems:
            typer.echo(f"PROBLEM: {problem}")
        typer.echo(f"The logs of every process are in {home / 'logs'}")
        raise typer.Exit(1)
    shutil.rmtree(home, ignore_errors=True)
    typer.echo("verified: every actor answered, every slice had one pool, and nothing is left")


class Printer:
    """Shows lines with the seconds since the first."""

    def __init__(self) -> None:
        self._started_at = time.time()

    def show(self, line: Line) -> None:
        """Print one line."""
        typer.echo(f"{line.at - self._started_at:8.1f} s  {line.who:<16}  {line.what}")


if __name__ == "__main__":
    sys.exit(app())
