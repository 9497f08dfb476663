"""Runs a cluster as a process: HTTP server, controllers, ports file, kubeconfig, end on SIGTERM."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from standins.cluster.api.app import Api
from standins.cluster.clock import Clock
from standins.cluster.embedded import Cluster
from standins.cluster.store.object_store import DEFAULT_HISTORY
from standins.kit.addresses import write_ports, write_private
from standins.kit.http_server import serving
from standins.kit.kubernetes import render_kubeconfig
from standins.kit.lifecycle import note_signals, wait_for_the_end, write_record

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


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        PortTaken: the port is taken.
        NotWritten: the ports file or the kubeconfig cannot be written.
    """
    told = note_signals()
    cluster = Cluster(Clock(settings.speed), seed=settings.seed, history=settings.history)
    api = Api(cluster)
    controllers = asyncio.create_task(cluster.runner.run(), name="controllers")
    try:
        async with serving(
            api.application(), settings.port, keep_alive_seconds=_KEEP_ALIVE_SECONDS, before_end=api.end_watches
        ) as http:
            if settings.kubeconfig_file is not None:
                write_private(settings.kubeconfig_file, render_kubeconfig(http.url))
            write_ports(settings.ports_file, {"url": http.url})
            write_record("listening", url=http.url, speed=settings.speed)
            await wait_for_the_end(told, http.task, controllers)
    finally:
        controllers.cancel()
        await asyncio.gather(controllers, return_exceptions=True)
    write_record("stopped")
