"""A Kubernetes API that plays back what a test wrote down: real sockets, scripted answers.

Leases really work.

Answers are data: a `Listing`, a `Refusal`, or for watches a `Stream` of events and an ending.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict, deque
from dataclasses import dataclass, field
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
    headers: dict[str, str]
    body: Any = None

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "1"

    @property
    def asks_for_version(self) -> bool:
        return self.query == {"limit": "1"}


@dataclass
class ScriptedKubernetes:
    """What to answer, by kind of request and plural of the resource; the last answer repeats."""

    lists: dict[str, deque[Any]] = field(default_factory=lambda: defaultdict(deque))
    watches: dict[str, deque[Any]] = field(default_factory=lambda: defaultdict(deque))
    present_version: str = "1000000"
    """Answer to the question for the present version, which counts as neither list nor watch."""
    requests: list[Request] = field(default_factory=list)
    leases: dict[str, dict[str, Any]] = field(default_factory=dict)
    lease_refusals: deque[Refusal] = field(default_factory=deque)
    deleted: list[Any] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def start(self, port: int = 0) -> ScriptedKubernetes:
        scripted = type("Scripted", (_Handler,), {"script": self})
        self.server = LocalAnswers(lambda _asked: Answer(501), port, handler=scripted).__enter__()
        self.port, self.url = self.server.port, self.server.url
        return self

    def stop(self) -> None:
        self.closing.set()
        self.server.__exit__()

    def asked(self, plural: str, *, watch: bool) -> list[Request]:
        return [
            each
            for each in self.requests
            if each.path.endswith(plural) and each.is_watch is watch and not each.asks_for_version
        ]

    def wait_for_requests(self, plural: str, count: int, *, watch: bool) -> list[Request]:
        with self.changed:
            done = self.changed.wait_for(lambda: len(self.asked(plural, watch=watch)) >= count, PATIENCE_SECONDS)
        assert done, f"fewer than {count} {plural} requests: {self.requests}"
        return self.asked(plural, watch=watch)

    def next_answer(self, request: Request) -> Any:
        plural = request.path.rsplit("/", 1)[-1]
        with self.changed:
            self.requests.append(request)
            self.changed.notify_all()
            if request.asks_for_version:
                return Listing(version=self.present_version)
            answers = (self.watches if request.is_watch else self.lists)[plural]
            if not answers:
                return Stream() if request.is_watch else Refusal(404, "NotFound")
            return answers.popleft() if len(answers) > 1 else answers[0]


class _Handler(Handler):
    script: ScriptedKubernetes
    wbufsize = 0  # an event of a stream leaves at once

    def do_GET(self) -> None:  # noqa: N802 -- the name that http.server calls
        request = self._request()
        if "/leases/" in request.path:
            return self._lease(request)
        answer = self.script.next_answer(request)
        if isinstance(answer, Refusal):
            return self._refuse(answer)
        if isinstance(answer, Stream):
            return self._stream(answer)
        return self._json(
            200,
            {
                "kind": "List",
                "metadata": {"resourceVersion": answer.version, "continue": answer.next_page},
                "items": list(answer.items),
            },
        )

    def do_PUT(self) -> None:  # noqa: N802 -- as above
        self._lease(self._request())

    do_POST = do_PUT  # noqa: N815 -- as above

    def do_DELETE(self) -> None:  # noqa: N802 -- as above
        self.script.deleted.append(self._request().body)
        self._refuse(Refusal(404, "NotFound"))

    def _request(self) -> Request:
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        return Request(
            method=self.command,
            path=parts.path,
            query={key: values[0] for key, values in parse_qs(parts.query, keep_blank_values=True).items()},
            headers=dict(self.headers.items()),
            body=json.loads(self.rfile.read(length)) if length else None,
        )

    def _lease(self, request: Request) -> None:
        """Keep leases as the API server does: a write must carry the version that is stored."""
        script = self.script
        with script.changed:
            script.requests.append(request)
            if script.lease_refusals:
                return self._refuse(script.lease_refusals.popleft())
            name = request.body["metadata"]["name"] if request.body else request.path.rsplit("/", 1)[-1]
            stored = script.leases.get(name)
            if request.method == "POST" and stored:
                return self._refuse(Refusal(409, "AlreadyExists"))
            if request.method != "POST" and not stored:
                return self._refuse(Refusal(404, "NotFound"))
            if request.method == "GET":
                return self._json(200, stored)
            version = request.body["metadata"].get("resourceVersion", "")
            if request.method == "PUT" and stored and version != stored["metadata"]["resourceVersion"]:
                return self._refuse(Refusal(409, "Conflict"))
            metadata = request.body["metadata"] | {"resourceVersion": str(len(script.requests))}
            script.leases[name] = request.body | {"metadata": metadata}
            script.changed.notify_all()
            return self._json(200, script.leases[name])

    def _refuse(self, refusal: Refusal) -> None:
        body = {
            "kind": "Status",
            "status": "Failure",
            "code": refusal.code,
            "reason": refusal.reason,
            "message": refusal.message,
        }
        self._json(refusal.code, body, refusal.retry_after)

    def _json(self, code: int, body: Any, retry_after: str = "") -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if retry_after:
            self.send_header("Retry-After", retry_after)
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, stream: Stream) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
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


def gone_in_stream() -> dict[str, Any]:
    return event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
