"""Command line of the embedded cluster: `python -m standins.cluster serve`."""

import asyncio
import logging
from pathlib import Path
from typing import Annotated

import typer

from standins.cluster.server import Settings, serve
from standins.cluster.store.object_store import DEFAULT_HISTORY
from standins.kit.addresses import NotWritten, PortTaken, check_writable
from standins.kit.lifecycle import log_as_json, refuse

application = typer.Typer(no_args_is_help=True)


@application.callback()
def main() -> None:
    """Run a small Kubernetes in memory: API server, scheduler, Job and JobSet controllers."""


@application.command("serve")
def serve_command(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 takes a free one.", min=0, max=65535)] = 0,
    speed: Annotated[
        float, typer.Option(help="Virtual seconds per real second, for TTLs and back-offs.", min=0.001)
    ] = 30.0,
    seed: Annotated[int, typer.Option(help="Seed of generated names and UIDs.")] = 1,
    history: Annotated[int, typer.Option(help="Changes kept per kind for watches.", min=0)] = DEFAULT_HISTORY,
    ports_file: Annotated[
        Path | None, typer.Option(help="Write {url} here as JSON once listening.", callback=check_writable)
    ] = None,
    kubeconfig_file: Annotated[
        Path | None, typer.Option(help="Write a kubeconfig here once listening.", callback=check_writable)
    ] = None,
) -> None:
    """Serve the Kubernetes API until SIGTERM.

    Beside the API: POST /admin/disconnect breaks off all watches. POST /admin/compact forgets the
    history, so that older resource versions answer 410.
    """
    log_as_json(logging.WARNING)
    settings = Settings(port, speed, seed, history, ports_file, kubeconfig_file)
    try:
        asyncio.run(serve(settings))
    except (PortTaken, NotWritten) as error:
        refuse(error)


if __name__ == "__main__":
    application()
