"""Does the edge to Pub/Sub translate every outcome? A real gRPC server answers as it is told."""

import socket
import threading
from collections.abc import Callable, Iterator
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


class FakeGrpc:
    """Gives the answers that it is told, and stores afterwards."""

    def __init__(self) -> None:
        self.answers: list[Callable[[grpc.ServicerContext], list[str]]] = []
        self.calls, self.stored = 0, list[PubsubMessage]()

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
        server.stop(grace=None).wait()

    def publish(self, request: PublishRequest, context: grpc.ServicerContext) -> PublishResponse:
        self.calls += 1
        if self.answers:
            return PublishResponse(message_ids=self.answers.pop()(context))
        self.stored += request.messages
        return PublishResponse(message_ids=[str(number) for number in range(len(request.messages))])


@pytest.fixture
def topic() -> Iterator[PubsubTopic]:
    topic = PubsubTopic(open_publisher, TOPIC)
    yield topic
    topic.close()


def refuse(code: str) -> Callable[[grpc.ServicerContext], list[str]]:
    return lambda context: context.abort(grpc.StatusCode[code], "as told")


def say_nothing(context: grpc.ServicerContext) -> list[str]:
    """Wait until the caller has given up."""
    ended = threading.Event()
    context.add_callback(ended.set)
    ended.wait(60)
    return []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refuse("NOT_FOUND"), errors.NotFound),
        (refuse("PERMISSION_DENIED"), errors.Denied),
        (refuse("RESOURCE_EXHAUSTED"), errors.Throttled),
        (refuse("INVALID_ARGUMENT"), errors.InvalidRequest),
        (refuse("INTERNAL"), errors.Unavailable),
        (refuse("UNIMPLEMENTED"), errors.Unavailable),
        (say_nothing, errors.Unavailable),
        (lambda _: ["one id for two messages"], errors.Unavailable),
    ],
)
def test_an_answer_that_is_none_is_our_error_of_one_call_and_the_next_batch_is_stored(
    topic: PubsubTopic,
    answer: Callable[[grpc.ServicerContext], list[str]],
    error: type[errors.ProvisionerError],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = FakeGrpc()
    with service.serving(monkeypatch):
        service.answers.append(answer)
        topic.timeout_seconds = 0.5 if answer is say_nothing else 10

        with pytest.raises(error, match=TOPIC) as caught:
            topic.publish(MESSAGES)
        assert type(caught.value) is error
        assert service.calls == 1

        topic.timeout_seconds = 10
        assert topic.publish(MESSAGES) == ["0", "1"]
    assert [Message(each.data, dict(each.attributes)) for each in service.stored] == MESSAGES


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
