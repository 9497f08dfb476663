"""``python -m standins.google serve``: Google's APIs for one project, on 127.0.0.1."""

import asyncio
import inspect
from typing import Any

import typer

from standins.google.server import Google, Settings, serve
from standins.kit.addresses import NotWritten, PortTaken
from standins.kit.lifecycle import log_as_json, refuse

app = typer.Typer(
    help="GKE with node pools, quotas and faults but no machines (--cluster), Pub/Sub (--pubsub), reading "
    "Cloud Logging (--logs), and further APIs (--apis), in one process. See standins/google/README.md.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def main() -> None:
    """Keep `serve` a word of its own, as in the other stand-ins."""


def serve_command(**options: Any) -> None:
    """Serve until SIGTERM."""
    log_as_json()
    try:
        google = Google(Settings(**options))
    except (ValueError, FileNotFoundError) as error:
        refuse(error)
    try:
        asyncio.run(serve(google))
    except (PortTaken, NotWritten) as error:
        refuse(error)


serve_command.__signature__ = inspect.signature(Settings)  # type: ignore[attr-defined]  # for typer, which reads it
app.command("serve")(serve_command)

if __name__ == "__main__":
    app(prog_name="python -m standins.google")
