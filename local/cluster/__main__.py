"""Command line of the embedded cluster: `python -m local.cluster serve`."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  Typer reads the annotations when it runs
from typing import Annotated

import typer

from local.cluster.server import Settings, run
from local.cluster.store.kinds import KINDS
from local.cluster.store.store import DEFAULT_HISTORY

application = typer.Typer(
    help="A Kubernetes in one process: API server, scheduler, Job and JobSet controllers, all in memory.",
    no_args_is_help=True,
)


@application.command("serve")
def serve_command(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 takes a free one.")] = 0,
    speed: Annotated[float, typer.Option(help="Virtual seconds per real second, for TTLs and back-offs.")] = 30.0,
    seed: Annotated[int, typer.Option(help="Seed of generated names and UIDs.")] = 1,
    history: Annotated[int, typer.Option(help="Changes kept per kind for watches.")] = DEFAULT_HISTORY,
    ports_file: Annotated[Path | None, typer.Option(help="Write {url} here as JSON once listening.")] = None,
    kubeconfig_file: Annotated[Path | None, typer.Option(help="Write a kubeconfig here once listening.")] = None,
) -> None:
    """Serve the Kubernetes API until SIGTERM.

    Beside the API: POST /admin/disconnect breaks off all watches (?clean=true ends them), POST /admin/compact
    forgets history, so that older resource versions answer 410 (as an ERROR event; ?answer=status: as HTTP
    status).
    """
    settings = Settings(port, speed, seed, history, ports_file, kubeconfig_file)
    run(settings)


@application.command()
def kinds() -> None:
    """List the kinds that are served."""
    for kind in KINDS:
        scope = "namespaced" if kind.namespaced else "cluster"
        typer.echo(f"{kind.api_version:34} {kind.kind:32} {scope}")


if __name__ == "__main__":
    application()
