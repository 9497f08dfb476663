"""The process: one event loop with the broker, its two skins, the push sender and the timer.

`PubSubServer` can also be started inside another program's loop, which is how the tests use it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
import msgspec
import uvicorn
from starlette.applications import Starlette

from local.pubsub.admin import Admin
from local.pubsub.bells import Bells, Timekeeper
from local.pubsub.model.broker import Broker
from local.pubsub.push.delivery import PushSender, PushTools
from local.pubsub.push.tokens import TokenSigner
from local.pubsub.wire.grpc_front import GrpcFront
from local.pubsub.wire.rest_front import rest_routes
from local.pubsub.wire.service import Service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

HOST = "127.0.0.1"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServerSettings:
    """Hold what the command line asked for."""

    grpc_port: int = 0
    rest_port: int = 0
    speed: float = 1.0
    seed: int = 1
    omit_empty_data: bool = False


class PubSubServer:
    """Run a broker with all its skins on 127.0.0.1."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self.broker = Broker(clock=time.time, speed=settings.speed, seed=settings.seed)
        self._bells = Bells()
        self.broker.listen(self._bells.ring)
        self._grpc = GrpcFront(Service(self.broker), self._bells)
        self._sender: PushSender | None = None
        self.rest_port = 0

    @property
    def addresses(self) -> dict[str, str]:
        """Return where the skins listen, as the ports file states it."""
        return {"grpc": f"{HOST}:{self._grpc.port}", "rest": f"http://{HOST}:{self.rest_port}"}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[dict[str, str]]:
        """Listen while the block runs; yield the addresses. Raises OSError when a port is taken."""
        signer = TokenSigner(time.time)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
        async with contextlib.AsyncExitStack() as stack:
            rest_socket = stack.enter_context(_listening_socket(self._settings.rest_port))
            self.rest_port = rest_socket.getsockname()[1]
            # No timeout of its own: the ack deadline bounds every push.
            client = httpx.AsyncClient(timeout=None, limits=limits, trust_env=False)  # noqa: S113  # see above
            await stack.enter_async_context(client)
            stack.push_async_callback(self._grpc.stop)
            await self._grpc.start(self._settings.grpc_port)
            self._sender = PushSender(
                PushTools(self.broker, self._bells, client, signer, omit_empty_data=self._settings.omit_empty_data)
            )
            stack.push_async_callback(self._sender.stop)
            await self._start_tasks(stack, signer, rest_socket)
            yield self.addresses

    async def _start_tasks(
        self, stack: contextlib.AsyncExitStack, signer: TokenSigner, rest_socket: socket.socket
    ) -> None:
        """Start the timer and the REST server; the stack ends both."""
        timer = asyncio.create_task(Timekeeper(self.broker).run(), name="timekeeper")
        stack.push_async_callback(_cancelled, timer)
        server = self._rest_server(signer)
        rest = asyncio.create_task(server.serve(sockets=[rest_socket]), name="rest")
        stack.push_async_callback(_stopped, server, rest)
        await _started(server, rest)

    def _rest_server(self, signer: TokenSigner) -> uvicorn.Server:
        admin = Admin(self.broker, signer, self.drop_connections)
        app = Starlette(routes=[*admin.routes(), *rest_routes(Service(self.broker), self._bells)])
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        # Signals belong to the process, not to a server that may run inside a test.
        server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]  # uvicorn's own seam
        return server

    async def drop_connections(self) -> int:
        """Drop every gRPC connection and abort every push; return how many pushes that were."""
        aborted = await self._sender.drop_connections() if self._sender else 0
        await self._grpc.drop_connections()
        log.info("connections dropped", extra={"aborted_pushes": aborted})
        return aborted


async def serve_until_signal(settings: ServerSettings, ports_file: Path | None) -> None:
    """Run until SIGTERM or SIGINT; write the ports file once listening."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with PubSubServer(settings).running() as addresses:
        if ports_file is not None:
            write_ports_file(ports_file, addresses)
        log.info("listening", extra=dict(addresses))
        await stop.wait()
    log.info("stopped")


def write_ports_file(path: Path, addresses: dict[str, str]) -> None:
    """Write the addresses as JSON, appearing under the final name only when complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(msgspec.json.encode(addresses))
    draft.replace(path)


def _listening_socket(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((HOST, port))
    listener.listen(512)
    return listener


async def _started(server: uvicorn.Server, task: asyncio.Task[None]) -> None:
    while not server.started:
        if task.done():
            task.result()
            raise OSError("the REST server ended before it listened")
        await asyncio.sleep(0.01)


async def _stopped(server: uvicorn.Server, task: asyncio.Task[None]) -> None:
    server.should_exit = True
    await task


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
