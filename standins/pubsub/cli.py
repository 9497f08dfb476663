"""The command line: run the broker, and look into a running one through its admin API."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from rich.console import Console
from rich.table import Table

from standins.processes.free_ports import PortTaken
from standins.processes.journal import log_as_json
from standins.processes.private_files import NotWritten, check_writable
from standins.pubsub.model.resource_names import identifier_of
from standins.pubsub.server import ServerSettings, serve_until_signal
from terminal.wrong_arguments import Commands, refuse

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    help="A local Google Cloud Pub/Sub: gRPC and REST, push with OIDC tokens, filters, dead letters, replay.",
)

RestUrl = Annotated[
    str,
    typer.Option("--rest-url", help="Where the broker's REST port listens, for example http://127.0.0.1:8085."),
]
# The heading of each counter that `topics` shows, short enough for a terminal of 80 characters.
_COLUMNS = {
    "sent": "delivered",
    "acked": "acked",
    "nacked": "nacked",
    "expired": "expired",
    "dead": "deadLettered",
    "filtered": "filtered",
    "held": "outstanding",
    "backlog": "backlog",
}

PortsFile = Annotated[
    Path | None,
    typer.Option(
        "--ports-file", help="The ports file of a running broker, instead of --rest-url.", dir_okay=False
    ),
]


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
    speed: Annotated[
        float,
        typer.Option(
            min=0.001,
            help="Divides every duration: ack deadlines, back-offs, retention. Publish times stay real.",
        ),
    ] = 1.0,
) -> None:
    """Run the broker until SIGTERM.

    Clients find it through PUBSUB_EMULATOR_HOST=<the gRPC address>.
    """
    log_as_json()
    settings = ServerSettings(grpc_port=grpc_port, rest_port=rest_port, speed=speed)
    try:
        asyncio.run(serve_until_signal(settings, ports_file))
    except (PortTaken, NotWritten) as error:
        refuse(error)


@app.command()
def topics(rest_url: RestUrl = "", ports_file: PortsFile = None) -> None:
    """Show the topics of a running broker, their subscriptions, and what became of the messages."""
    base = _base_url(rest_url, ports_file)
    listed = Table("topic", "published", box=None)
    for topic in _fetch(base, "/admin/topics")["topics"]:
        listed.add_row(topic["name"], str(topic["published"]))
    followed = Table("subscription", "topic", *_COLUMNS, box=None)
    for record in _fetch(base, "/admin/subscriptions")["subscriptions"]:
        names = (identifier_of(record["name"]), identifier_of(record["topic"]))
        followed.add_row(*names, *(str(record[field]) for field in _COLUMNS.values()))
    console = Console()
    console.print(listed, "", followed)


@app.command()
def messages(
    topic: Annotated[str, typer.Argument(help="The topic's full name, projects/P/topics/T.")],
    rest_url: RestUrl = "",
    ports_file: PortsFile = None,
) -> None:
    """Print every message that was ever published to a topic.

    One JSON object per line, data decoded.
    """
    for message in _fetch(_base_url(rest_url, ports_file), "/admin/messages", topic=topic)["messages"]:
        message["data"] = base64.b64decode(message["data"]).decode(errors="replace")
        typer.echo(json.dumps(message))


def _base_url(rest_url: str, ports_file: Path | None) -> str:
    if rest_url:
        return rest_url.rstrip("/")
    if ports_file is None:
        refuse("no broker is named; valid: --rest-url http://127.0.0.1:PORT or --ports-file FILE of a running one")
    try:
        return str(json.loads(ports_file.read_text())["rest"])
    except (OSError, ValueError, KeyError):
        refuse(f"--ports-file {ports_file}: cannot be read; valid: the file that a running broker wrote")


def _fetch(base: str, path: str, **query: str) -> dict[str, Any]:
    try:
        response = httpx.get(base + path, params=query, timeout=10, trust_env=False)
    except httpx.HTTPError as error:
        typer.echo(f"No broker answers at {base}: {error}", err=True)
        raise typer.Exit(1) from error
    body: dict[str, Any] = response.json()
    if response.is_error:
        typer.echo(body["error"]["message"], err=True)
        raise typer.Exit(1)
    return body
