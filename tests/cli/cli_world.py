"""One deployment on fakes for the commands, and the words to run them and read what they print."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import urllib3
from google.auth.credentials import AnonymousCredentials
from typer.testing import CliRunner, Result

from cli import app as commands
from cli.access import deployment_choice
from cli.access.cli_settings import OperatorSettings
from cli.access.operator_access import Deployment
from cli.access.subscriptions import PubsubAdmin, open_subscriber
from shared.core.settings import Credentials
from shared.edges.google_account import GoogleAccount
from shared.edges.google_session import GoogleSession
from shared.edges.pubsub_topic import open_publisher_over_rest
from tests.component.world import Records, World

NOWHERE = "http://127.0.0.1:9"


def run(*arguments: str, environ: dict[str, str] | None = None, given: str | None = None) -> Result:
    """Run one command; its environment has nothing of ours but what is given."""
    return CliRunner().invoke(commands.app, list(arguments), env=environ or {}, input=given)


def a_deployment(world: World | None = None, *, pubsub: str = NOWHERE, **own: Any) -> Deployment:
    """A deployment whose ports are fakes, and whose Pub/Sub may be a real address."""
    world = world or World(Records())
    nobody = AnonymousCredentials()  # type: ignore[no-untyped-call]
    open_publisher = partial(open_publisher_over_rest, pubsub, nobody)
    return Deployment(
        settings=world.ports.settings,
        own=OperatorSettings(**{"logging_endpoint": "", "monitoring_endpoint": "", "lease_name": "", **own}),
        ports=world.ports,
        apis={},
        gke=GoogleSession(NOWHERE, GoogleAccount(Credentials.ANONYMOUS)),
        pubsub=PubsubAdmin(open_publisher, partial(open_subscriber, pubsub, nobody)),
        open_publisher=open_publisher,
        open_logs=None,
        monitoring=None,
        http=urllib3.PoolManager(),
    )


def put_in_place(monkeypatch: pytest.MonkeyPatch, deployment: Deployment) -> None:
    """Let every command open this deployment."""
    for module in (commands, deployment_choice):
        monkeypatch.setattr(module, "open_deployment", lambda _environ: deployment)


def write(path: Path, text: str) -> str:
    """Write a file and return its path as text."""
    path.write_text(text, encoding="utf-8")
    return str(path)
