"""The HTTP server of the benchmarks' stand-ins: threads, kept connections, one write per answer."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

HOST = "127.0.0.1"
Answer = tuple[int, bytes]


class Handler(BaseHTTPRequestHandler):
    """Reads a request, asks `answer`, writes what it says."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    # Head and body leave in one segment; otherwise delayed acknowledgements add 40 ms to every
    # answer.
    wbufsize = 64 * 1024

    def answer(self, method: str, path: str, body: bytes) -> Answer:
        """Return status and JSON body; the stand-in says which."""
        raise LookupError(f"{method} {path} ({len(body)} bytes): no stand-in was given to this server")

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        status, body = self.answer(self.command, self.path, self.rfile.read(length) if length else b"")
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        # The mark by which Google's own libraries know a metadata server.
        self.send_header("Metadata-Flavor", "Google")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 -- as above

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the signature of http.server
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64


class LocalServer:
    """A server on a free port of 127.0.0.1 while its ``with`` block runs."""

    def __init__(self, answer: Callable[[str, str, bytes], Answer], handler: type[Handler] = Handler) -> None:
        ask = {"answer": lambda _self, method, path, body: answer(method, path, body)}
        self._server = _Server((HOST, 0), type("AnsweringHandler", (handler,), ask))
        self.address = f"{HOST}:{self._server.server_address[1]}"
        self.url = f"http://{self.address}"

    def __enter__(self) -> Self:
        serve = {"poll_interval": 0.05}
        threading.Thread(target=self._server.serve_forever, kwargs=serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
