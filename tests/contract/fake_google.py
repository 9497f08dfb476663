"""A Google that gives tokens in each of its ways, and is GKE and a cluster too."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

LIFETIME_SECONDS = 3599


class FakeGoogle(ThreadingHTTPServer):
    """Gives tokens that count up, in each of Google's ways, and is GKE and a cluster too."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), FakeGoogleAnswers)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.status = 200
        self.body: bytes | None = None
        self.lifetime_seconds = LIFETIME_SECONDS
        self.tokens: list[str] = []
        self.identities: dict[str, str] = {}


class FakeGoogleAnswers(BaseHTTPRequestHandler):
    server: FakeGoogle

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urlsplit(self.path).path
        token = path.endswith((":generateAccessToken", "/token"))
        if token:
            self.server.tokens.append(self.path)
        status = self.server.status if token else 200
        body = json.dumps(self._find(path)).encode()
        self.send_response(status)
        self.send_header("Metadata-Flavor", "Google")
        self.send_header("Content-Type", "application/json")
        body = self.server.body if token and self.server.body is not None else body
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _find(self, path: str) -> dict[str, Any]:
        if path.endswith(":generateAccessToken"):
            assert self.headers["Authorization"] == "Bearer token-1"
            return {"accessToken": "impersonated", "expireTime": "2999-01-01T00:00:00Z"}
        if path.endswith("/token"):
            issued = "urn:ietf:params:oauth:token-type:access_token"
            given = {"access_token": f"token-{len(self.server.tokens)}", "issued_token_type": issued}
            return given | {"expires_in": self.server.lifetime_seconds, "token_type": "Bearer"}
        if path == "/" or path.startswith("/computeMetadata/"):
            return {"email": "functions@p.iam.gserviceaccount.com", "scopes": []}
        self.server.identities[path] = self.headers.get("Authorization", "")
        return {"metadata": {"uid": "u-1"}}

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def fake_google() -> Iterator[FakeGoogle]:
    """Serve until the block ends."""
    fake = FakeGoogle()
    thread = threading.Thread(target=fake.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield fake
    finally:
        fake.shutdown()
        thread.join()
        fake.server_close()
