"""The command line: run the broker."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from standins.processes.free_ports import PortTaken
from standins.processes.journal import log_as_json
from standins.processes.private_files import NotWritten, check_writable
from standins.pubsub.server import ServerSettings, serve_until_signal
from terminal.wrong_arguments import Commands, refuse

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    help="A local Google Cloud Pub/Sub: gRPC and REST, push with OIDC tokens, filters, dead letters, replay.",
)


@app.callback()
def main() -> None:
    """Keep `serve` a word of its own, as in the other stand-ins."""


@app.command()
def serve(
    grpc_port: Annotated[int, typer.Option(min=0, max=65535, help="gRPC port, 0 for a free one.")] = 0,
    rest_port: Annotated[int, typer.Option(min=0, max=65535, help="REST and admin port, 0 for a free one.")] = 0,
    ports_file: Annotated[
        Path | None,
        typer.Option(
            help='Where to write {"grpc": "127.0.0.1:PORT", "rest": "http://127.0.0.1:PORT"}.',
            callback=check_writable,
        ),
    ] = None,
) -> None:
    """Run the broker until SIGTERM.

    Clients find it through PUBSUB_EMULATOR_HOST=<the gRPC address>.
    """
    log_as_json()
    settings = ServerSettings(grpc_port=grpc_port, rest_port=rest_port)
    try:
        asyncio.run(serve_until_signal(settings, ports_file))
    except (PortTaken, NotWritten) as error:
        refuse(error)
