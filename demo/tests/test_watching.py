"""A watch on a slow server: patience until it begins to answer, none for its silence afterwards."""

from __future__ import annotations

import json
import queue
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from demo.loop.observations import PoolsListed
from demo.loop.watching import ResourceWatch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATH = "/api/v1/pods"
SLOW_SECONDS = 0.8
"""Longer than a watch may be silent."""
SECONDS_MAX = 60


class SlowServer(BaseHTTPRequestHandler):
    """Lists nothing at once; answers a watch late, with one object."""

    def do_GET(self) -> None:
        if "watch=" not in self.path:
            self._answer({"metadata": {"resourceVersion": "1"}, "items": []})
        elif not self.server.ending.wait(SLOW_SECONDS):  # type: ignore[attr-defined]  # put there by the fixture
            body = {"metadata": {"uid": "u", "resourceVersion": "2"}}
            self._answer({"type": "ADDED", "object": body})

    def _answer(self, body: dict[str, Any]) -> None:
        with suppress(ConnectionError):  # whoever asked may have hung up
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode() + b"\n")

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), SlowServer)
    server.ending = threading.Event()  # type: ignore[attr-defined]  # read by the handlers
    threading.Thread(target=server.serve_forever, daemon=True).start()
    path = tmp_path / "kubeconfig"
    clusters = [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}]
    contexts = [{"name": "c", "context": {"cluster": "c", "user": "u"}}]
    users = [{"name": "u", "user": {}}]
    said = {"clusters": clusters, "contexts": contexts, "users": users, "current-context": "c"}
    path.write_text(json.dumps(said))
    yield path
    server.ending.set()  # type: ignore[attr-defined]  # as above
    server.shutdown()
    server.server_close()


def test_a_server_that_begins_to_answer_late_is_heard_all_the_same(kubeconfig: Path) -> None:
    seen: queue.SimpleQueue[object] = queue.SimpleQueue()
    watch = ResourceWatch(str(kubeconfig), PATH, lambda _body, at, **_: PoolsListed(at=at), seen.put)
    watch.start()

    assert isinstance(seen.get(timeout=SECONDS_MAX), PoolsListed)

    watch.end()
    watch.join(SECONDS_MAX)
    assert not watch.is_alive()
