"""The board: one page about a deployment, served to this computer only.

A page of another site must not read anything here. So the server is bound to 127.0.0.1, each
address needs the token of this run, and the Host header must be this server's own (against DNS
rebinding). Nothing can be changed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import socket
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from werkzeug import Request, Response
from werkzeug.serving import WSGIRequestHandler, make_server

from cli.access.log_search import DAY_SECONDS, read_answers
from cli.diagnosis.doctor import Result, check_lease
from cli.exit_codes import BadInput, noting
from cli.fleet.status import Status, Trouble, add_refusals, read_status, tell_left_alone
from cli.printing import short_cluster
from cli.usage.usage_command import describe_sums, list_pools, sum_up
from shared import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from wsgiref.types import StartResponse, WSGIEnvironment

    from cli.access.connections import Deployment
    from cli.access.log_search import Record


SLOW_FACTOR = 12
"""Logs and Leases are read once in so many: Cloud Logging answers 60 questions a minute."""


@dataclass(slots=True)
class Readings:
    """Reads a deployment again and again; what is slow to read is kept for some readings."""

    deployment: Deployment
    status: Status = field(default_factory=Status)  # that of the last reading
    _count: int = 0
    _answers: list[Record] = field(default_factory=list)
    """What the functions created or refused in the last day."""
    _silent: list[Trouble] = field(default_factory=list)
    _unread: list[str] = field(default_factory=list)
    _usage: dict[str, Any] = field(default_factory=dict)  # of today (UTC)

    def read(self) -> dict[str, Any]:
        """Return everything that the page shows. A source that fails is named in ``unread``."""
        ports = self.deployment.ports
        now = ports.clock.now()
        status = self.status = read_status(ports)
        if self._count % SLOW_FACTOR == 0:
            self._read_slowly(now)
        self._count += 1
        add_refusals(status, self._answers)
        troubles = [asdict(each) for each in (*self._silent, *status.troubles)]
        return {
            "now": now,
            "version": VERSION,
            "clusters": list(ports.clusters),
            "status": status.as_data() | {"troubles": troubles},
            "left_alone": tell_left_alone(status.left_alone),
            "usage": self._usage,
            "unread": [*status.errors, *self._unread],
        }

    def _read_slowly(self, now: float) -> None:
        self._unread, self._answers, self._silent = [], [], []
        open_logs = self.deployment.open_logs
        if open_logs is None:
            self._unread.append("logs: the settings name none")
        else:
            for cluster in self.deployment.ports.clusters:
                with noting(self._unread, "logs"):
                    self._answers += read_answers(open_logs, cluster, now=now)
            with noting(self._unread, "usage"):
                self._usage = self._sum_today(now)
        for cluster in self.deployment.apis:
            with noting(self._unread, f"the Lease of {cluster}"):
                self._see_exporter(cluster)

    def _sum_today(self, now: float) -> dict[str, Any]:
        midnight, pools = now - now % DAY_SECONDS, list_pools(self.deployment)
        account = sum_up(self.deployment, midnight, "namespace", now, pools)
        return describe_sums(account.total)

    def _see_exporter(self, cluster: str) -> None:
        """Note an exporter that does not report: what it leaves undone is nowhere else."""
        finding = check_lease(self.deployment, cluster)
        if finding.result is Result.BAD:
            text = f"{finding.text}. Until it reports, only the ticks notice workloads. Next: {finding.fix}"
            self._silent.append(Trouble(f"{short_cluster(cluster)} exporter", "silent", text))


HOST = "127.0.0.1"
_PAGE = (Path(__file__).parent / "page.html").read_text()
_PLACE = '<script type="application/json" id="reading"></script>'


class Board:
    """The application of one board; it reads only while a page asks."""

    def __init__(self, deployment: Deployment, *, every: float = 5.0) -> None:
        """Take what is shown, and how many seconds lie between two readings."""
        self._readings, self._every = Readings(deployment), every
        self._reading: dict[str, Any] = {}
        self._read_at = float("-inf")
        self._lock = threading.Lock()
        self.token = secrets.token_urlsafe(24)
        self.port = 0
        """Where it listens; nothing is answered before it is set."""

    @property
    def address(self) -> str:
        """The address to open in a browser."""
        return f"http://{HOST}:{self.port}/?token={self.token}"

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        response = self._answer(Request(environ))
        response.headers.extend(_HEADERS)
        return response(environ, start_response)

    def read(self) -> dict[str, Any]:
        """Return the last reading, or a new one if that is too old. All pages share it."""
        with self._lock:
            if time.monotonic() - self._read_at >= self._every:
                self._reading = self._readings.read() | {"every": self._every}
                self._read_at = time.monotonic()
            return self._reading

    def _answer(self, request: Request) -> Response:
        if request.environ.get("HTTP_HOST", "") not in (f"{HOST}:{self.port}", f"localhost:{self.port}"):
            return Response("Host: is not this board's", 403)
        if request.method != "GET":
            return Response("valid: GET", 405)
        if not hmac.compare_digest(request.args.get("token", "").encode(), self.token.encode()):
            return Response("token: is not this board's; open the address that it printed", 403)
        if request.path == "/":
            return Response(render_page(self.read()), mimetype="text/html")
        if request.path == "/reading":
            return Response(msgspec.json.encode(self.read()), mimetype="application/json")
        return Response("no such page", 404)


def render_page(reading: dict[str, Any]) -> bytes:
    """Return the page with one reading inside; as a file it shows that, and loads nothing."""
    # No text of an object may end the element, or be read as HTML.
    text = msgspec.json.encode(reading).decode().replace("<", "\\u003c")
    return _PAGE.replace(_PLACE, _PLACE.replace("></", f">{text}</")).encode()


def _list_headers() -> dict[str, str]:
    """Return the headers of every answer. Only the script and the style of the page itself run."""
    hashes = []
    for tag in ("script", "style"):
        text = re.findall(rf"<{tag}>(.*?)</{tag}>", _PAGE, re.DOTALL)[0]
        hashes.append(f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}")
    policy = (
        f"default-src 'none'; script-src '{hashes[0]}'; style-src '{hashes[1]}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return {
        "Content-Security-Policy": policy,
        "Cache-Control": "no-store",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }


_HEADERS = _list_headers()


class _QuietHandler(WSGIRequestHandler):
    """Writes no log: each address has the token in it."""

    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002 -- as werkzeug has it
        """Write nothing."""


@contextmanager
def listening(board: Board, *, port: int = 0) -> Iterator[threading.Thread]:
    """Serve a board until the end of the block; yield the thread that serves it."""
    try:
        bound = socket.create_server((HOST, port))
    except OSError as error:
        raise BadInput(f"--port: cannot be used (got {port}: {error}); valid: a free port, or 0") from error
    with bound:  # the server has a copy of it
        server = make_server(HOST, port, board, threaded=True, request_handler=_QuietHandler, fd=bound.fileno())
    board.port = server.port
    thread = threading.Thread(target=server.serve_forever, name="board", daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        server.shutdown()
        thread.join()


def serve_board(board: Board, *, port: int, say: Callable[[str], None]) -> None:
    """Serve a board until Ctrl-C."""
    with listening(board, port=port) as thread:
        say(f"The board: {board.address}")
        say("Only this computer reaches it. Its address is a password. Ctrl-C ends it.")
        with suppress(KeyboardInterrupt):
            thread.join()
