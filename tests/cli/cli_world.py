"""One deployment on fakes for the commands, and the words to run them and read what they print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import urllib3
from typer.testing import CliRunner

from cli import app as commands
from cli.deployment import Deployment
from cli.settings import OperatorSettings
from shared.edges.google_rest import GoogleRest
from tests.component.world import Records, World

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from click.testing import Result

NOWHERE = "http://127.0.0.1:9"


def run(*arguments: str, environ: dict[str, str] | None = None, given: str | None = None) -> Result:
    """Run one command; its environment has nothing of ours but what is given."""
    return CliRunner().invoke(commands.app, list(arguments), env=environ or {}, input=given)


def a_deployment(world: World | None = None, *, pubsub: str = NOWHERE, **own: Any) -> Deployment:
    """A deployment whose ports are fakes, and whose Pub/Sub may be a real address."""
    world = world or World(Records())
    http = urllib3.PoolManager()
    rest = GoogleRest(pubsub, http=http, token=None)
    return Deployment(
        settings=world.ports.settings,
        own=OperatorSettings(**{"logging_endpoint": "", "monitoring_endpoint": "", "lease_name": "", **own}),
        ports=world.ports,
        apis={},
        gke=GoogleRest(NOWHERE, http=http, token=None),
        pubsub=rest,
        logging=None,
        monitoring=None,
        http=http,
    )


def put_in_place(monkeypatch: pytest.MonkeyPatch, deployment: Deployment) -> None:
    """Let every command open this deployment."""
    monkeypatch.setattr(commands, "open_deployment", lambda _environ: deployment)


def write(path: Path, text: str) -> str:
    """Write a file and return its path as text."""
    path.write_text(text, encoding="utf-8")
    return str(path)
