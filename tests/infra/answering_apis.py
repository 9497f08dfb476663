"""A small server with fixed answers, for APIs that the mock of Google Cloud does not have."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class AnsweringApis(ThreadingHTTPServer):
    """Answers by path, or by the constraint that a question about a policy names."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.answers: dict[str, Any] = {}
        """What is returned; an int is the status of a refusal. Unknown paths are 404."""
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answering(BaseHTTPRequestHandler):
    server: AnsweringApis

    def _answer(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        name = sent.get("constraint") or self.path.partition("?")[0]
        self.server.asked.append(name)
        found = self.server.answers.get(name, 404)
        status = found if isinstance(found, int) else 200
        refusal = {"error": {"code": status, "message": f"{name}: refused"}}
        body = json.dumps(refusal if isinstance(found, int) else found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer  # noqa: N815 -- the names that http.server calls

    def log_message(self, *_args: object) -> None:
        """Say nothing on standard error."""


@contextmanager
def answering_apis() -> Iterator[AnsweringApis]:
    """Serve until the block ends."""
    server = AnsweringApis()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
