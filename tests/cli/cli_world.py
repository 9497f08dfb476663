"""One deployment on fakes for the commands, and the words to run them and read what they print."""

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from google.auth.credentials import AnonymousCredentials
from msgspec import structs
from rich.console import Console
from typer.testing import CliRunner, Result

from cli import app as commands
from cli.access import connections
from cli.access import deployment as choice
from cli.access.connections import Deployment, PubsubAdmin
from cli.access.deployment import OperatorSettings
from cli.access.log_search import open_logs
from shared.edges.connection import Connection
from shared.edges.google import GoogleAccount
from shared.edges.kubernetes import KubernetesApi
from shared.kinds.table import KINDS
from shared.model.errors import NotFound
from shared.model.times import format_time
from shared.settings import Credentials
from tests.builders import CLUSTER, NOW
from tests.engine.world import World

NOWHERE = "http://127.0.0.1:9"
NOBODY = AnonymousCredentials()  # type: ignore[no-untyped-call]


def run(*arguments: str, environ: dict[str, str] | None = None, given: str | None = None) -> Result:
    """Run one command; its environment has nothing of ours but what is given."""
    return CliRunner().invoke(
        commands.app, list(arguments), env=environ or {}, input=given, prog_name="tpu-provisioner"
    )


def read_json(*arguments: str, environ: dict[str, str] | None = None) -> Any:
    """Return the JSON that a command prints."""
    return json.loads(run(*arguments, "-o", "json", environ=environ).stdout)


def a_deployment(world: World | None = None, *, google: str = "", **own: Any) -> Deployment:
    """A deployment whose ports are fakes; Pub/Sub and logs may be at an address."""
    world = world or World()
    return Deployment(
        settings=world.ports.settings,
        own=OperatorSettings(**{"logging_endpoint": "", "lease_name": "", **own}),
        ports=structs.replace(world.ports, adds=None, takes=None),
        apis={CLUSTER: WorldApi(world)},
        pubsub=PubsubAdmin(google or NOWHERE, GoogleAccount(Credentials.ANONYMOUS)),
        open_logs=partial(open_logs, google, NOBODY) if google else None,
    )


def put_in_place(monkeypatch: pytest.MonkeyPatch, deployment: Deployment) -> None:
    """Let every command open this deployment."""
    monkeypatch.setattr(connections, "open_deployment", lambda _environ: deployment)
    monkeypatch.setattr(choice, "_find", lambda *_: {})


def write(path: Path, text: str) -> str:
    """Write a file and return its path as text."""
    path.write_text(text, encoding="utf-8")
    return str(path)


class WorldApi(KubernetesApi):
    """The API of a world: its JobSets as objects, and the Events that functions have written."""

    def __init__(self, world: World, objects: Mapping[str, Any] | None = None, absent: Sequence[str] = ()) -> None:
        super().__init__(Connection(url=NOWHERE))
        roots: dict[str, Any] = {kind.root: {} for kind in KINDS if kind.name not in absent}
        self._world, self._objects = world, {**roots, **(objects or {})}

    def get(self, path: str, kind: Any, params: Any = None) -> Any:
        """Return an object or a JobSet; everything else is not there."""
        if path in self._objects:
            return kind(self._objects[path])
        view = self._world.cluster.workloads.get(("JobSet", "default", path.rpartition("/jobsets/")[2]))
        if view is None:
            raise NotFound(path)
        metadata = {"name": view.name, "namespace": view.namespace, "creationTimestamp": format_time(NOW - 60)}
        return kind({"metadata": metadata, "spec": {"suspend": view.suspended}})

    def list_pages(self, path: str, params: Any = None, *, page_size: int = 0) -> Iterator[Any]:
        """Yield the Events as one page."""
        events = [
            {
                "involvedObject": {"kind": each.subject.kind, "name": each.subject.name},
                "type": "Warning" if each.warning else "Normal",
                "reason": each.reason,
                "message": each.message,
                "firstTimestamp": format_time(NOW),
            }
            for each in self._world.cluster.notices
        ]
        yield SimpleNamespace(items=list(map(msgspec.json.encode, events)))


def log_entries(
    at: float, *payloads: Mapping[str, Any], severity: str = "INFO"
) -> tuple[Callable[[str], Any], list[dict[str, Any]]]:
    """Return what opens logs with some entries of one moment, and the list of what is asked."""
    asked, moment = list[dict[str, Any]](), datetime.fromtimestamp(at, UTC)

    def list_entries(**options: Any) -> list[SimpleNamespace]:
        asked.append(options)
        return [SimpleNamespace(timestamp=moment, payload=each, severity=severity) for each in payloads]

    return lambda _project: SimpleNamespace(list_entries=list_entries), asked


def list_printed(print_it: Callable[[Console], object], *, width: int = 300, terminal: bool = False) -> list[str]:
    """Return the lines that something prints on a console without colours."""
    written = io.StringIO()
    print_it(Console(file=written, force_terminal=terminal, width=width, color_system=None, markup=False))
    return written.getvalue().splitlines()
