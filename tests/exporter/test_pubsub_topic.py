"""Does the edge to Pub/Sub translate every outcome? A real gRPC server answers as it is told."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import pytest
from google.pubsub_v1.types import PublishRequest, PublishResponse, PubsubMessage

from exporter.process import open_publisher
from shared.edges.google import PubsubTopic
from shared.model import errors
from shared.model.messages import Message

TOPIC = "projects/p/topics/t"
MESSAGES = [Message(b"{}", {"ce-id": "a"}), Message(b"\xff\x00", {"ce-id": "b"})]
REFUSALS: dict[str, type[errors.ProvisionerError]] = {
    "NOT_FOUND": errors.NotFound,
    "PERMISSION_DENIED": errors.Denied,
    "UNAUTHENTICATED": errors.Denied,
    "RESOURCE_EXHAUSTED": errors.Throttled,
    "INVALID_ARGUMENT": errors.InvalidRequest,
    "FAILED_PRECONDITION": errors.Busy,
} | dict.fromkeys(
    ("UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "CANCELLED", "UNIMPLEMENTED"), errors.Unavailable
)
"""By Google's canonical code."""


class FakeGrpc:
    """Refuses as told, else stores."""

    def __init__(self) -> None:
        self.refusals, self.stored = list[str](), list[PubsubMessage]()
        self.calls, self.ids = 0, 0
        self.answers = threading.Event()
        self.answers.set()

    @contextmanager
    def serving(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        read, write = PublishRequest.deserialize, PublishResponse.serialize
        publish = grpc.unary_unary_rpc_method_handler(self.publish, read, write)
        server = grpc.server(ThreadPoolExecutor(2))
        handler = grpc.method_handlers_generic_handler("google.pubsub.v1.Publisher", {"Publish": publish})
        server.add_generic_rpc_handlers((handler,))
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
        server.start()
        yield
        self.answers.set()
        server.stop(grace=None).wait()

    def publish(self, request: PublishRequest, context: grpc.ServicerContext) -> PublishResponse:
        self.calls += 1
        self.answers.wait(60)
        if self.refusals:
            context.abort(grpc.StatusCode[self.refusals.pop()], "as told")
        self.stored += request.messages
        return PublishResponse(message_ids=[str(number) for number in range(self.ids or len(request.messages))])


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGrpc]:
    fake = FakeGrpc()
    with fake.serving(monkeypatch):
        yield fake


@pytest.fixture
def topic() -> Iterator[PubsubTopic]:
    topic = PubsubTopic(open_publisher, TOPIC)
    yield topic
    topic.close()


@pytest.mark.parametrize("code", REFUSALS)
def test_a_refusal_is_our_error_of_one_call_and_the_next_batch_is_stored(
    service: FakeGrpc, topic: PubsubTopic, code: str
) -> None:
    service.refusals.append(code)

    with pytest.raises(REFUSALS[code], match=TOPIC) as caught:
        topic.publish(MESSAGES)
    assert type(caught.value) is REFUSALS[code]
    assert service.calls == 1

    assert topic.publish(MESSAGES) == ["0", "1"]
    assert [Message(each.data, dict(each.attributes)) for each in service.stored] == MESSAGES


def test_an_answer_that_does_not_come_is_unavailable_after_the_deadline(
    service: FakeGrpc, topic: PubsubTopic
) -> None:
    topic.timeout_seconds = 0.2
    service.answers.clear()

    with pytest.raises(errors.Unavailable):
        topic.publish(MESSAGES)
    assert service.calls == 1


def test_a_server_that_comes_later_is_reached_after_a_connection_failed(
    topic: PubsubTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", f"127.0.0.1:{nobody.getsockname()[1]}")
    topic.timeout_seconds = 0.2
    with pytest.raises(errors.Unavailable):
        topic.publish(MESSAGES)

    topic.timeout_seconds = 10
    with FakeGrpc().serving(monkeypatch):
        assert topic.publish(MESSAGES) == ["0", "1"]


def test_an_answer_with_fewer_ids_than_messages_is_unavailable(service: FakeGrpc, topic: PubsubTopic) -> None:
    service.ids = 1

    with pytest.raises(errors.Unavailable, match="the answer cannot be read: 1 ids for 2 messages"):
        topic.publish(MESSAGES)
