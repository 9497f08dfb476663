"""Does the edge to Pub/Sub translate every outcome? A real gRPC server that answers as it is told."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.pubsub_v1.types import PublishRequest, PublishResponse

from shared.core.errors import Denied, InvalidRequest, NotFound, ProvisionerError, Throttled, Unavailable
from shared.core.events import Message
from shared.edges.pubsub_publisher import EMULATOR_VARIABLE, PubSubPublisher

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC = "projects/p/topics/t"
MESSAGES = [Message(b"{}", {"ce-id": "a"}), Message(b"[]", {"ce-id": "b"})]


class FakeService(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc is untyped
    def __init__(self) -> None:
        self.code: grpc.StatusCode | None = None
        self.requests: list[PublishRequest] = []

    def service(self, call: Any) -> Any:
        assert call.method == "/google.pubsub.v1.Publisher/Publish"
        return grpc.unary_unary_rpc_method_handler(
            self.publish, PublishRequest.deserialize, PublishResponse.serialize
        )

    def publish(self, request: PublishRequest, context: Any) -> PublishResponse:
        self.requests.append(request)
        if self.code is not None:
            context.abort(self.code, "as told")
        return PublishResponse(message_ids=[str(index) for index in range(len(request.messages))])


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeService]:
    fake = FakeService()
    server = grpc.server(ThreadPoolExecutor(2), handlers=(fake,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    monkeypatch.setenv(EMULATOR_VARIABLE, f"127.0.0.1:{port}")
    yield fake
    server.stop(None).wait(5)


@pytest.fixture
def publisher(service: FakeService) -> Iterator[PubSubPublisher]:
    edge = PubSubPublisher(TOPIC, timeout_seconds=2)
    yield edge
    edge.close()


def test_a_batch_goes_out_in_one_request_and_its_ids_come_back(publisher: PubSubPublisher, service: FakeService):
    assert publisher.publish(MESSAGES) == ["0", "1"]
    (request,) = service.requests
    assert request.topic == TOPIC
    assert [(each.data, dict(each.attributes)) for each in request.messages] == [
        (each.data, each.attributes) for each in MESSAGES
    ]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (grpc.StatusCode.NOT_FOUND, NotFound),
        (grpc.StatusCode.PERMISSION_DENIED, Denied),
        (grpc.StatusCode.UNAUTHENTICATED, Denied),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, Throttled),
        (grpc.StatusCode.INVALID_ARGUMENT, InvalidRequest),
        (grpc.StatusCode.FAILED_PRECONDITION, InvalidRequest),
        (grpc.StatusCode.UNAVAILABLE, Unavailable),
        (grpc.StatusCode.DEADLINE_EXCEEDED, Unavailable),
        (grpc.StatusCode.INTERNAL, Unavailable),
        (grpc.StatusCode.UNKNOWN, Unavailable),
        (grpc.StatusCode.ABORTED, Unavailable),
        (grpc.StatusCode.CANCELLED, Unavailable),
    ],
)
def test_a_refusal_becomes_one_of_our_errors_and_is_not_retried_inside(
    publisher: PubSubPublisher, service: FakeService, code: grpc.StatusCode, error: type[ProvisionerError]
):
    service.code = code
    with pytest.raises(error, match=TOPIC) as caught:
        publisher.publish(MESSAGES)
    assert type(caught.value) is error
    assert len(service.requests) == 1


def test_a_server_that_is_not_there_is_unavailable(monkeypatch: pytest.MonkeyPatch):
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        monkeypatch.setenv(EMULATOR_VARIABLE, f"127.0.0.1:{nobody.getsockname()[1]}")
    edge = PubSubPublisher(TOPIC, timeout_seconds=1)
    with pytest.raises(Unavailable):
        edge.publish(MESSAGES)
    edge.close()


def test_publishing_after_the_end_is_unavailable(publisher: PubSubPublisher):
    publisher.close()
    with pytest.raises(Unavailable):
        publisher.publish(MESSAGES)
