"""The process: model, clock, gRPC, REST with admin, and the registrar, in one event loop on 127.0.0.1."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from local.fakegke.admin import Admin
from local.fakegke.calls import CallLog
from local.fakegke.clock import ManualClock, ScaledClock
from local.fakegke.compute import Compute
from local.fakegke.compute_rest import ComputeRest
from local.fakegke.faults import FaultPlan
from local.fakegke.frontdoor import FrontDoor
from local.fakegke.grpc_skin import start_grpc
from local.fakegke.kubernetes_api import connect
from local.fakegke.logs import log, log_event
from local.fakegke.model import FakeGke
from local.fakegke.registrar import Registrar
from local.fakegke.rest_skin import RestSkin
from local.fakegke.scenario import load_scenario, parse_scenario

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.requests import Request

    from local.fakegke.clock import Clock

_TICK = 0.02
_HOST = "127.0.0.1"


@dataclass(frozen=True)
class Settings:
    """What the command line says. `speed` is virtual seconds for each real second."""

    project: str
    location: str
    clusters: list[str]
    rest_port: int = 0
    grpc_port: int = 0
    speed: float = 30.0
    seed: int = 1
    zones: list[str] = field(default_factory=list)
    kubernetes: str = ""
    faults: Path | None = None
    ports_file: Path | None = None
    manual_clock: bool = False


class CuttableProtocol(H11Protocol):
    """uvicorn's HTTP protocol, with a way to cut the connection of a request that is being answered."""

    open: ClassVar[dict[tuple[str, int], asyncio.Transport]] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Remember the connection by its peer."""
        super().connection_made(transport)
        self.open[transport.get_extra_info("peername")] = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        for peer in [peer for peer, transport in self.open.items() if transport is self.transport]:
            del self.open[peer]
        super().connection_lost(exc)

    @classmethod
    def cut(cls, request: Request) -> None:
        """Abort the connection that a request came by."""
        transport = cls.open.get((request.client.host, request.client.port)) if request.client else None
        if transport is not None:
            transport.abort()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so."""
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process, which also has gRPC to stop."""
        yield


class RunningFake:
    """A fake that is being served: its model, its ports, and how to stop it."""

    def __init__(self, settings: Settings) -> None:
        scenario, faults = load_scenario(settings.faults) if settings.faults else parse_scenario(None)
        self._settings = settings
        clock: Clock = ManualClock() if settings.manual_clock else ScaledClock(settings.speed)
        self.gke = FakeGke(clock=clock, seed=settings.seed, scenario=scenario, faults=FaultPlan(faults))
        for cluster in settings.clusters:
            self.gke.add_cluster(settings.project, settings.location, cluster, settings.zones or None)
        self.calls = CallLog()
        for listener in (log_event, self.calls.note):
            self.gke.listen(listener)
        self._registrar = Registrar(connect(settings.kubernetes)) if settings.kubernetes else None
        if self._registrar is not None:
            self.gke.listen(self._registrar.note)
        self.door = FrontDoor(self.gke, 0.0 if settings.manual_clock else settings.speed)
        self.admin = Admin(self.gke, self.calls, clock if isinstance(clock, ManualClock) else None)
        self.compute = ComputeRest(Compute(self.gke.world))
        self.ports: dict[str, str] = {}

    async def start(self) -> None:
        """Listen on 127.0.0.1 and write the ports file; raises OSError when a port is taken."""
        beside = [*self.admin.routes(), *self.compute.routes()]
        self._rest, rest_port, self.rest_task = await _start_rest(self.door, beside, self._settings.rest_port)
        self._grpc, grpc_port = await start_grpc(self.door, self._settings.grpc_port)
        self.pump_task = asyncio.get_running_loop().create_task(_pump(self.gke))
        self.ports = {"rest": f"http://{_HOST}:{rest_port}", "grpc": f"{_HOST}:{grpc_port}"}
        if self._settings.ports_file is not None:
            write_ports(self._settings.ports_file, self.ports)
        clusters = [name.path for name in self.gke.world.clusters]
        log("INFO", "listening", **self.ports, clusters=clusters, speed=self._settings.speed)

    async def stop(self) -> None:
        """End every connection and task."""
        self._rest.should_exit = True
        await asyncio.gather(self.rest_task, self._grpc.stop(0.2))
        self.pump_task.cancel()
        if self._registrar is not None:
            await self._registrar.close()
        log("INFO", "stopped")


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; raises ValueError for unusable settings, OSError for taken ports."""
    fake = RunningFake(settings)
    await fake.start()
    await _until_told_to_stop(fake.rest_task, fake.pump_task)
    await fake.stop()


async def _start_rest(
    door: FrontDoor, beside: list[Route], port: int
) -> tuple[uvicorn.Server, int, asyncio.Task[None]]:
    skin = RestSkin(door, CuttableProtocol.cut)
    methods = ["GET", "POST", "PUT", "DELETE", "PATCH"]
    application = Starlette(routes=[*beside, Route("/{path:path}", skin.endpoint, methods=methods)])
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((_HOST, port))
    except OSError as error:
        listener.close()
        raise OSError(f"rest-port: {port} cannot be bound on {_HOST}: {error}") from error
    config = uvicorn.Config(
        application,
        http=CuttableProtocol,
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    server = _Server(config)
    task = asyncio.get_running_loop().create_task(server.serve(sockets=[listener]))
    await server.listening.wait()
    return server, int(listener.getsockname()[1]), task


async def _pump(gke: FakeGke) -> None:
    while True:
        gke.agenda.run_due()
        await asyncio.sleep(_TICK)


async def _until_told_to_stop(*tasks: asyncio.Task[None]) -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    waiting = loop.create_task(told.wait())
    await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    for task in tasks:
        if task.done():
            task.result()


def write_ports(path: Path, ports: dict[str, Any]) -> None:
    """Write the ports as JSON, all at once: a reader sees the whole file or none."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(ports) + "\n", encoding="utf-8")
    draft.replace(path)
