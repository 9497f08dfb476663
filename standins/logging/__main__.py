"""``python -m standins.logging serve``.

Let the log files of a folder be asked as Cloud Logging is.
"""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from standins.logging.server import LoggingServer, serve_until_signal
from standins.processes.free_ports import PortTaken
from standins.processes.journal import log_as_json
from standins.processes.private_files import NotWritten, check_writable
from terminal.wrong_arguments import Commands, refuse

app = typer.Typer(
    cls=Commands,
    add_completion=False,
    help="Reading Cloud Logging, on a laptop: POST /v2/entries:list over the log files of a folder.",
)


@app.callback()
def main() -> None:
    """Keep `serve` a word of its own, as in the other stand-ins."""


@app.command()
def serve(
    folder: Annotated[Path, typer.Option(help="The folder with the *.log files.", exists=True, file_okay=False)],
    project: Annotated[str, typer.Option(help="The project that they are of.")],
    rest_port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for a free one.")] = 0,
    ports_file: Annotated[
        Path | None,
        typer.Option(help='Where to write {"rest": "http://127.0.0.1:PORT"}.', callback=check_writable),
    ] = None,
) -> None:
    """Answer until SIGTERM; nothing is stored, and nothing is written but the ports file."""
    log_as_json()
    try:
        asyncio.run(serve_until_signal(LoggingServer(folder, project), port=rest_port, ports_file=ports_file))
    except (PortTaken, NotWritten) as error:
        refuse(error)


if __name__ == "__main__":
    app(prog_name="python -m standins.logging")
