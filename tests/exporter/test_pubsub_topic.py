"""Does the edge to Pub/Sub translate every outcome? A real HTTP server answers as it is told."""

import base64
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.auth.credentials import AnonymousCredentials
from google.oauth2.credentials import Credentials
from google.pubsub_v1.types import PublishRequest, PublishResponse, PubsubMessage

from cli.access.subscriptions import open_publisher_over_rest
from exporter.process import connect, open_publisher
from shared.edges.pubsub import PubsubTopic
from shared.model.errors import Busy, Denied, InvalidRequest, NotFound, ProvisionerError, Throttled, Unavailable
from shared.model.messages import Message
from shared.version import VERSION
from standins.kit.local_answers import Answer, Asked, LocalAnswers

ANONYMOUS = AnonymousCredentials()  # type: ignore[no-untyped-call]
TOPIC = "projects/p/topics/t"
MESSAGES = [Message(b"{}", {"ce-id": "a"}), Message(b"\xff\x00", {"ce-id": "b"})]


class FakeService(LocalAnswers):
    """Answers every publish with what the test set."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.status, self.body = 200, b""
        self.requests: list[tuple[str, Mapping[str, str], Any]] = []

    def _answer(self, request: Asked) -> Answer:
        asked = json.loads(request.body)
        self.requests.append((request.path, request.headers, asked))
        ids = {"messageIds": [str(number) for number in range(len(asked["messages"]))]}
        return Answer(self.status, self.body or json.dumps(ids).encode())


class FakeGrpc:
    """The same over gRPC: refuses as told, else stores."""

    def __init__(self) -> None:
        self.refusals: list[grpc.StatusCode] = []
        self.silent = threading.Event()
        self.stored: list[PubsubMessage] = []
        self.calls = 0
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
        return PublishResponse(message_ids=[str(number) for number in range(len(request.messages))])


@pytest.fixture
def service() -> Iterator[FakeService]:
    with FakeService() as fake:
        yield fake


@pytest.fixture
def topic(service: FakeService) -> Iterator[PubsubTopic]:
    account = Credentials(token="secret")  # type: ignore[no-untyped-call]
    topic = PubsubTopic(lambda: open_publisher_over_rest(service.url, account), TOPIC)
    yield topic
    topic.close()


def refuse(service: FakeService, status: int, canonical: str) -> None:
    service.status = status
    service.body = json.dumps({"error": {"code": status, "status": canonical, "message": "as told"}}).encode()


def test_a_batch_goes_out_in_one_request_and_its_ids_come_back(topic: PubsubTopic, service: FakeService) -> None:
    assert topic.publish(MESSAGES) == ["0", "1"]
    ((path, headers, asked),) = service.requests
    assert path.partition("?")[0] == f"/v1/{TOPIC}:publish"
    assert headers["authorization"] == "Bearer secret"
    assert f"tpu-provisioner/{VERSION}" in headers["x-goog-api-client"]
    assert [(base64.b64decode(each["data"]), each["attributes"]) for each in asked["messages"]] == [
        (each.data, each.attributes) for each in MESSAGES
    ]


REFUSALS = [
    (404, "NOT_FOUND", NotFound),
    (403, "PERMISSION_DENIED", Denied),
    (401, "UNAUTHENTICATED", Denied),
    (429, "RESOURCE_EXHAUSTED", Throttled),
    (400, "INVALID_ARGUMENT", InvalidRequest),
    (400, "FAILED_PRECONDITION", Busy),
    (503, "UNAVAILABLE", Unavailable),
    (504, "DEADLINE_EXCEEDED", Unavailable),
    (500, "INTERNAL", Unavailable),
    (499, "CANCELLED", Unavailable),
    (501, "UNIMPLEMENTED", Unavailable),
]
"""HTTP status, Google's canonical code, which gRPC has alone, and our error."""


@pytest.mark.parametrize(
    ("status", "canonical", "error"), [*REFUSALS, *((each, "", Unavailable) for each in (502, 405))]
)
def test_a_refusal_becomes_one_of_our_errors_and_is_not_retried_inside(
    topic: PubsubTopic, service: FakeService, status: int, canonical: str, error: type[ProvisionerError]
) -> None:
    refuse(service, status, canonical)

    with pytest.raises(error, match=TOPIC) as caught:
        topic.publish(MESSAGES)

    assert type(caught.value) is error
    assert len(service.requests) == 1


@pytest.fixture
def grpc_service(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGrpc]:
    fake = FakeGrpc()
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", fake.start())
    yield fake
    fake.server.stop(grace=None).wait()


@pytest.mark.parametrize(("code", "error"), [(grpc.StatusCode[code], error) for _, code, error in REFUSALS])
def test_over_grpc_a_refusal_is_the_same_error_of_one_call_and_the_next_batch_is_stored(
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


@pytest.mark.parametrize("body", [b"<html>a proxy's page</html>", b"\xff", b"[]", b"{}", b'{"messageIds": 1}'])
def test_a_success_that_cannot_be_read_is_unavailable(
    topic: PubsubTopic, service: FakeService, body: bytes
) -> None:
    service.body = body

    with pytest.raises(Unavailable, match="answer cannot be read"):
        topic.publish(MESSAGES)
