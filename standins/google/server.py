"""The process: every part that the settings ask for, in one event loop, on one REST port.

It can also be started inside another program's loop, which is how the tests use it.
"""

import asyncio
import contextlib
import itertools
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import httpx
from google.cloud.container_v1 import types
from google.cloud.container_v1.services.cluster_manager.transports.rest_base import (
    _BaseClusterManagerRestTransport,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from typer import Option
from uvicorn.protocols.http.h11_impl import H11Protocol

from standins.google.admin import GkeActions, PubsubActions, build_routes
from standins.google.api import HOST, Api, Caller, GrpcFront, Message, read_rules
from standins.google.cloud_logging import LogReader
from standins.google.discovery import Documents
from standins.google.errors import ApiError, Code
from standins.google.generic import ROUTES, Generic
from standins.google.gke.clock import Clock
from standins.google.gke.compute import InstanceGroups
from standins.google.gke.fake_gke import FakeGke, LostReply
from standins.google.gke.faults import FaultPlan
from standins.google.gke.log_sink import LogSink
from standins.google.gke.nodes import CallMade, Event, PoolState
from standins.google.gke.registrar import Registrar
from standins.google.gke.scenario import load_scenario, parse_scenario
from standins.google.gke.state import World
from standins.google.pubsub.broker import Broker
from standins.google.pubsub.push import Bells, PushSender, keep_time
from standins.google.pubsub.service import Service
from standins.google.pubsub.subscription import PubsubMessage
from standins.kit.addresses import STAND_IN, check_writable, write_ports
from standins.kit.http_server import serving
from standins.kit.lifecycle import note_signals, wait_for_the_end, write_record

_TICK = 0.02
_METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH"]


_FOLDER: dict[str, Any] = {"exists": True, "file_okay": False}
_PORT: dict[str, Any] = {"min": 0, "max": 65535}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What may be chosen: each field is an option of the command line."""

    project: Annotated[str, Option(help="Project id of the clusters and logs.")] = "demo"
    location: Annotated[str, Option(help="Region or zone of the clusters.")] = "us-east5"
    clusters: Annotated[
        list[str] | None, Option("--cluster", help="Serves GKE, with this cluster; may be given several times.")
    ] = None
    pubsub: Annotated[bool, Option("--pubsub", help="Serves Pub/Sub.")] = False
    logs: Annotated[Path | None, Option(help="Serves the *.log files of this folder.", **_FOLDER)] = None
    apis: Annotated[
        Path | None, Option(help="Serves the discovery documents of this folder below /apis/.", **_FOLDER)
    ] = None
    rest_port: Annotated[int, Option(help="Port of REST and /admin; 0 picks a free one.", **_PORT)] = 0
    grpc_port: Annotated[int, Option(help="Port of Pub/Sub's gRPC; 0 picks a free one.", **_PORT)] = 0
    speed: Annotated[float, Option(help="Virtual seconds for each real second.", min=0.001)] = 30.0
    seed: Annotated[int, Option(help="Same seed, same calls: same ids and timings.")] = 1
    zones: Annotated[
        list[str] | None, Option("--zone", help="Node zone of the clusters; default: of the location.")
    ] = None
    kubernetes: Annotated[Path | None, Option(help="Kubeconfig of an API to register nodes in.")] = None
    operations_topic: Annotated[
        str, Option(help="Topic of this Pub/Sub for GKE's audit log: projects/P/topics/T.")
    ] = ""
    faults: Annotated[Path | None, Option(help="YAML or JSON file of faults and capacity.")] = None
    ports_file: Annotated[
        Path | None, Option(help="Written once listening: {'rest': …, 'grpc': …}.", callback=check_writable)
    ] = None
    manual_clock: Annotated[
        bool, Option("--manual-clock", help="Time stands still; POST /admin/clock moves it.")
    ] = False
    machines_everywhere: Annotated[bool, Option("--machines-everywhere", help="Each zone has each machine.")] = (
        False
    )


class CuttableProtocol(H11Protocol):
    """uvicorn's HTTP protocol; each request has its connection, so that it can be cut."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Put the connection into the state of its requests."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, "connection": transport}


class Google:
    """The parts of one process, what they answer, and how they end.

    Raises ValueError or FileNotFoundError for settings that cannot be used.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._parts: list[GkePart | PubsubPart] = []
        self.broker = Broker(clock=time.time)
        if settings.operations_topic and not settings.pubsub:
            raise ValueError("operations_topic: is not valid without pubsub")
        if settings.pubsub:
            self._parts.append(PubsubPart(settings, self.broker))
        if settings.clusters:
            part = GkePart(settings, self.broker)
            self.gke = part.gke
            self._parts.append(part)
        self._routes = [route for part in self._parts for route in part.routes]
        if settings.logs is not None:
            self._routes += LogReader(settings.logs, settings.project).routes()
        if settings.apis is not None:
            generic = Generic(Documents(settings.apis))
            self._routes += [Route(path, generic.respond, methods=_METHODS) for path in ROUTES]
        self.ports: dict[str, str] = {}
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Listen on 127.0.0.1 and write the ports file; raises PortTaken when a port is."""
        self._running = contextlib.AsyncExitStack()
        try:
            for part in self._parts:
                self.ports |= await part.start(self._running)
                self.tasks += part.tasks
            routes = [
                *self._routes,
                Route("/healthz", lambda _request: JSONResponse({"status": "ok"})),
                Route("/{path:path}", self._respond, methods=_METHODS),
            ]
            server = serving(Starlette(routes=routes), self._settings.rest_port, http=CuttableProtocol)
            rest = await self._running.enter_async_context(server)
        except BaseException:
            await self._running.aclose()
            raise
        self.tasks.append(rest.task)
        self.ports["rest"] = rest.url
        write_ports(self._settings.ports_file, self.ports)
        write_record("listening", **self.ports)

    async def stop(self) -> None:
        """End every connection and task."""
        await self._running.aclose()
        write_record("stopped")

    async def _respond(self, request: Request) -> Response:
        for part in self._parts:
            match = part.api.find(request)
            if match is not None:
                return await part.api.respond(*match, request)
        words = f"The requested URL {request.url.path} was not found."
        text = f"<!DOCTYPE html><title>Error 404 (Not Found)!!1</title><p>{words}"
        return Response(text, status_code=404, media_type="text/html; charset=UTF-8")


class GkePart:
    """GKE, with Compute's groups, the nodes in a Kubernetes API, and the audit log."""

    def __init__(self, settings: Settings, broker: Broker) -> None:
        scenario, faults = load_scenario(settings.faults) if settings.faults else parse_scenario(None)
        scenario.machines_everywhere |= settings.machines_everywhere
        speed = 0.0 if settings.manual_clock else settings.speed
        self.gke = FakeGke(World(Clock(speed), settings.seed, scenario, FaultPlan(faults)))
        for cluster in settings.clusters or ():
            self.gke.add_cluster(settings.project, settings.location, cluster, settings.zones or None)
        self._speed, actions = speed, GkeActions(self.gke)
        self._registrar = Registrar(settings.kubernetes or Path())
        self._sink = LogSink(self.gke, partial(_publish, broker, settings.operations_topic))
        self.gke.listen(_log_event)
        self.gke.listen(actions.note)
        if settings.kubernetes:
            self.gke.listen(self._registrar.note)
        if settings.operations_topic:
            self.gke.listen(self._sink.note)
        self.api = Api(read_rules([_BaseClusterManagerRestTransport], types), self._answer, lists=True)
        self.routes = [*build_routes(actions.by_name), *InstanceGroups(self.gke).routes()]
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self, running: contextlib.AsyncExitStack) -> dict[str, str]:
        """Begin to pass time; return no ports of its own."""
        running.push_async_callback(self._registrar.close)
        self.tasks = [asyncio.create_task(self._pump()), asyncio.create_task(self._sink.run())]
        for task in self.tasks:
            running.callback(task.cancel)
        return {}

    async def _answer(self, method: str, message: Message, caller: Caller) -> Message:
        """Answer a call after the time that it takes, unless the answer is to be lost."""
        if self._speed:
            await asyncio.sleep(self.gke.world.scenario.timings.latency(method) / self._speed)
        agent = caller.request.headers.get("User-Agent") if caller.request else ""
        try:
            # Calls of stand-ins, such as the autoscaler's, have another name: no user makes them.
            return self.gke.call(method, message, STAND_IN if agent == STAND_IN else "rest")
        except LostReply as lost:
            if lost.how == "drop" and caller.request is not None:
                caller.request.state.connection.abort()
            code = Code.DEADLINE_EXCEEDED if lost.how == "deadline" else Code.UNAVAILABLE
            raise ApiError(code, "The service is currently unavailable.") from lost

    async def _pump(self) -> None:
        while True:
            self.gke.agenda.run_due()
            await asyncio.sleep(_TICK)


def _log_event(event: Event) -> None:
    """Write one event of the model, if it is one that a person looks for, into the log."""
    if isinstance(event, CallMade):
        fields = {name: value for name, value in vars(event).items() if name != "at"}
        write_record("call", "INFO" if event.code == "OK" else "WARNING", **fields)
    elif isinstance(event, PoolState):
        severity = "WARNING" if "ERROR" in event.status else "INFO"
        write_record("pool state", severity, cluster=event.cluster.cluster, pool=event.pool, status=event.status)


def _publish(broker: Broker, topic: str, data: bytes, attributes: dict[str, str]) -> None:
    broker.publish(topic, [PubsubMessage(data=data, attributes=attributes)])


class PubsubPart:
    """Pub/Sub: the broker over REST and gRPC, and its pushes."""

    def __init__(self, settings: Settings, broker: Broker) -> None:
        self._port, self._broker = settings.grpc_port, broker
        self._bells = Bells()
        broker.listen(self._bells.ring)
        service = Service(broker, self._bells)
        rules = service.list_rules()
        self._grpc = GrpcFront(rules, service.answer)
        self.api = Api(itertools.chain(*rules.values()), service.answer)
        self._sender: PushSender | None = None
        self.routes = build_routes(PubsubActions(broker, self._drop_connections).by_name)
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self, running: contextlib.AsyncExitStack) -> dict[str, str]:
        """Listen for gRPC and begin to push; return the gRPC port."""
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
        # No timeout of its own: the ack deadline bounds every push.
        client = httpx.AsyncClient(timeout=None, limits=limits, trust_env=False)  # noqa: S113  # see above
        await running.enter_async_context(client)
        running.push_async_callback(self._grpc.stop)
        await self._grpc.start(self._port)
        self._sender = PushSender(self._broker, self._bells, client)
        running.push_async_callback(self._sender.stop)
        self.tasks = [asyncio.create_task(keep_time(self._broker), name="timekeeper")]
        running.callback(self.tasks[0].cancel)
        return {"grpc": f"{HOST}:{self._grpc.port}"}

    async def _drop_connections(self) -> int:
        """Drop every gRPC connection and abort every push; return how many pushes that were."""
        aborted = await self._sender.drop_connections() if self._sender else 0
        await self._grpc.drop_connections()
        write_record("connections dropped", aborted_pushes=aborted)
        return aborted


async def serve(google: Google) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises PortTaken for taken ports, and NotWritten if the ports file cannot be written.
    """
    signalled = note_signals()
    await google.start()
    try:
        await wait_for_the_end(signalled, *google.tasks)
    finally:
        await google.stop()
