"""Does the edge to Pub/Sub translate every outcome? A real gRPC server answers as it is told."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from google.pubsub_v1.types import PublishRequest, PublishResponse, PubsubMessage

from exporter.process import connect, open_publisher
from shared.edges.google import PubsubTopic
from shared.model.errors import Busy, Denied, InvalidRequest, NotFound, ProvisionerError, Throttled, Unavailable
from shared.model.messages import Message

TOPIC = "projects/p/topics/t"
MESSAGES = [Message(b"{}", {"ce-id": "a"}), Message(b"\xff\x00", {"ce-id": "b"})]


class FakeGrpc:
    """Refuses as told, else stores."""

    def __init__(self) -> None:
        self.refusals: list[grpc.StatusCode] = []
        self.silent = threading.Event()
        self.stored: list[PubsubMessage] = []
        self.calls, self.ids = 0, 0
        self.server = grpc.server(ThreadPoolExecutor(2))

    def start(self) -> str:
        handler = grpc.unary_unary_rpc_method_handler(
            self.publish,
            request_deserializer=PublishRequest.deserialize,
            response_serializer=PublishResponse.serialize,
        )
        handlers = grpc.method_handlers_generic_handler("google.pubsub.v1.Publisher", {"Publish": handler})
        self.server.add_generic_rpc_handlers((handlers,))
        port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()
        return f"127.0.0.1:{port}"

    def publish(self, request: PublishRequest, context: grpc.ServicerContext) -> PublishResponse:
        self.calls += 1
        while self.silent.is_set() and context.is_active():
            time.sleep(0.01)
        if self.refusals:
            context.abort(self.refusals.pop(), "as told")
        self.stored += request.messages
        return PublishResponse(message_ids=[str(number) for number in range(self.ids or len(request.messages))])


REFUSALS = {
    "NOT_FOUND": NotFound,
    "PERMISSION_DENIED": Denied,
    "UNAUTHENTICATED": Denied,
    "RESOURCE_EXHAUSTED": Throttled,
    "INVALID_ARGUMENT": InvalidRequest,
    "FAILED_PRECONDITION": Busy,
    "UNAVAILABLE": Unavailable,
    "DEADLINE_EXCEEDED": Unavailable,
    "INTERNAL": Unavailable,
    "CANCELLED": Unavailable,
    "UNIMPLEMENTED": Unavailable,
}
"""By Google's canonical code."""


@pytest.fixture
def grpc_service(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGrpc]:
    fake = FakeGrpc()
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", fake.start())
    yield fake
    fake.server.stop(grace=None).wait()


@pytest.mark.parametrize(("code", "error"), [(grpc.StatusCode[code], error) for code, error in REFUSALS.items()])
def test_a_refusal_is_our_error_of_one_call_and_the_next_batch_is_stored(
    grpc_service: FakeGrpc, code: grpc.StatusCode, error: type[ProvisionerError]
) -> None:
    topic = PubsubTopic(open_publisher, TOPIC)
    grpc_service.refusals.append(code)

    with pytest.raises(error, match=TOPIC) as caught:
        topic.publish(MESSAGES)
    assert type(caught.value) is error
    assert grpc_service.calls == 1

    assert topic.publish(MESSAGES) == ["0", "1"]
    assert [(each.data, dict(each.attributes)) for each in grpc_service.stored] == [
        (each.data, each.attributes) for each in MESSAGES
    ]
    topic.close()


def test_an_answer_that_does_not_come_is_unavailable_after_the_deadline(grpc_service: FakeGrpc) -> None:
    topic = PubsubTopic(open_publisher, TOPIC, timeout_seconds=0.2)
    grpc_service.silent.set()

    with pytest.raises(Unavailable):
        topic.publish(MESSAGES)
    assert grpc_service.calls == 1
    grpc_service.silent.clear()
    topic.close()


def test_a_server_that_comes_later_is_reached_after_a_connection_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeGrpc()
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", f"127.0.0.1:{nobody.getsockname()[1]}")
    topic = PubsubTopic(open_publisher, TOPIC, timeout_seconds=0.2)

    with pytest.raises(Unavailable, match=r"no connection in 0\.2 s"):
        connect(topic)

    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", fake.start())
    assert topic.publish(MESSAGES) == ["0", "1"]
    topic.close()
    fake.server.stop(grace=None).wait()


def test_an_answer_with_fewer_ids_than_messages_is_unavailable(grpc_service: FakeGrpc) -> None:
    topic = PubsubTopic(open_publisher, TOPIC)
    grpc_service.ids = 1

    with pytest.raises(Unavailable, match="the answer cannot be read: 1 ids for 2 messages"):
        topic.publish(MESSAGES)
    topic.close()
