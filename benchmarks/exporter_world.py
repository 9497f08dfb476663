"""The other side of the exporter, as one process: a Kubernetes API to list and watch, a Pub/Sub that counts.

Answers are prepared bytes and cost next to nothing, so that what is measured is the exporter. Selectors are not
evaluated: the process is told how many pods they would let through. A control port tells what has arrived, and
sends events at a steady rate.
"""

from __future__ import annotations

import argparse
import json
import queue
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import grpc
from google.pubsub_v1.types import PublishRequest, PublishResponse

from benchmarks import sample_objects
from benchmarks.local_http import HOST, Answer, Handler, LocalServer

if TYPE_CHECKING:
    from benchmarks.sample_objects import Template

_WAIT_SECONDS = 60.0
_LIST_VERSION = 1_000_000


class Listed:
    """One kind of object: what a list shows page by page, and the open watch."""

    def __init__(self, kinds: tuple[tuple[int, Template], ...]) -> None:
        """Prepare `count` objects of each template, in this order."""
        self._kinds = kinds
        self.count = sum(count for count, _ in kinds)
        self.events: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.watched = threading.Event()

    def page(self, query: dict[str, list[str]]) -> bytes:
        """Return the JSON of one page."""
        start, limit = int(query.get("continue", ["0"])[0]), int(query["limit"][0])
        end = min(start + limit, self.count)
        metadata = {"resourceVersion": str(_LIST_VERSION), "continue": str(end) if end < self.count else ""}
        items = b",".join(self._make(number) for number in range(start, end))
        return b'{"kind":"List","metadata":%b,"items":[%b]}' % (json.dumps(metadata).encode(), items)

    def _make(self, number: int) -> bytes:
        first = 0
        for count, template in self._kinds:
            if number < first + count:
                return template.make(number)
            first += count
        raise IndexError(number)


class World:
    """Everything that this process knows."""

    def __init__(self, fresh: int, waiting: int, jobsets: int, completed: int) -> None:
        leaders = ((fresh, sample_objects.fresh_leader()), (waiting, sample_objects.waiting_leader()))
        workloads = (
            (jobsets - completed, sample_objects.running_jobset()),
            (completed, sample_objects.completed_jobset()),
        )
        self.listed = {"pods": Listed(leaders), "jobsets": Listed(workloads)}
        self.due = waiting + completed
        self._waiting, self._first_waiting, self._next_pod = waiting, fresh, fresh + waiting
        self._published = 0
        self._changed = threading.Condition()
        self._version = _LIST_VERSION

    def publish(self, request: bytes, _context: Any) -> bytes:
        """Take one batch over gRPC and acknowledge it."""
        ids = self._take(len(PublishRequest.pb().FromString(request).messages))
        return bytes(PublishResponse.serialize(PublishResponse(message_ids=ids)))

    def answer_pubsub(self, _method: str, _path: str, body: bytes) -> Answer:
        """Take one batch over REST and acknowledge it."""
        return 200, json.dumps({"messageIds": self._take(len(json.loads(body)["messages"]))}).encode()

    def _take(self, count: int) -> list[str]:
        with self._changed:
            first, self._published = self._published, self._published + count
            self._changed.notify_all()
        return [str(first + each) for each in range(count)]

    def answer_kubernetes(self, method: str, path: str, body: bytes) -> Answer:
        """Answer lists and leases; every lease write succeeds."""
        parts = urlsplit(path)
        if "/leases" in parts.path:
            if method == "GET":
                return 404, b'{"kind":"Status","code":404,"reason":"NotFound"}'
            lease = json.loads(body)
            lease["metadata"]["resourceVersion"] = "1"
            return 200, json.dumps(lease).encode()
        return 200, self.listed[parts.path.rsplit("/", 1)[-1]].page(parse_qs(parts.query))

    def answer_control(self, _method: str, path: str, body: bytes) -> Answer:
        """Answer the benchmark: the state, or what was sent and when once all of it was published."""
        if path == "/state":
            watched = all(each.watched.is_set() for each in self.listed.values())
            return 200, json.dumps({"synced": watched and self._published >= self.due}).encode()
        return 200, json.dumps(self.emit(**json.loads(body))).encode()

    def emit(self, *, changes: int, demands: int, per_second: float) -> dict[str, float]:
        """Send changes of known pods at once, then new demands at a rate; return when each demand was sent.

        Raises:
            TimeoutError: not all demands were published in time.
        """
        pods, template = self.listed["pods"], sample_objects.waiting_leader()
        for number in range(changes):
            pods.events.put(
                self._event(b"MODIFIED", template, self._first_waiting + number % max(1, self._waiting))
            )
        sent: dict[str, float] = {}
        began = time.monotonic()
        for number in range(demands):
            time.sleep(max(0.0, began + number / per_second - time.monotonic()))
            line = self._event(b"ADDED", template, self._next_pod)
            sent[sample_objects.pod_uid(self._next_pod)] = time.time()
            pods.events.put(line)
            self._next_pod += 1
        self.due += demands
        with self._changed:
            if not self._changed.wait_for(lambda: self._published >= self.due, _WAIT_SECONDS):
                raise TimeoutError(f"{self._published} of {self.due} events published after {_WAIT_SECONDS:g} s")
        return sent

    def _event(self, kind: bytes, template: Template, number: int) -> bytes:
        self._version += 1
        return b'{"type":"%b","object":%b}\n' % (kind, template.make(number, self._version))


class _KubernetesHandler(Handler):
    """Adds watches, which never end by themselves, to plain answers."""

    world: World

    def do_GET(self) -> None:  # noqa: N802 -- the name that http.server calls
        parts = urlsplit(self.path)
        if "watch=1" not in parts.query:
            super().do_GET()
            return
        listed = self.world.listed[parts.path.rsplit("/", 1)[-1]]
        self.send_response_only(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        listed.watched.set()
        while True:
            line = listed.events.get()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
            self.wfile.flush()


def serve(world: World, ports_file: Path) -> None:
    """Serve until SIGTERM; write the addresses once everything listens."""
    server = grpc.server(ThreadPoolExecutor(2))
    handler = grpc.unary_unary_rpc_method_handler(world.publish)
    methods = {"Publish": handler}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("google.pubsub.v1.Publisher", methods),))
    port = server.add_insecure_port(f"{HOST}:0")
    server.start()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    bound = type("BoundHandler", (_KubernetesHandler,), {"world": world})
    with (
        LocalServer(world.answer_kubernetes, bound) as kubernetes,
        LocalServer(world.answer_control) as control,
        LocalServer(world.answer_pubsub) as pubsub,
    ):
        addresses = {
            "kubernetes": kubernetes.url,
            "control": control.url,
            "pubsub_grpc": f"{HOST}:{port}",
            "pubsub_rest": pubsub.url,
        }
        draft = ports_file.with_suffix(".part")
        draft.write_text(json.dumps(addresses), encoding="utf-8")
        draft.replace(ports_file)
        stop.wait()
    server.stop(grace=None)


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fresh", type=int, required=True, help="pods in the watch that are no demand yet")
    parser.add_argument("--waiting", type=int, required=True, help="pods in the watch that are unschedulable")
    parser.add_argument("--jobsets", type=int, required=True, help="JobSets")
    parser.add_argument("--completed", type=int, required=True, help="how many of them are over")
    parser.add_argument("--ports-file", type=Path, required=True, help="where to write the addresses")
    options = parser.parse_args()
    serve(World(options.fresh, options.waiting, options.jobsets, options.completed), options.ports_file)


if __name__ == "__main__":
    main()
