"""A small HTTP server in a thread, for parts of the cloud in the demo's own process."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from standins.processes.free_ports import HOST

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping
    from typing import Self


@dataclass(frozen=True, slots=True)
class Asked:
    """A request."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    method: str = "GET"


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered."""

    status: int
    body: bytes = b""
    kind: str = "application/json"


class LocalAnswers:
    """A server on a port of 127.0.0.1 while its ``with`` block runs.

    Args:
        answer: Called for each request, in a thread of its own.
        port: Where it listens; 0 takes a free one.
        tls: What it shows to those who call it by HTTPS; None serves HTTP.
    """

    def __init__(
        self, answer: Callable[[Asked], Answer], port: int = 0, *, tls: ssl.SSLContext | None = None
    ) -> None:
        self._server = _Server((HOST, port), type("Answering", (_Handler,), {"answer": staticmethod(answer)}))
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.address = f"{HOST}:{self._server.server_address[1]}"
        self.url = f"{'https' if tls else 'http'}://{self.address}"

    def __enter__(self) -> Self:
        serve = {"poll_interval": 0.05}
        threading.Thread(target=self._server.serve_forever, kwargs=serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @staticmethod
    def answer(asked: Asked) -> Answer:
        """Return the answer; each server has its own."""
        raise NotImplementedError(asked.path)

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        said = self.answer(Asked(self.path, dict(self.headers), self.rfile.read(length), self.command))
        self.send_response(said.status)
        self.send_header("Content-Type", said.kind)
        # The mark by which Google's libraries know a metadata server.
        self.send_header("Metadata-Flavor", "Google")
        self.send_header("Content-Length", str(len(said.body)))
        self.end_headers()
        self.wfile.write(said.body)

    do_POST = do_PUT = do_GET  # noqa: N815 -- the name that http.server calls

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- as in http.server
        """Say nothing."""
