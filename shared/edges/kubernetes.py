"""The Kubernetes API: get, list in pages, stream, write, and what it refuses.

Answers are decoded by msgspec into structs that name only the fields that are read (`Record`).
Texts of refusals are shown only when they are a `Status`, not what else a proxy may send.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec
import urllib3

from shared import VERSION
from shared.edges.connection import Connection
from shared.edges.process import SYSTEM_CLOCK
from shared.kinds.read import UnexpectedValue
from shared.model import errors
from shared.model.decisions import Reason
from shared.model.errors import JSON_ERRORS
from shared.model.times import parse_count

T = TypeVar("T")
U = TypeVar("U")
AGENT = "tpu-provisioner"
TIMEOUT_SECONDS = 10.0
CALL_SECONDS = 20.0
"""After this time of one call no further piece of its answer is waited for; a watch has no end."""
PAGE_SIZE = 500
OBJECTS_MAX = 1_000_000  # past that, the continue token of a list must be going in circles
PIECE_BYTES = 64 * 1024
MESSAGE_LENGTH_MAX = 512
_RETRY_AFTER_SECONDS_MAX = 600
_PLAIN_PATH = re.compile(r"(/(?!\.\.?(/|$))[^/?#%\s]+)+")
_OK, _REDIRECT, _SERVER_ERROR = 200, 300, 500
_FROZEN = {"frozen": True}
# Inherited by every struct below, as msgspec does; said in this way because type checkers demand
# that each subclass repeats what they can see of it.


class Record(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True, **_FROZEN):
    """Base of all partial objects: camelCase outside, snake_case inside, unknown fields skipped."""


class OwnerReference(Record):
    """Who an object belongs to."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Record):
    """The identity of an object and the little that all readers need of it."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None


class Condition(Record):
    """One entry of ``status.conditions``; `status` is ``True``, ``False`` or ``Unknown``."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class Stored(Record):
    """Any object, of which only the identity is read: the answer to a write."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class ListMeta(Record):
    """The state of a list: its version, and the token of its next page."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Page(Record):
    """One page of a list. Its objects are decoded one by one, so that one stops no other."""

    items: list[msgspec.Raw]
    """Required: an answer without it is no list, and must never be read as an empty one."""
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


class Status(Record):
    """A refusal in Kubernetes' own words (``kind: Status``)."""

    kind: str = ""
    code: int = _SERVER_ERROR
    reason: str = ""
    message: str = ""
    details: dict[str, Any] | None = None


class Expired(errors.Retryable, reason=Reason.VIEW_STALE):
    """HTTP 410: the resource version or continue token is too old; list again from the start.

    Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#410-gone-responses.
    """


class Unreadable(errors.Retryable):
    """The answer is not the JSON that was expected of this address."""


def read_values(expression: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values of a requirement on a label; none of another type than a list."""
    values = expression.get("values")
    return tuple(map(str, values)) if isinstance(values, list) else ()


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Raise `Unreadable`, with the name of an object, if that or a field of it cannot be read."""
    try:
        yield
    except (UnexpectedValue, *JSON_ERRORS) as error:
        raise Unreadable(f"{what}: {error}") from error


_ERRORS: dict[int | str, type[errors.ProvisionerError]] = {
    "AlreadyExists": errors.AlreadyExists,
    401: errors.Denied,
    403: errors.Denied,
    404: errors.NotFound,
    409: errors.StaleView,
    410: Expired,
    429: errors.Throttled,
}
"""What a refusal means by its reason or HTTP status; any other 4xx, and a redirect, is an
`InvalidRequest`, and the rest `Unavailable`."""
JsonObject = dict[str, Any]
Body = Mapping[str, Any] | msgspec.Struct
Params = Mapping[str, str]
Answer = tuple[urllib3.BaseHTTPResponse, bytes]
_DECODERS: dict[Any, Any] = {kind: msgspec.json.Decoder(kind) for kind in (Stored, Page, Status)}
_BUILDING = threading.Lock()
_logger = logging.getLogger(__name__)


def decoder_of(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Return the one decoder for a type; building it costs far more than using it.

    One thread builds at a time: msgspec keeps what it learns of a struct on the struct itself, and
    a second thread that finds it half learnt there crashes the process.
    """
    decoder: msgspec.json.Decoder[T] | None = _DECODERS.get(kind)
    if decoder is None:
        with _BUILDING:
            decoder = _DECODERS[kind] = _DECODERS.get(kind) or msgspec.json.Decoder(kind)
    return decoder


def report_unreadable(what: str, item: msgspec.Raw, error: Exception) -> str:
    """Log that one object is skipped because it cannot be read, and return its UID, if it can."""
    named = ObjectMeta()
    with suppress(*JSON_ERRORS):
        named = decoder_of(Stored).decode(item).metadata
    problem = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    facts = {"request": what, "namespace": named.namespace, "name_of_object": named.name}
    _logger.error("object skipped: it cannot be read", extra=facts | {"problem": problem})
    return named.uid


def classify_refusal(
    what: str, code: int, body: bytes, retry_after: str | None = None
) -> errors.ProvisionerError:
    """Return the error that a refusal means, of a request or inside a watch.

    A body that is no Status of Kubernetes, as that of a proxy, counts as one without words. The
    header Retry-After counts in seconds; one with a date is ignored.
    """
    status = _read_status(body)
    code = code or status.code
    message = status.message[:MESSAGE_LENGTH_MAX] or "the answer is not a Kubernetes Status"
    text = f"{what}: {code} {status.reason}".rstrip() + f": {message}"
    other = errors.Unavailable if code >= _SERVER_ERROR else errors.InvalidRequest
    kind = _ERRORS.get(status.reason, _ERRORS.get(code, other))
    if not issubclass(kind, errors.Retryable):
        return kind(text)
    advised = (retry_after or "").strip() or str((status.details or {}).get("retryAfterSeconds"))
    seconds = parse_count(advised, most=_RETRY_AFTER_SECONDS_MAX) or None
    return kind(text, retry_after_seconds=seconds)


def _read_status(body: bytes) -> Status:
    with suppress(*JSON_ERRORS):
        status = decoder_of(Status).decode(body)
        if status.kind in ("Status", ""):
            return status
    return Status()


class KubernetesApi:
    """One Kubernetes API, usable from several threads; connections are kept and shared.

    Every method raises the leaves of `shared.model.errors`, by the table above, and `Unavailable`
    without a connection or in a time-out. A path with a name that is no plain name is `Rejected`,
    and nothing is sent.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        user_agent: str = AGENT,
    ) -> None:
        """Prepare; nothing is sent yet.

        The time-out is the longest wait for a connection, and for each piece of an answer. The
        audit log has the name of the program, and its version.
        """
        self._connection, self._timeout_seconds = connection, timeout_seconds
        self._headers = {"User-Agent": f"{user_agent}/{VERSION}", "Accept": "application/json"}

    def get(self, path: str, kind: type[T], params: Params | None = None) -> T:
        """Return one object, of which `kind`, a partial struct, says what is read."""
        return self._answer("GET", path, kind, params=params)

    def list_pages(
        self, path: str, params: Params | None = None, *, page_size: int = PAGE_SIZE
    ) -> Iterator[Page]:
        """Return the pages of a list one by one, so that it is never held as a whole.

        The first page's ``metadata.resource_version`` is the version that the whole list shows; no
        ``resourceVersion`` is sent, because the server would ignore `page_size` with ``0``
        (https://github.com/kubernetes/kubernetes/issues/118394). `Expired`: the continue token aged
        away between two pages; start again.
        """
        query = {**(params or {}), "limit": str(page_size)}
        for _ in range(OBJECTS_MAX // page_size):
            page = self.get(path, Page, query)
            yield page
            if not page.metadata.continue_:
                return
            query["continue"] = page.metadata.continue_
        raise errors.Unavailable(f"GET {path}: the list has not ended after {OBJECTS_MAX} objects")

    def read_each(
        self, path: str, kind: type[T], read: Callable[[T], U], params: Params | None = None
    ) -> Iterator[U]:
        """Yield what `read` makes of each object of a list.

        One that cannot be read is logged as an error and left out.
        """
        decode = decoder_of(kind).decode
        for page in self.list_pages(path, params):
            for item in page.items:
                try:
                    value = read(decode(item))
                except (UnexpectedValue, *JSON_ERRORS) as error:
                    report_unreadable(path, item, error)
                    continue
                yield value

    def stream(
        self, path: str, params: Params, *, silence_seconds: float
    ) -> urllib3.BaseHTTPResponse:
        """Return an open answer that ends if nothing comes for so long; the caller closes it."""
        return self._send("GET", path, params=params, silence_seconds=silence_seconds)[0]

    def create(self, path: str, body: Body, kind: type[T]) -> T:
        """Create one object in the list at `path`; `AlreadyExists` if the name is taken."""
        return self._answer("POST", path, kind, body=body)

    def update(self, path: str, body: Body, kind: type[T]) -> T:
        """Replace one object. `StaleView` if ``metadata.resourceVersion`` is not the newest."""
        return self._answer("PUT", path, kind, body=body)

    def patch(self, path: str, body: Body) -> None:
        """Change one object by a merge patch."""
        self._send("PATCH", path, body=body, content_type="application/merge-patch+json")

    def apply(self, path: str, body: Body, params: Params) -> None:
        """Write fields of one object, or of its ``/status``, as the ``fieldManager`` of `params`.

        https://kubernetes.io/docs/reference/using-api/server-side-apply/
        """
        content_type = "application/apply-patch+yaml"
        self._send("PATCH", path, params=params, body=body, content_type=content_type)

    def _answer(self, method: str, path: str, kind: type[T], **options: Any) -> T:
        _, data = self._send(method, path, **options)
        try:
            return decoder_of(kind).decode(data)
        except JSON_ERRORS as error:
            raise Unreadable(f"{method} {path}: the answer cannot be read: {error}") from error

    def _send(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Body | None = None,
        content_type: str = "application/json",
        silence_seconds: float | None = None,
    ) -> Answer:
        """Return a successful answer and its body; with `silence_seconds` an open stream."""
        # A name that somebody else wrote must not lead to another object.
        if not _PLAIN_PATH.fullmatch(path):
            raise errors.MalformedEvent(
                "not the path of an object", value=path, valid="plain names between single slashes"
            )
        what, until = f"{method} {path}", SYSTEM_CLOCK.now() + CALL_SECONDS
        url, pool = self._connection.reach()
        headers = self._headers | ({} if body is None else {"Content-Type": content_type})
        if authorization := self._connection.authorize():
            headers["Authorization"] = authorization
        silence = silence_seconds or self._timeout_seconds

        def ask() -> Answer:
            response = pool.urlopen(
                method,
                f"{url}{path}?{urlencode(params)}" if params else url + path,
                body=None if body is None else msgspec.json.encode(body),
                headers=headers,
                retries=False,
                redirect=False,
                timeout=urllib3.Timeout(connect=self._timeout_seconds, read=silence),
                preload_content=False,
            )
            opened = silence_seconds is not None and response.status < _REDIRECT
            return response, b"" if opened else _read(what, response, until)

        response, data = _try(what, ask, attempts=2 if method == "GET" else 1)
        if _OK <= response.status < _REDIRECT:
            return response, data
        retry_after = response.headers.get("Retry-After")
        raise classify_refusal(what, response.status, data, retry_after)


def _try(what: str, ask: Callable[[], Answer], *, attempts: int) -> Answer:
    """Return an answer. A kept connection may have been closed the moment before it is used again.

    Asking once more is safe for a GET only; a write that may have arrived is the caller's to judge.
    """
    try:
        return ask()
    except urllib3.exceptions.HTTPError as error:
        if attempts > 1 and isinstance(error, urllib3.exceptions.ProtocolError):
            return _try(what, ask, attempts=attempts - 1)
        raise errors.Unavailable(f"{what}: no answer: {error}") from error


def _read(what: str, response: urllib3.BaseHTTPResponse, until: float) -> bytes:
    """Return the body of an answer. The time-out of a connection counts for each piece anew."""
    pieces = []
    while piece := response.read1(PIECE_BYTES):
        pieces.append(piece)
        if SYSTEM_CLOCK.now() >= until:
            response.close()
            raise errors.Unavailable(f"{what}: the answer takes more than {CALL_SECONDS:.0f} s")
    return b"".join(pieces)
