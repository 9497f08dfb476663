"""The process: one event loop with the broker, its two skins, the push sender and the timer.

`PubSubServer` can also be started inside another program's loop, which is how the tests use it.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
from starlette.applications import Starlette

from standins.processes.free_ports import HOST
from standins.processes.http_server import serving
from standins.processes.private_files import write_ports
from standins.processes.shutdown import note_signals, wait_for_the_end
from standins.pubsub.admin import Admin
from standins.pubsub.bells import Bells, Timekeeper
from standins.pubsub.model.broker import Broker
from standins.pubsub.push.delivery import PushSender, PushTools
from standins.pubsub.push.tokens import TokenSigner
from standins.pubsub.wire.grpc_front import GrpcFront
from standins.pubsub.wire.rest_front import rest_routes
from standins.pubsub.wire.service import Service

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServerSettings:
    """Hold what the command line asked for."""

    grpc_port: int = 0
    rest_port: int = 0


class PubSubServer:
    """Run a broker with all its skins on 127.0.0.1."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self.broker = Broker(clock=time.time)
        self._bells = Bells()
        self.broker.listen(self._bells.ring)
        self._grpc = GrpcFront(Service(self.broker), self._bells)
        self._sender: PushSender | None = None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[dict[str, str]]:
        """Listen while the block runs; yield the addresses. Raises PortTaken when one is."""
        signer = TokenSigner(time.time)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
        async with contextlib.AsyncExitStack() as stack:
            # No timeout of its own: the ack deadline bounds every push.
            client = httpx.AsyncClient(timeout=None, limits=limits, trust_env=False)  # noqa: S113  # see above
            await stack.enter_async_context(client)
            stack.push_async_callback(self._grpc.stop)
            await self._grpc.start(self._settings.grpc_port)
            self._sender = PushSender(PushTools(self.broker, self._bells, client, signer))
            stack.push_async_callback(self._sender.stop)
            timer = asyncio.create_task(Timekeeper(self.broker).run(), name="timekeeper")
            stack.push_async_callback(_cancelled, timer)
            rest = await stack.enter_async_context(serving(self._application(signer), self._settings.rest_port))
            yield {"grpc": f"{HOST}:{self._grpc.port}", "rest": rest.url}

    def _application(self, signer: TokenSigner) -> Starlette:
        admin = Admin(self.broker, signer, self.drop_connections)
        return Starlette(routes=[*admin.routes(), *rest_routes(Service(self.broker), self._bells)])

    async def drop_connections(self) -> int:
        """Drop every gRPC connection and abort every push; return how many pushes that were."""
        aborted = await self._sender.drop_connections() if self._sender else 0
        await self._grpc.drop_connections()
        log.info("connections dropped", extra={"aborted_pushes": aborted})
        return aborted


async def serve_until_signal(settings: ServerSettings, ports_file: Path | None) -> None:
    """Run until SIGTERM or SIGINT; write the ports file once listening."""
    told = note_signals()
    async with PubSubServer(settings).running() as addresses:
        write_ports(ports_file, addresses)
        log.info("listening", extra=dict(addresses))
        await wait_for_the_end(told)
    log.info("stopped")


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
