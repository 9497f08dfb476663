"""The process.

Model, clock, REST with admin, the registrar and the log sink, in one event loop on 127.0.0.1.
"""

import asyncio
import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from standins.fakegke.faults.fault_rules import FaultPlan
from standins.fakegke.faults.scenario import load_scenario, parse_scenario
from standins.fakegke.log_sink import LogSink
from standins.fakegke.model.clock import Clock, ManualClock, ScaledClock
from standins.fakegke.model.fake_gke import FakeGke
from standins.fakegke.nodes.kubernetes_calls import connect
from standins.fakegke.nodes.registrar import Registrar
from standins.fakegke.records.calls import CallLog
from standins.fakegke.records.event_log import log_event
from standins.fakegke.skins.admin import Admin
from standins.fakegke.skins.compute_rest import ComputeRest
from standins.fakegke.skins.rest_skin import RestSkin
from standins.processes.http_server import serving
from standins.processes.journal import write_record
from standins.processes.private_files import write_ports
from standins.processes.shutdown import note_signals, wait_for_the_end

_TICK = 0.02


@dataclass(frozen=True)
class Settings:
    """What the command line says. `speed` is virtual seconds for each real second."""

    project: str
    location: str
    clusters: list[str]
    rest_port: int = 0
    speed: float = 30.0
    seed: int = 1
    zones: list[str] = field(default_factory=list)
    kubernetes: str = ""
    faults: Path | None = None
    ports_file: Path | None = None
    manual_clock: bool = False
    machines_everywhere: bool = False
    pubsub: str = ""
    operations_topic: str = ""


class CuttableProtocol(H11Protocol):
    """uvicorn's HTTP protocol, with a way to cut the connection of a request."""

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


class BadSettings(ValueError):
    """The settings cannot be used; the text names the one and what is valid."""


class RunningFake:
    """A fake that is being served: its model, its ports, and how to stop it."""

    def __init__(self, settings: Settings) -> None:
        scenario, faults = load_scenario(settings.faults) if settings.faults else parse_scenario(None)
        scenario.machines_everywhere |= settings.machines_everywhere
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
        self._sink = None
        if bool(settings.pubsub) != bool(settings.operations_topic):
            raise ValueError("pubsub and operations_topic: one is not valid without the other")
        if settings.pubsub:
            self._sink = LogSink(self.gke, settings.pubsub, settings.operations_topic)
            self.gke.listen(self._sink.note)
        self.admin = Admin(self.gke, self.calls, clock if isinstance(clock, ManualClock) else None)
        self.compute = ComputeRest(self.gke)
        self.ports: dict[str, str] = {}

    async def start(self) -> None:
        """Listen on 127.0.0.1 and write the ports file; raises PortTaken when one is."""
        self._running = contextlib.AsyncExitStack()
        try:
            await self._start_all(self._running)
        except BaseException:
            await self._running.aclose()
            raise

    async def stop(self) -> None:
        """End every connection and task."""
        await self._running.aclose()
        write_record("stopped")

    async def _start_all(self, running: contextlib.AsyncExitStack) -> None:
        if self._registrar is not None:
            running.push_async_callback(self._registrar.close)
        pump = asyncio.create_task(_pump(self.gke))
        running.callback(pump.cancel)
        publishing = []
        if self._sink is not None:
            publishing.append(asyncio.create_task(self._sink.run()))
            running.callback(publishing[0].cancel)
        rest = await running.enter_async_context(
            serving(self._application(), self._settings.rest_port, http=CuttableProtocol)
        )
        self.tasks = (rest.task, pump, *publishing)
        self.ports = {"rest": rest.url}
        clusters = [name.path for name in self.gke.world.clusters]
        write_ports(self._settings.ports_file, self.ports)
        write_record("listening", **self.ports, clusters=clusters, speed=self._settings.speed)

    def _application(self) -> Starlette:
        speed = 0.0 if self._settings.manual_clock else self._settings.speed
        skin = RestSkin(self.gke, speed, CuttableProtocol.cut)
        every = Route("/{path:path}", skin.endpoint, methods=["GET", "POST", "PUT", "DELETE", "PATCH"])
        return Starlette(routes=[*self.admin.routes(), *self.compute.routes(), every])


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises BadSettings for unusable settings, PortTaken for taken ports, and NotWritten if the ports
    file cannot be written.
    """
    told = note_signals()
    try:
        fake = RunningFake(settings)
    except ValueError as error:
        raise BadSettings(str(error)) from error
    await fake.start()
    try:
        await wait_for_the_end(told, *fake.tasks)
    finally:
        await fake.stop()


async def _pump(gke: FakeGke) -> None:
    while True:
        gke.agenda.run_due()
        await asyncio.sleep(_TICK)
