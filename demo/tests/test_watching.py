"""A watch on a slow server: patience until it begins to answer, none for its silence afterwards."""

import json
import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demo.loop.observations import PoolsListed
from demo.loop.watching import ResourceWatch
from standins.processes.kubeconfig import render_kubeconfig
from standins.processes.local_answers import Answer, Asked, LocalAnswers

PATH = "/api/v1/pods"
SLOW_SECONDS = 0.8
"""Longer than a watch may be silent."""
SECONDS_MAX = 60


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """Reaches a server that lists nothing at once, and answers a watch late, with one object."""
    stopping = threading.Event()

    def answer(asked: Asked) -> Answer:
        fields: dict[str, Any] = {"metadata": {"resourceVersion": "1"}, "items": []}
        if "watch=" in asked.path:
            stopping.wait(SLOW_SECONDS)
            fields = {"type": "ADDED", "object": {"metadata": {"uid": "u", "resourceVersion": "2"}}}
        return Answer(200, json.dumps(fields).encode() + b"\n")

    with LocalAnswers(answer) as server:
        path = tmp_path / "kubeconfig"
        path.write_text(render_kubeconfig(server.url))
        yield path
        stopping.set()


def test_a_server_that_begins_to_answer_late_is_heard_all_the_same(kubeconfig: Path) -> None:
    seen: queue.SimpleQueue[object] = queue.SimpleQueue()
    watch = ResourceWatch(str(kubeconfig), PATH, lambda _body, at, **_: PoolsListed(at=at), seen.put)
    watch.start()

    assert isinstance(seen.get(timeout=SECONDS_MAX), PoolsListed)

    watch.end()
    watch.join(SECONDS_MAX)
    assert not watch.is_alive()
