"""A Kubernetes API that plays back what a test wrote down: real sockets, scripted answers.

Leases really work. Answers are data: a `Listing`, a `Refusal`, or for watches a `Stream` of events
and an ending.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from standins.kit.local_answers import Answer, Handler, LocalAnswers
from standins.kit.processes import PATIENCE_SECONDS

END, CUT, HANG = "end", "cut", "hang"
"""How a stream ends: properly, by a broken connection, or not before the server does."""


@dataclass(frozen=True)
class Listing:
    items: tuple[dict[str, Any], ...] = ()
    version: str = "100"
    next_page: str = ""


@dataclass(frozen=True)
class Refusal:
    code: int
    reason: str = ""
    message: str = "as the script says"
    retry_after: str = ""


@dataclass(frozen=True)
class Stream:
    events: tuple[dict[str, Any] | str, ...] = ()
    """Events; a text is sent as it is, without an end of line."""
    ending: str = HANG


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    content_type: str = ""
    body: Any = None


class ScriptedKubernetes:
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
        scripted = type("Scripted", (_Handler,), {"script": self})
        self.server = LocalAnswers(lambda _asked: Answer(501), handler=scripted).__enter__()
        self.url = self.server.url

    def stop(self) -> None:
        self.closing.set()
        self.server.__exit__()

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

    def answer(self, request: Request) -> Any:
        """Return the next answer of the script; of a Lease the JSON that is kept."""
        with self.changed:
            self.requests.append(request)
            self.changed.notify_all()
            if request.body and request.content_type != "application/json":
                return Refusal(415, "UnsupportedMediaType")
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


class _Handler(Handler):
    script: ScriptedKubernetes
    wbufsize = 0  # an event of a stream leaves at once

    def do_GET(self) -> None:  # noqa: N802 -- the name that http.server calls
        parts, body = urlsplit(self.path), self.rfile.read(int(self.headers.get("Content-Length") or 0))
        query = {key: values[0] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
        kind = self.headers.get("Content-Type", "")
        answer = self.script.answer(
            Request(self.command, parts.path, query, kind, json.loads(body) if body else None)
        )
        if isinstance(answer, Stream):
            self._stream(answer)
        elif isinstance(answer, Refusal):
            words = {"kind": "Status", "code": answer.code, "reason": answer.reason, "message": answer.message}
            self._json(answer.code, words, answer.retry_after)
        elif isinstance(answer, Listing):
            metadata = {"resourceVersion": answer.version, "continue": answer.next_page}
            self._json(200, {"kind": "List", "metadata": metadata, "items": list(answer.items)})
        else:
            self._json(200, answer)

    do_POST = do_PUT = do_GET  # noqa: N815 -- as above

    def _json(self, code: int, body: Any, retry_after: str = "") -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        if retry_after:
            self.send_header("Retry-After", retry_after)
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, stream: Stream) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in stream.events:
            data = event.encode() if isinstance(event, str) else json.dumps(event).encode() + b"\n"
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        if stream.ending == END:
            self.wfile.write(b"0\r\n\r\n")
            return
        if stream.ending == HANG:
            self.script.closing.wait(120)
        self.close_connection = True


def event(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": body}


def bookmark(version: str) -> dict[str, Any]:
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": version}})
