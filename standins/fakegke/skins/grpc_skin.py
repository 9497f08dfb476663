"""The gRPC skin: `google.container.v1.ClusterManager`, and `v1beta1` with the same messages.

v1beta1 differs from v1 by additional fields; they travel through as unknown fields and come back in
answers. Errors carry `google.rpc.Status` in the trailer `grpc-status-details-bin`, where the
official client looks for reason and domain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from standins.fakegke.errors import Code, GkeError, LostReply
from standins.fakegke.skins.frontdoor import REQUESTS, FrontDoor
from standins.processes.free_ports import PortTaken

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from standins.fakegke.model.proto_messages import Message

_SERVICES = ("google.container.v1.ClusterManager", "google.container.v1beta1.ClusterManager")
_STATUS: dict[int, Any] = {status.value[0]: status for status in grpc.StatusCode}
_LOST = {
    "drop": GkeError(Code.UNAVAILABLE, "Socket closed"),
    "unavailable": GkeError(Code.UNAVAILABLE, "The service is currently unavailable."),
    "deadline": GkeError(Code.DEADLINE_EXCEEDED, "Deadline exceeded."),
}


def status_of(error: GkeError) -> Any:
    """Return the `google.rpc.Status` of an error with its RequestInfo.

    It has an ErrorInfo too, where a reason is known.
    """
    details: list[Any] = []
    if error.request_id:
        details.append(error_details_pb2.RequestInfo(request_id=error.request_id))
    if error.reason:
        details.append(
            error_details_pb2.ErrorInfo(reason=error.reason, domain=error.domain, metadata=error.metadata)
        )
    status = status_pb2.Status(code=int(error.code), message=error.message)
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    return status


def _handler(door: FrontDoor, method: str) -> Callable[[Message, Any], Awaitable[Message]]:
    async def call(request: Message, context: Any) -> Message:
        try:
            return await door.answer(method, request, "grpc")
        except LostReply as lost:
            error = _LOST[lost.how]
        except GkeError as refused:
            error = refused
        trailer = (("grpc-status-details-bin", status_of(error).SerializeToString()),)
        await context.abort(_STATUS[int(error.code)], error.message, trailer)
        raise error

    return call


async def start_grpc(door: FrontDoor, port: int) -> tuple[Any, int]:
    """Return a started server on 127.0.0.1 and its port (`port` 0: a free one).

    Raises PortTaken.
    """
    server = grpc.aio.server()
    handlers = {
        method: grpc.unary_unary_rpc_method_handler(
            _handler(door, method),
            request_deserializer=request_class.FromString,  # type: ignore[attr-defined]
            response_serializer=lambda message: message.SerializeToString(),
        )
        for method, request_class in REQUESTS.items()
    }
    server.add_generic_rpc_handlers(
        tuple(grpc.method_handlers_generic_handler(service, handlers) for service in _SERVICES)
    )
    try:
        bound = server.add_insecure_port(f"127.0.0.1:{port}")
    except RuntimeError as error:
        raise PortTaken(f"port {port} on 127.0.0.1 cannot be used; valid: a free port, or 0") from error
    await server.start()
    return server, bound
