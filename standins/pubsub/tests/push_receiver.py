"""An HTTP endpoint that records pushes and answers as the test says."""

from __future__ import annotations

import base64
import http.server
import json
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from standins.processes.stand_ins import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Push:
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    body: bytes
    started: float
    ended: float = 0.0

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.body)
        return document

    @property
    def text(self) -> str:
        return base64.b64decode(self.document["message"].get("data", "")).decode()


@dataclass
class Receiver:
    """Answer every push with what `status_for` says (a status), after what `delay_for` says
    (seconds).
    """

    status_for: Callable[[Push], int] = lambda _: 200
    delay_for: Callable[[Push], float] = lambda _: 0.0
    pushes: list[Push] = field(default_factory=list)
    port: int = 0
    _server: http.server.ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/push"

    def start(self) -> None:
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                push = Push(self.path, headers, body, time.monotonic())
                receiver.pushes.append(push)
                gate.wait(receiver.delay_for(push))
                push.ended = time.monotonic()
                self.send_response(receiver.status_for(push))
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, *_: object) -> None:
                """A client that gave up is what some tests are about."""

        gate = threading.Event()
        self._gate = gate
        self._server = Server(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._gate.set()
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def wait_for(self, count: int, *, seconds: float = 30.0) -> list[Push]:
        wait_until(lambda: len(self.pushes) >= count, seconds=seconds, what=f"{count} pushes")
        return self.pushes
