"""Does the account's token come from the metadata server, once, and again shortly before it ends?"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import pytest
import urllib3

from shared.core.errors import Denied, Unavailable
from shared.edges.google_access import HOST_VARIABLE, RENEW_BEFORE_SECONDS, SCOPES, google_token_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIFETIME_SECONDS = 3599


class FakeMetadata(ThreadingHTTPServer):
    """Gives tokens that count up."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), FakeMetadataAnswers)
        self.status = 200
        self.body: bytes | None = None
        self.asked: list[tuple[str, str]] = []


class FakeMetadataAnswers(BaseHTTPRequestHandler):
    server: FakeMetadata

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers["Metadata-Flavor"]))
        token = {"access_token": f"token-{len(self.server.asked)}", "expires_in": LIFETIME_SECONDS}
        body = json.dumps(token).encode() if self.server.body is None else self.server.body
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class StepClock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMetadata]:
    fake = FakeMetadata()
    thread = threading.Thread(target=fake.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv(HOST_VARIABLE, f"127.0.0.1:{fake.server_address[1]}")
    yield fake
    fake.shutdown()
    thread.join()
    fake.server_close()


@pytest.fixture
def clock() -> StepClock:
    return StepClock()


@pytest.fixture
def give_token(metadata: FakeMetadata, clock: StepClock) -> Iterator[Callable[[], str]]:
    assert metadata.asked == []
    with urllib3.PoolManager() as http:
        yield google_token_source(http, clock)


def test_a_token_is_asked_for_once_and_kept(give_token: Callable[[], str], metadata: FakeMetadata):
    assert [give_token(), give_token()] == ["token-1", "token-1"]
    ((asked, flavor),) = metadata.asked
    path, _, query = asked.partition("?")
    assert path == "/computeMetadata/v1/instance/service-accounts/default/token"
    assert set(parse_qs(query)["scopes"][0].split(",")) == set(SCOPES)
    assert flavor == "Google"


def test_a_token_is_renewed_shortly_before_it_ends(give_token: Callable[[], str], clock: StepClock):
    give_token()

    clock.now += LIFETIME_SECONDS - RENEW_BEFORE_SECONDS - 1
    assert give_token() == "token-1"
    clock.now += 1
    assert give_token() == "token-2"


@pytest.mark.parametrize(
    ("status", "error"), [(404, Denied), (403, Denied), (503, Unavailable), (429, Unavailable)]
)
def test_a_refusal_says_whether_a_person_or_a_retry_mends_it(
    give_token: Callable[[], str], metadata: FakeMetadata, status: int, error: type[Exception]
):
    metadata.status = status

    with pytest.raises(error, match=f"HTTP {status}"):
        give_token()


def test_a_failure_is_not_kept(give_token: Callable[[], str], metadata: FakeMetadata):
    metadata.status = 503
    with pytest.raises(Unavailable):
        give_token()

    metadata.status = 200

    assert give_token().startswith("token-")


def test_an_answer_that_is_no_token_is_unavailable(give_token: Callable[[], str], metadata: FakeMetadata):
    metadata.body = b"<html>"

    with pytest.raises(Unavailable, match="not a token"):
        give_token()


def test_a_machine_without_metadata_server_is_unavailable(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(HOST_VARIABLE, "127.0.0.1:9")
    with urllib3.PoolManager() as http, pytest.raises(Unavailable, match="metadata server"):
        google_token_source(http)()
