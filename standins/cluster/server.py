"""Runs a cluster as a process: uvicorn, controllers, ports file, kubeconfig, end on SIGTERM."""

import asyncio
import logging
import signal
import socket
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from standins.cluster.api.app import Api
from standins.cluster.clock import Clock
from standins.cluster.embedded import Cluster
from standins.cluster.store.object_store import DEFAULT_HISTORY
from standins.processes.free_ports import HOST
from standins.processes.http_server import listen
from standins.processes.journal import write_record
from standins.processes.kubeconfig import render_kubeconfig
from standins.processes.private_files import write_ports, write_private

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


class _JsonLogs(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        write_record(record.getMessage(), severity=record.levelname, logger=record.name)


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
    """Serve until SIGTERM or SIGINT, then return.

    Raises:
        PortTaken: the port is taken.
        NotWritten: the ports file or the kubeconfig cannot be written.
    """
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
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_GRACEFUL_SECONDS,
        log_level="warning",
    )
    server = _Server(config, api)
    controllers = asyncio.create_task(cluster.runner.run(), name="controllers")
    announcer = asyncio.create_task(_announce(server, settings), name="the announcement")
    tasks = (controllers, announcer)
    for task in tasks:
        task.add_done_callback(lambda task: _stop_when_broken(task, server))
    with listen(settings.port) as listener:
        await server.serve(sockets=[listener])
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
    write_record("stopped")


def _stop_when_broken(task: asyncio.Task[None], server: _Server) -> None:
    if not task.cancelled() and task.exception() is not None:
        write_record(f"{task.get_name()} failed, stopping", severity="CRITICAL", error=repr(task.exception()))
        server.should_exit = True


async def _announce(server: _Server, settings: Settings) -> None:
    while not server.started:  # noqa: ASYNC110  uvicorn tells nobody when it has started
        await asyncio.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    url = f"http://{HOST}:{port}"
    if settings.kubeconfig_file is not None:
        write_private(settings.kubeconfig_file, render_kubeconfig(url))
    write_ports(settings.ports_file, {"url": url})
    write_record("listening", url=url, speed=settings.speed)
