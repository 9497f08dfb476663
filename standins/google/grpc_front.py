"""Serves APIs over gRPC: the methods that their rules name, as generic handlers of grpc.aio.

It can drop every client connection and listen again on the same port, as a service that restarts
would.
"""

from typing import Any

import grpc

from standins.google.api import Answer, Caller, Rule
from standins.google.errors import ApiError
from standins.kit.http_server import listen

HOST = "127.0.0.1"
MAX_MESSAGE_BYTES = 32 * 1024 * 1024
# Two servers share the port for the moment in which one takes over from the other.
OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 1),
]
WAIT_SECONDS, MARGIN_SECONDS = 5.0, 0.3


class GrpcFront:
    """Serves services on one port of 127.0.0.1.

    Args:
        services: the rules of each, by its full name.
        answer: the model.
    """

    def __init__(self, services: dict[str, list[Rule]], answer: Answer) -> None:
        self._services, self._answer = services, answer
        self._server: Any = None
        self.port = 0

    async def start(self, port: int) -> None:
        """Listen on the port, 0 for a free one. Raises PortTaken when it is taken."""
        self.port = _free_port(port)
        self._server = await self._listening()

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

    async def _listening(self) -> Any:
        server = grpc.aio.server(options=OPTIONS)
        server.add_generic_rpc_handlers(
            tuple(
                grpc.method_handlers_generic_handler(name, {rule.method: self._handler(rule) for rule in rules})
                for name, rules in self._services.items()
            )
        )
        server.add_insecure_port(f"{HOST}:{self.port}")
        await server.start()
        return server

    def _handler(self, rule: Rule) -> Any:
        async def call(request: Any, context: Any) -> Any:
            try:
                return await self._answer(rule.method, request, Caller(_patience(context)))
            except ApiError as error:
                await context.abort(grpc.StatusCode[error.code.name], error.message)

        return grpc.unary_unary_rpc_method_handler(
            call,
            request_deserializer=rule.request.FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )


def _free_port(port: int) -> int:
    """Return the port, or a free one for 0.

    Raises PortTaken when it is taken, which gRPC's sharing would hide.
    """
    with listen(port) as probe:
        return int(probe.getsockname()[1])


def _patience(context: Any) -> float:
    """Return how many real seconds an answer may wait: not longer than its caller does."""
    remaining = context.time_remaining()
    if remaining is None:
        return WAIT_SECONDS
    return float(min(WAIT_SECONDS, max(0.0, remaining - MARGIN_SECONDS)))
