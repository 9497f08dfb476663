"""A small HTTP server in a thread: for tests, and for small parts of the cloud."""

import ssl
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self

import httpx

from standins.kit.addresses import HOST


@dataclass(frozen=True, slots=True)
class Asked:
    """A request."""

    path: str
    headers: Mapping[str, str]  # their names have no case where a request really came
    body: bytes
    method: str = "GET"


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered."""

    status: int
    body: bytes = b""
    kind: str = "application/json"


class Handler(BaseHTTPRequestHandler):
    """Reads a request, asks `answer`, and writes what it says."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    # Head and body leave in one segment, because delayed acknowledgements add 40 ms otherwise.
    wbufsize = 64 * 1024

    answer: "ClassVar[staticmethod[[Asked], Answer]]"  # of its server

    def do_GET(self) -> None:
        """Answer a request; every other method is answered so too."""
        length = int(self.headers.get("Content-Length") or 0)
        answer = self.answer(
            Asked(self.path, httpx.Headers(self.headers.items()), self.rfile.read(length), self.command)
        )
        self.send_response_only(answer.status)
        self.send_header("Content-Type", answer.kind)
        # The mark by which Google's libraries know a metadata server.
        self.send_header("Metadata-Flavor", "Google")
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 -- the name that http.server calls

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # some clients go, and tests are about that
            super().handle_error(request, client_address)


class LocalAnswers:
    """A server on a port of 127.0.0.1 while its ``with`` block runs.

    Args:
        answer: Called for each request, in a thread of its own.
        port: Where it listens; 0 takes a free one.
        tls: What it shows to those who call it by HTTPS; None serves HTTP.
        handler: Reads the requests; another one can answer in its own way.
    """

    def __init__(
        self,
        answer: Callable[[Asked], Answer],
        port: int = 0,
        *,
        tls: ssl.SSLContext | None = None,
        handler: type[Handler] = Handler,
    ) -> None:
        self._server = _Server((HOST, port), type("Answering", (handler,), {"answer": staticmethod(answer)}))
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.server_address[1]
        self.address = f"{HOST}:{self.port}"
        self.url = f"{'https' if tls else 'http'}://{self.address}"

    def __enter__(self) -> Self:
        serve = {"poll_interval": 0.02}
        threading.Thread(target=self._server.serve_forever, kwargs=serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
