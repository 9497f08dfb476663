"""An HTTP endpoint that records pushes and answers as the test says."""

import base64
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from standins.kit.local_answers import Answer, Asked, Handler, LocalAnswers
from standins.kit.processes import PATIENCE_SECONDS, wait_until


@dataclass
class Push:
    """One request as it arrived."""

    path: str
    headers: Mapping[str, str]
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


class _Closing(Handler):
    """Closes each connection, so that an endpoint that stops answers nobody."""

    protocol_version = "HTTP/1.0"


@dataclass
class Receiver:
    """Answer every push with what `status_for` says (a status), after what `delay_for` says
    (seconds).
    """

    status_for: Callable[[Push], int] = lambda _: 200
    delay_for: Callable[[Push], float] = lambda _: 0.0
    pushes: list[Push] = field(default_factory=list)
    port: int = 0
    _server: LocalAnswers | None = None
    _gate: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/push"

    def start(self) -> None:
        self._gate.clear()
        self._server = LocalAnswers(self._answer, self.port, handler=_Closing).__enter__()
        self.port = self._server.port

    def stop(self) -> None:
        if self._server is not None:
            self._gate.set()
            self._server.__exit__()
            self._server = None

    def _answer(self, asked: Asked) -> Answer:
        push = Push(asked.path, asked.headers, asked.body, time.monotonic())
        self.pushes.append(push)
        self._gate.wait(self.delay_for(push))
        push.ended = time.monotonic()
        return Answer(self.status_for(push))

    def wait_for(self, count: int, *, seconds: float = PATIENCE_SECONDS) -> list[Push]:
        wait_until(lambda: len(self.pushes) >= count, seconds=seconds, what=f"{count} pushes")
        return self.pushes
