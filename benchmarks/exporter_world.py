"""The exporter's other side, one process: a Kubernetes API to list and watch, a counting Pub/Sub.

Answers are prepared bytes and cost next to nothing, so that what is measured is the exporter. All
pods wait for a node, as its field selector asks; label selectors are evaluated, once for each kind
of object and list. A control port tells what has arrived, and sends events at a steady rate.
"""

import json
import queue
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import grpc
from google.pubsub_v1.types import PublishRequest, PublishResponse

from benchmarks.samples import Template, completed_jobset, jobset_uid, sample_of
from shared.kinds.table import KIND_NAMES
from standins.cluster.reads import parse_labels
from standins.kit.addresses import HOST, write_ports
from standins.kit.fitting import meets
from standins.kit.local_answers import Answer, Asked, Handler, LocalAnswers

_WAIT_SECONDS = 60.0
_LIST_VERSION = 1_000_000


@dataclass(frozen=True, slots=True)
class Objects:
    """Some equal objects, numbered from `first` on."""

    template: Template
    first: int
    count: int


class Listed:
    """What one list with its selector shows page by page, and the open watch of it."""

    def __init__(self, objects: Sequence[Objects]) -> None:
        """Prepare the objects, in this order."""
        self._objects = objects
        self.count = sum(each.count for each in objects)
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
        for each in self._objects:
            if number < each.count:
                return each.template.make(each.first + number)
            number -= each.count
        raise IndexError(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """How many objects there are of each kind."""

    fresh: int  # pods that are no demand yet, because the selectors filter nothing
    waiting: int
    workloads: int
    completed: int  # JobSets that are over, beside the others
    watches: int  # how many watches the exporter opens


def list_objects(numbers: Numbers) -> dict[str, list[Objects]]:
    """Return all objects by the end of their list's path."""
    pods: list[Objects] = []
    lists: dict[str, list[Objects]] = {"pods": pods}
    for place, kind in enumerate(KIND_NAMES):
        sample, first = sample_of(kind), place * (numbers.fresh + numbers.waiting)
        pods.append(Objects(sample.fresh, first, numbers.fresh))
        pods.append(Objects(sample.waiting, first + numbers.fresh, numbers.waiting))
        if sample.path:
            lists[sample.path] = [Objects(sample.running, 0, numbers.workloads)]
    lists["jobsets"].append(Objects(completed_jobset(), numbers.workloads, numbers.completed))
    return lists


class World:
    """Everything that this process knows."""

    def __init__(self, numbers: Numbers) -> None:
        self._objects = list_objects(numbers)
        self._listed: dict[tuple[str, str], Listed] = {}
        self._listing = threading.Lock()
        self._watches = numbers.watches
        self.due = numbers.waiting * len(KIND_NAMES) + numbers.completed
        self._next_pod = (numbers.fresh + numbers.waiting) * len(KIND_NAMES)
        self._published = 0
        self._changed = threading.Condition()
        self._version = _LIST_VERSION

    def publish(self, request: bytes, _context: Any) -> bytes:
        """Take one batch over gRPC and acknowledge it."""
        count = len(PublishRequest.pb().FromString(request).messages)
        with self._changed:
            first, self._published = self._published, self._published + count
            self._changed.notify_all()
        ids = [str(first + each) for each in range(count)]
        return bytes(PublishResponse.serialize(PublishResponse(message_ids=ids)))

    def answer_kubernetes(self, asked: Asked) -> Answer:
        """Answer lists and leases; every lease write succeeds."""
        parts = urlsplit(asked.path)
        if "/leases" in parts.path:
            if asked.method == "GET":
                return Answer(404, b'{"kind":"Status","code":404,"reason":"NotFound"}')
            lease = json.loads(asked.body)
            lease["metadata"]["resourceVersion"] = "1"
            return Answer(200, json.dumps(lease).encode())
        query = parse_qs(parts.query)
        return Answer(200, self.find_list(parts.path, query).page(query))

    def find_list(self, path: str, query: dict[str, list[str]]) -> Listed:
        """Return what a list, or the watch of it, shows."""
        name, selector = path.rsplit("/", 1)[-1], query.get("labelSelector", [""])[0]
        with self._listing:
            found = self._listed.get((name, selector))
            if found is None:
                wanted = parse_labels(selector)
                mine = [each for each in self._objects.get(name, ()) if meets(each.template.labels, wanted)]
                found = self._listed[name, selector] = Listed(mine)
            return found

    def answer_control(self, asked: Asked) -> Answer:
        """Answer the benchmark: the state, or what was sent and when, once all is published."""
        if asked.path == "/state":
            watched = sum(each.watched.is_set() for each in self._listed.values()) >= self._watches
            return Answer(200, json.dumps({"synced": watched and self._published >= self.due}).encode())
        return Answer(200, json.dumps(self.emit(**json.loads(asked.body))).encode())

    def emit(self, *, changes: int, demands: int, per_second: float) -> dict[str, float]:
        """Send known pods' changes at once, then new demands at a rate; return when each was sent.

        Raises TimeoutError: not all demands were published in time.
        """
        template = sample_of("JobSet").waiting
        (pods,) = (
            listed
            for (name, selector), listed in self._listed.items()
            if name == "pods" and meets(template.labels, parse_labels(selector))
        )
        # The second objects are those that wait, of the first kind.
        known = self._objects["pods"][1]
        for number in range(changes):
            pods.events.put(self._event(b"MODIFIED", template, known.first + number % known.count))
        sent: dict[str, float] = {}
        began = time.monotonic()
        for number in range(demands):
            time.sleep(max(0.0, began + number / per_second - time.monotonic()))
            line = self._event(b"ADDED", template, self._next_pod)
            # The message names the pod's JobSet.
            sent[jobset_uid(self._next_pod)] = time.time()
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
        listed = self.world.find_list(parts.path, parse_qs(parts.query))
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
        LocalAnswers(world.answer_kubernetes, handler=bound) as kubernetes,
        LocalAnswers(world.answer_control) as control,
    ):
        write_ports(
            ports_file, {"kubernetes": kubernetes.url, "control": control.url, "pubsub_grpc": f"{HOST}:{port}"}
        )
        stop.wait()
    server.stop(grace=None)


if __name__ == "__main__":
    serve(World(Numbers(**json.loads(sys.argv[1]))), Path(sys.argv[2]))
