"""Runs a cluster as a process: uvicorn, controllers, ports file, kubeconfig, end on SIGTERM."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import uvicorn

from standins.cluster.api.app import Api
from standins.cluster.clock import Clock
from standins.cluster.embedded import Cluster
from standins.cluster.store.object_store import DEFAULT_HISTORY

if TYPE_CHECKING:
    from pathlib import Path

if TYPE_CHECKING:
    import socket

HOST = "127.0.0.1"
_GRACEFUL_SECONDS = 1
_KEEP_ALIVE_SECONDS = 300


@dataclass(frozen=True)
class Settings:
    """How to run the server."""

    port: int = 0
    speed: float = 30.0
    seed: int = 1
    history: int = DEFAULT_HISTORY
    ports_file: Path | None = None
    kubeconfig_file: Path | None = None


def log(message: str, severity: str = "INFO", **fields: Any) -> None:
    """Write one log record as a line of JSON."""
    record = {"severity": severity, "message": message, "time": datetime.now(UTC).isoformat()} | fields
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader sees all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def kubeconfig(url: str) -> str:
    """Return a kubeconfig (JSON, which is YAML) that kubectl and the client libraries accept."""
    name = "tpu-provisioner-local"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": url}}],
        "users": [{"name": name, "user": {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        "current-context": name,
    }
    return json.dumps(config, indent=2) + "\n"


class _JsonLogs(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        log(record.getMessage(), severity=record.levelname, logger=record.name)


class _Server(uvicorn.Server):
    """Uvicorn that ends watches first, so that it can end at once."""

    def __init__(self, config: uvicorn.Config, api: Api) -> None:
        super().__init__(config)
        self._api = api

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End all watches, then everything else."""
        self._api.end_watches()
        await super().shutdown(sockets)


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, then return."""
    for number in (signal.SIGTERM, signal.SIGINT):
        # Uvicorn raises the signal again after its shutdown, for the handler that was set before.
        signal.signal(number, lambda _number, _frame: None)
    asyncio.run(serve(settings))


async def serve(settings: Settings) -> None:
    """Serve until uvicorn is told to end."""
    cluster = Cluster(Clock(settings.speed), seed=settings.seed, history=settings.history)
    api = Api(cluster)
    logging.getLogger("uvicorn").handlers = [_JsonLogs()]
    config = uvicorn.Config(
        api.application(),
        host=HOST,
        port=settings.port,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_GRACEFUL_SECONDS,
        log_level="warning",
    )
    server = _Server(config, api)
    controllers = asyncio.create_task(cluster.runner.run())
    announcer = asyncio.create_task(_announce(server, settings))
    controllers.add_done_callback(lambda task: _stop_when_broken(task, server))
    await server.serve()
    announcer.cancel()
    controllers.cancel()
    await asyncio.gather(announcer, controllers, return_exceptions=True)
    if controllers.done() and not controllers.cancelled() and (error := controllers.exception()) is not None:
        raise error
    log("stopped")


def _stop_when_broken(task: asyncio.Task[None], server: _Server) -> None:
    if not task.cancelled() and task.exception() is not None:
        log("controllers failed, stopping", severity="CRITICAL", error=repr(task.exception()))
        server.should_exit = True


async def _announce(server: _Server, settings: Settings) -> None:
    while not server.started:  # noqa: ASYNC110  uvicorn tells nobody when it has started
        await asyncio.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    url = f"http://{HOST}:{port}"
    if settings.kubeconfig_file is not None:
        write_atomically(settings.kubeconfig_file, kubeconfig(url))
    if settings.ports_file is not None:
        write_atomically(settings.ports_file, json.dumps({"url": url}) + "\n")
    log("listening", url=url, speed=settings.speed)
