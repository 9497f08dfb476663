"""The gRPC skin.

`google.pubsub.v1.Publisher` and `.Subscriber` as generic handlers on a grpc.aio server.

It can drop every client connection and listen again on the same port, as a service that restarts
would.
"""

from typing import Any

import grpc

from standins.processes.http_server import listen
from standins.pubsub.bells import Bells
from standins.pubsub.model.errors import BrokerError
from standins.pubsub.wire.service import PULL, SERVICES, Answer, Service, request_class
from standins.pubsub.wire.waiting import pull_waiting

PACKAGE = "google.pubsub.v1"
HOST = "127.0.0.1"
MAX_MESSAGE_BYTES = 32 * 1024 * 1024
# Two servers share the port for the moment in which one takes over from the other.
OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 1),
]
PULL_WAIT_SECONDS = 5.0
PULL_MARGIN_SECONDS = 0.3


class GrpcFront:
    """Serve the broker over gRPC on one port of 127.0.0.1."""

    def __init__(self, service: Service, bells: Bells) -> None:
        self._service = service
        self._bells = bells
        self._server: Any = None
        self.port = 0

    async def start(self, port: int) -> None:
        """Listen on the port, 0 for a free one. Raises PortTaken when it is taken."""
        self.port = _free_port(port)
        self._server = await self._listening()

    async def _listening(self) -> Any:
        server = grpc.aio.server(options=OPTIONS)
        server.add_generic_rpc_handlers(self._handlers())
        server.add_insecure_port(f"{HOST}:{self.port}")
        await server.start()
        return server

    async def stop(self) -> None:
        """Close every connection and stop listening."""
        if self._server is not None:
            await self._server.stop(grace=None)
            self._server = None

    async def drop_connections(self) -> None:
        """Close every connection.

        The port never stops listening, so clients may come back at once.
        """
        old, self._server = self._server, await self._listening()
        if old is not None:
            await old.stop(grace=None)

    def _handlers(self) -> tuple[Any, ...]:
        return tuple(
            grpc.method_handlers_generic_handler(
                f"{PACKAGE}.{name}", {rpc: self._handler(rpc, answer) for rpc, answer in answers.items()}
            )
            for name, answers in SERVICES.items()
        )

    def _handler(self, rpc: str, answer: Answer) -> Any:
        async def call(request: Any, context: Any) -> Any:
            try:
                if rpc == PULL:
                    return await pull_waiting(self._service, self._bells, request, _patience(context))
                return answer(self._service, request)
            except BrokerError as error:
                await context.abort(grpc.StatusCode[error.code.name], error.text)

        return grpc.unary_unary_rpc_method_handler(
            call,
            request_deserializer=request_class(rpc).FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )


def _free_port(port: int) -> int:
    """Return the port, or a free one for 0.

    Raises PortTaken when it is taken, which gRPC's sharing would hide.
    """
    with listen(port) as probe:
        return int(probe.getsockname()[1])


def _patience(context: Any) -> float:
    """Return how many real seconds a pull may wait: not longer than its caller does."""
    remaining = context.time_remaining()
    if remaining is None:
        return PULL_WAIT_SECONDS
    return float(min(PULL_WAIT_SECONDS, max(0.0, remaining - PULL_MARGIN_SECONDS)))
