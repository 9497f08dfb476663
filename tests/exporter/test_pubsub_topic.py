"""Does the edge to Pub/Sub translate every outcome? A real HTTP server that answers as it is told."""

from __future__ import annotations

import base64
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
import urllib3

from shared.core.errors import (
    Busy,
    Denied,
    InvalidRequest,
    NotFound,
    ProvisionerError,
    Throttled,
    Unavailable,
)
from shared.core.events import Message
from shared.edges.google_rest import GoogleRest
from shared.edges.pubsub_topic import PubsubTopic

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC = "projects/p/topics/t"
MESSAGES = [Message(b"{}", {"ce-id": "a"}), Message(b"\xff\x00", {"ce-id": "b"})]


class FakeService(ThreadingHTTPServer):
    """Answers every publish with what the test set."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), FakeServiceAnswers)
        self.status, self.body = 200, b""
        self.requests: list[tuple[str, dict[str, str], Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class FakeServiceAnswers(BaseHTTPRequestHandler):
    server: FakeService

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, dict(self.headers), asked))
        ids = {"messageIds": [str(number) for number in range(len(asked["messages"]))]}
        body = self.server.body or json.dumps(ids).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def service() -> Iterator[FakeService]:
    fake = FakeService()
    thread = threading.Thread(target=fake.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield fake
    fake.shutdown()
    thread.join()
    fake.server_close()


@pytest.fixture
def http() -> Iterator[urllib3.PoolManager]:
    with urllib3.PoolManager() as pool:
        yield pool


@pytest.fixture
def topic(service: FakeService, http: urllib3.PoolManager) -> PubsubTopic:
    return PubsubTopic(GoogleRest(service.url, http=http, token=lambda: "secret"), TOPIC)


def refuse(service: FakeService, status: int, canonical: str) -> None:
    service.status = status
    service.body = json.dumps({"error": {"code": status, "status": canonical, "message": "as told"}}).encode()


def test_a_batch_goes_out_in_one_request_and_its_ids_come_back(topic: PubsubTopic, service: FakeService):
    assert topic.publish(MESSAGES) == ["0", "1"]
    ((path, headers, asked),) = service.requests
    assert path == f"/v1/{TOPIC}:publish"
    assert headers["Authorization"] == "Bearer secret"
    assert [(base64.b64decode(each["data"]), each["attributes"]) for each in asked["messages"]] == [
        (each.data, each.attributes) for each in MESSAGES
    ]


@pytest.mark.parametrize(
    ("status", "canonical", "error"),
    [
        (404, "NOT_FOUND", NotFound),
        (403, "PERMISSION_DENIED", Denied),
        (401, "UNAUTHENTICATED", Denied),
        (429, "RESOURCE_EXHAUSTED", Throttled),
        (400, "INVALID_ARGUMENT", InvalidRequest),
        (400, "FAILED_PRECONDITION", Busy),
        (503, "UNAVAILABLE", Unavailable),
        (504, "DEADLINE_EXCEEDED", Unavailable),
        (500, "INTERNAL", Unavailable),
        (502, "", Unavailable),
        (499, "CANCELLED", Unavailable),
    ],
)
def test_a_refusal_becomes_one_of_our_errors_and_is_not_retried_inside(
    topic: PubsubTopic, service: FakeService, status: int, canonical: str, error: type[ProvisionerError]
):
    refuse(service, status, canonical)

    with pytest.raises(error, match=TOPIC) as caught:
        topic.publish(MESSAGES)

    assert type(caught.value) is error
    assert len(service.requests) == 1


def test_a_success_that_cannot_be_read_is_unavailable(topic: PubsubTopic, service: FakeService):
    service.body = b"<html>a proxy's page</html>"

    with pytest.raises(Unavailable, match="unexpected answer"):
        topic.publish(MESSAGES)


def test_a_server_that_is_not_there_is_unavailable(http: urllib3.PoolManager):
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"

    with pytest.raises(Unavailable):
        PubsubTopic(GoogleRest(url, http=http, token=None, timeout_seconds=1), TOPIC).publish(MESSAGES)


@pytest.mark.parametrize(("status", "canonical"), [(404, "NOT_FOUND"), (403, "PERMISSION_DENIED")])
def test_a_dead_letter_that_cannot_be_kept_is_handed_back_whatever_the_cause(
    topic: PubsubTopic, service: FakeService, status: int, canonical: str
):
    refuse(service, status, canonical)

    with pytest.raises(Unavailable, match="could not be kept"):
        topic.keep(MESSAGES[0])
