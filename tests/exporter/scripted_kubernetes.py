"""A Kubernetes API that plays back what a test wrote down: real sockets, scripted answers.

Leases really work. Answers are data: a `Listing`, a `Refusal`, or for watches a `Stream` of events
and an ending.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from shared.edges.connection import Connection
from shared.edges.kubernetes import KubernetesApi
from standins.kit.local_answers import Asked
from standins.kit.processes import PATIENCE_SECONDS
from tests.raw_server import RawServer, answer

END, CUT, HANG = "end", "cut", "hang"
"""How a stream ends: properly, by a broken connection, or not before the server does."""
SAID = "as the script says"  # in each refusal


class Listing(NamedTuple):
    items: tuple[dict[str, Any], ...] = ()
    version: str = "100"
    next_page: str = ""


class Refusal(NamedTuple):
    code: int
    reason: str = ""
    retry_after: str = ""


class Stream(NamedTuple):
    events: tuple[dict[str, Any] | str, ...] = ()
    """Events; a text is sent as it is, without an end of line."""
    ending: str = HANG


class Request(NamedTuple):
    method: str
    path: str
    query: dict[str, str]
    body: Any


class ScriptedKubernetes(RawServer):
    """What to answer, by kind of request and plural of the resource; the last answer repeats."""

    def __init__(self) -> None:
        self.lists: dict[str, deque[Any]] = defaultdict(deque)
        self.watches: dict[str, deque[Any]] = defaultdict(deque)
        self.present_version = "1000000"
        """Answer to the question for the present version, which is neither list nor watch."""
        self.requests: list[Request] = []
        self.leases: dict[str, dict[str, Any]] = {}
        self.lease_refusals: deque[Refusal | None] = deque()
        """Of the next requests for Leases; None lets one pass."""
        self.closing, self.changed = threading.Event(), threading.Condition()
        super().__init__(self._reply)
        self.api = KubernetesApi(Connection(url=self.url), timeout_seconds=10)

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        super().__exit__()

    def asked(self, plural: str, *, watch: bool) -> list[Request]:
        return [
            each
            for each in self.requests
            if each.path.endswith(plural) and ("watch" in each.query) is watch and each.query != {"limit": "1"}
        ]

    def wait_for_requests(self, plural: str, count: int, *, watch: bool) -> list[Request]:
        with self.changed:
            done = self.changed.wait_for(lambda: len(self.asked(plural, watch=watch)) >= count, PATIENCE_SECONDS)
        assert done, f"fewer than {count} {plural} requests: {self.requests}"
        return self.asked(plural, watch=watch)

    def _reply(self, asked: Asked) -> Iterable[bytes]:
        parts, body = urlsplit(asked.path), json.loads(asked.body or "null")
        request = Request(asked.method, parts.path, dict(parse_qsl(parts.query, keep_blank_values=True)), body)
        found = self._choose(request)
        if body and asked.headers["Content-Type"] != "application/json":
            found = Refusal(415, "UnsupportedMediaType")
        if isinstance(found, Stream):
            return self._stream(found)
        if isinstance(found, Refusal):
            pause = f"\r\nRetry-After: {found.retry_after}" if found.retry_after else ""
            words = {"kind": "Status", "code": found.code, "reason": found.reason, "message": SAID}
            return answer(json.dumps(words).encode(), f"{found.code} Refused{pause}")
        if isinstance(found, Listing):
            metadata = {"resourceVersion": found.version, "continue": found.next_page}
            found = {"kind": "List", "metadata": metadata, "items": found.items}
        return answer(json.dumps(found).encode())

    def _choose(self, request: Request) -> Any:
        """Return the next answer of the script; of a Lease the JSON that is kept."""
        with self.changed:
            self.requests.append(request)
            self.changed.notify_all()
            if "/leases" in request.path:
                refusal = self.lease_refusals.popleft() if self.lease_refusals else None
                return refusal or self._keep_lease(request)
            if request.query == {"limit": "1"}:
                return Listing(version=self.present_version)
            watch = "watch" in request.query
            answers = (self.watches if watch else self.lists)[request.path.rpartition("/")[2]]
            if not answers:
                return Stream() if watch else Refusal(404, "NotFound")
            return answers.popleft() if len(answers) > 1 else answers[0]

    def _keep_lease(self, request: Request) -> Any:
        """Keep leases as the API server does: a write must carry the version that is stored."""
        metadata = request.body["metadata"] if request.body else {}
        name = metadata.get("name", request.path.rpartition("/")[2])
        stored = self.leases.get(name)
        if (stored is not None) == (request.method == "POST"):
            return Refusal(409, "AlreadyExists") if stored else Refusal(404, "NotFound")
        if request.method == "GET":
            return stored
        if stored and metadata.get("resourceVersion") != stored["metadata"]["resourceVersion"]:
            return Refusal(409, "Conflict")
        version = {"resourceVersion": str(len(self.requests))}
        self.leases[name] = request.body | {"metadata": metadata | version}
        return self.leases[name]

    def _stream(self, stream: Stream) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        for event in stream.events:
            data = event.encode() if isinstance(event, str) else json.dumps(event).encode() + b"\n"
            yield b"%x\r\n%b\r\n" % (len(data), data)
        if stream.ending == END:
            yield b"0\r\n\r\n"
            return
        if stream.ending == HANG:
            self.closing.wait(120)
        raise ConnectionAbortedError


def event(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": body}


def bookmark(version: str) -> dict[str, Any]:
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": version}})
