"""The board as a WSGI application: what may ask, and what is answered.

A page of another site must neither read nor change anything here. So the server is bound to
127.0.0.1, each address needs the token of this run, the Host header must be this server's own
(against DNS rebinding), and a POST also needs the token in a header and this server's own Origin,
which a page of another site cannot send.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from werkzeug import Request, Response

from cli.board.acts import Act, ActFailed, discard_dead_letter, replay_dead_letter
from cli.board.feed import Feed, TooManyPages
from cli.board.readings import Readings
from cli.exit_codes import BadInput
from cli.explanation.why import parse_workload, tell
from shared.model.errors import JSON_ERRORS, ProvisionerError
from shared.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from wsgiref.types import StartResponse, WSGIEnvironment

    from cli.access.operator_access import Deployment

TOKEN_HEADER = "X-Board-Token"  # noqa: S105 -- the name of a header
BODY_BYTES_MAX = 10_000
_PAGE = Path(__file__).parent / "page.html"


class Refused(Exception):
    """A request that is not answered; the text says why."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        self.status = status
        super().__init__(text)


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    message_id: str = ""


class Site:
    """The application of one board."""

    def __init__(
        self,
        deployment: Deployment,
        *,
        write: bool = False,
        acts: Sequence[Act] = (),
        every: float = 5.0,
        namespace: str = "",
    ) -> None:
        self._deployment, self._write = deployment, write
        self._acts = {act.name: act for act in acts}
        self._readings = Readings(deployment, namespace)
        self.token = secrets.token_urlsafe(24)
        self.feed = Feed(self._read, every=every)
        self.port = 0
        """Where it listens; nothing is answered before it is set."""
        self._page = _PAGE.read_bytes()
        self._headers = _list_headers(self._page)

    @property
    def address(self) -> str:
        """The address to open in a browser."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        request = Request(environ)
        try:
            response = self._answer(request)
        except Refused as error:
            response = _say(error.status, str(error))
        response.headers.extend(self._headers)
        return response(environ, start_response)

    def _answer(self, request: Request) -> Response:
        if request.environ.get("HTTP_HOST", "") not in (f"127.0.0.1:{self.port}", f"localhost:{self.port}"):
            raise Refused(HTTPStatus.FORBIDDEN, "Host: is not this board's")
        if request.path.startswith("/acts/"):
            return self._act(request)
        pages: dict[str, Callable[[Request], Response]] = {
            "/": self._show_page,
            "/events": self._stream,
            "/history": self._tell_history,
        }
        show = pages.get(request.path)
        if show is None:
            raise Refused(HTTPStatus.NOT_FOUND, "no such page")
        if request.method != "GET":
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "valid: GET")
        self._check_token(request.args.get("token", ""))
        return show(request)

    def _show_page(self, _request: Request) -> Response:
        return Response(self._page, mimetype="text/html")

    def _stream(self, _request: Request) -> Response:
        try:
            frames = self.feed.open_page()
        except TooManyPages as error:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages of the board are open") from error
        response = Response(frames, mimetype="text/event-stream")
        response.call_on_close(self.feed.close_page)
        return response

    def _tell_history(self, request: Request) -> Response:
        """Return the history of one workload, as ``why`` tells it."""
        cluster = request.args.get("cluster", "")
        if cluster not in self._deployment.ports.clusters:
            raise Refused(HTTPStatus.BAD_REQUEST, f"cluster: is not one of the settings (got {cluster!r})")
        try:
            home, name = parse_workload(request.args.get("workload", ""), request.args.get("namespace", ""))
            history = tell(self._deployment, cluster, home, name)
        except (BadInput, ProvisionerError) as error:
            raise Refused(HTTPStatus.BAD_REQUEST, str(error)) from error
        return _say(HTTPStatus.OK, **history.as_data())

    def _act(self, request: Request) -> Response:
        if request.method != "POST":
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "valid: POST")
        self._check_token(request.headers.get(TOKEN_HEADER, ""))
        if request.headers.get("Origin", "") != f"http://{request.environ['HTTP_HOST']}":
            raise Refused(HTTPStatus.FORBIDDEN, "Origin: is not this board's")
        if not self._write:
            raise Refused(HTTPStatus.FORBIDDEN, "the board is read-only; start it with --write")
        body = _read_body(request)
        perform = self._find_act(request.path.removeprefix("/acts/"), body)
        try:
            done = perform()
        except BadInput as error:
            raise Refused(HTTPStatus.BAD_REQUEST, str(error)) from error
        except (ActFailed, ProvisionerError) as error:
            raise Refused(HTTPStatus.BAD_GATEWAY, str(error)) from error
        self._readings.forget_dead_letters()
        self.feed.hurry()
        return _say(HTTPStatus.OK, done)

    def _find_act(self, name: str, body: _Body) -> Callable[[], str]:
        if name in self._acts:
            return self._acts[name].perform
        on_dead_letters = {"replay-letter": replay_dead_letter, "discard-letter": discard_dead_letter}
        if name not in on_dead_letters:
            raise Refused(HTTPStatus.NOT_FOUND, "no such act")
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", body.message_id):
            raise Refused(HTTPStatus.BAD_REQUEST, "message_id: is required")
        return lambda: on_dead_letters[name](self._deployment, body.message_id)

    def _check_token(self, given: str) -> None:
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            raise Refused(HTTPStatus.FORBIDDEN, "token: is not this board's; open the address that it printed")

    def _read(self) -> dict[str, Any]:
        acts = [{"name": act.name, "label": act.label, "about": act.about} for act in self._acts.values()]
        return self._readings.read() | {"write": self._write, "acts": acts, "version": VERSION}


def render_page(reading: dict[str, Any]) -> bytes:
    """Return the page with one reading inside: a file that shows it, and loads nothing."""
    data = {**reading, "write": False, "acts": [], "version": VERSION}
    # No text of an object may end the element, or be read as HTML.
    text = msgspec.json.encode(data).replace(b"<", b"\\u003c")
    kept = b'<script type="application/json" id="kept">' + text + b"</script>\n<script>"
    return _PAGE.read_bytes().replace(b"<script>", kept, 1)


def _read_body(request: Request) -> _Body:
    if request.mimetype != "application/json":
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Content-Type: valid: application/json")
    if not 0 < (request.content_length or 0) <= BODY_BYTES_MAX:
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"body: valid: 1 to {BODY_BYTES_MAX} bytes")
    try:
        return msgspec.json.decode(request.get_data(), type=_Body)
    except JSON_ERRORS as error:
        raise Refused(HTTPStatus.BAD_REQUEST, "body: cannot be read; valid: a JSON object") from error


def _say(status: HTTPStatus, text: str = "", **data: Any) -> Response:
    return Response(msgspec.json.encode({"text": text} | data), status=status, mimetype="application/json")


def _list_headers(page: bytes) -> dict[str, str]:
    """Return the headers of every answer. Only the script and the style of the page itself run."""
    hashes = {tag: _hash_element(page, tag) for tag in ("script", "style")}
    policy = (
        f"default-src 'none'; script-src '{hashes['script']}'; style-src '{hashes['style']}'; "
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


def _hash_element(page: bytes, tag: str) -> str:
    found = re.search(rf"<{tag}>(.*?)</{tag}>".encode(), page, re.DOTALL)
    if found is None:
        raise ValueError(f"{_PAGE.name}: has no <{tag}>")
    return f"sha256-{base64.b64encode(hashlib.sha256(found[1]).digest()).decode()}"
