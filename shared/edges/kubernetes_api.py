"""Sends requests to a Kubernetes API: get, list in pages, stream, create, update, patch, delete.

Over the transport of the official client (`kubernetes_connection`), with msgspec structs that name
only the fields that are read. Errors are those of `shared.model.errors`, and `Expired`, `Silence`,
`Unreadable` from here. This module does not interpret the objects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

import msgspec
import urllib3

from shared.edges.clock import SYSTEM_CLOCK
from shared.edges.kubernetes_connection import Connection, connection_from_kubeconfig
from shared.edges.kubernetes_objects import (
    Expired,
    Page,
    Silence,
    Unreadable,
    classify_refusal,
    decoder_of,
    parse_status,
    read_stored,
    report_unreadable,
)
from shared.json_text import JSON_ERRORS
from shared.model.errors import MalformedEvent, Unavailable
from shared.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "Connection",
    "Expired",
    "KubernetesApi",
    "Silence",
    "Unreadable",
    "connection_from_kubeconfig",
]

T = TypeVar("T")
Body = Mapping[str, Any] | msgspec.Struct
"""What is sent: a JSON object or a struct."""
Params = Mapping[str, str]
Answer = tuple[urllib3.BaseHTTPResponse, bytes]

TIMEOUT_SECONDS = 10.0
CALL_SECONDS = 20.0
"""After this time of one call no further piece of its answer is waited for; a watch has no end."""
PAGE_SIZE = 500
OBJECTS_MAX = 1_000_000
"""Past that, the continue token of a list must be going in circles."""
REFUSAL_BYTES_MAX = PIECE_BYTES = 64 * 1024
_HTTP_OK, _HTTP_REDIRECT = 200, 300
_PLAIN_PATH = re.compile(r"(/(?!\.\.?(/|$))[^/?#%\s]+)+")
_PAGE: Any = Page  # Made concrete at run time, which a type checker cannot follow.
_RAW_LIST = Page[msgspec.Raw]
_RAW_PAGE = msgspec.json.Decoder(_RAW_LIST)


class KubernetesApi:
    """One Kubernetes API, usable from several threads; connections are kept and shared.

    Every method raises the leaves of `shared.model.errors`: `NotFound` (404), `Denied` (401, 403),
    `AlreadyExists` and `StaleView` (409), `Throttled` (429), `InvalidRequest` (other 4xx,
    redirects), `Unavailable` (5xx, no connection, time-out), and `Expired` (410). A path with a
    name that is no plain name is `Rejected`, and nothing is sent.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        user_agent: str = "tpu-provisioner",
    ) -> None:
        """Prepare the pool of connections; nothing is sent yet.

        Args:
            connection: Where, and as whom.
            timeout_seconds: The longest wait for a connection, and for each piece of an answer.
            user_agent: The name of this program in the audit log; the version follows it.
        """
        self._url = connection.url
        self._authorize = connection.authorize
        self._timeout_seconds = timeout_seconds
        self._headers = {"User-Agent": f"{user_agent}/{VERSION}", "Accept": "application/json"}
        self._pool = connection.open_pool()
        self.namespace = connection.namespace

    def get(self, path: str, kind: type[T], params: Params | None = None) -> T:
        """Return one object, of which `kind` says what is read.

        Args:
            path: Absolute, for example ``/api/v1/namespaces/default/pods/x``.
            kind: A partial struct.
            params: Query parameters.
        """
        return self._answer("GET", path, kind, params=params)

    def list_pages(
        self, path: str, kind: type[T], params: Params | None = None, *, page_size: int = PAGE_SIZE
    ) -> Iterator[Page[T]]:
        """Return the pages of a list one by one, so that never more than one is held.

        The first page's ``metadata.resource_version`` is the version that the whole list shows; no
        ``resourceVersion`` is sent, because the server would ignore `page_size` with ``0``
        (https://github.com/kubernetes/kubernetes/issues/118394). Objects of an unexpected shape are
        logged as errors and left out.

        Raises:
            Expired: the continue token aged away between two pages; start again.
            Unavailable: the list does not end after `OBJECTS_MAX` objects.
        """
        query = {**(params or {}), "limit": str(page_size)}
        for _ in range(OBJECTS_MAX // page_size):
            _, body = self._send("GET", path, params=query)
            page = _decode_page(f"GET {path}", body, kind)
            # The page's bytes would otherwise stay alive while its reader works.
            del body
            yield page
            if not page.metadata.continue_:
                return
            query["continue"] = page.metadata.continue_
        raise Unavailable(f"GET {path}: the list has not ended after {OBJECTS_MAX} objects")

    def stream(
        self, path: str, params: Params, *, silence_seconds: float
    ) -> urllib3.BaseHTTPResponse:
        """Return an open answer that ends if nothing comes for so long; the caller closes it."""
        response, _ = self._send("GET", path, params=params, stream_silence_seconds=silence_seconds)
        return response

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

    def close(self) -> None:
        """Close the kept connections."""
        self._pool.clear()

    def _answer(
        self,
        method: str,
        path: str,
        kind: type[T],
        *,
        params: Params | None = None,
        body: Body | None = None,
    ) -> T:
        _, data = self._send(method, path, params=params, body=body)
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
        stream_silence_seconds: float | None = None,
    ) -> Answer:
        """Return a successful answer and its body; a stream with `stream_silence_seconds`."""
        what, url = f"{method} {path}", self._url + path
        # A name that somebody else wrote must not lead to another object.
        if not _PLAIN_PATH.fullmatch(path):
            raise MalformedEvent(
                "not the path of an object", value=path, valid="plain names between single slashes"
            )
        headers = dict(self._headers)
        if authorization := self._authorize():
            headers["Authorization"] = authorization
        if body is not None:
            headers["Content-Type"] = content_type
        response, data = self._request(
            what,
            method,
            f"{url}?{urlencode(params)}" if params else url,
            headers=headers,
            body=None if body is None else msgspec.json.encode(body),
            stream_silence_seconds=stream_silence_seconds,
        )
        if _HTTP_OK <= response.status < _HTTP_REDIRECT:
            return response, data
        status = parse_status(data if stream_silence_seconds is None else _refusal_body(response))
        raise classify_refusal(what, response.status, status, response.headers.get("Retry-After"))

    def _request(
        self,
        what: str,
        method: str,
        url: str,
        *,
        headers: dict[str, str],
        body: bytes | None,
        stream_silence_seconds: float | None,
    ) -> Answer:
        until = SYSTEM_CLOCK.now() + CALL_SECONDS
        silence = (
            self._timeout_seconds if stream_silence_seconds is None else stream_silence_seconds
        )
        # A kept connection may have been closed by the server the moment before it is used again.
        # Asking once more is safe for a GET only; a write that may have arrived is the caller's to
        # judge.
        attempts = 2 if method == "GET" else 1
        while True:
            attempts -= 1
            try:
                response = self._pool.urlopen(
                    method,
                    url,
                    body=body,
                    headers=headers,
                    retries=False,
                    redirect=False,
                    timeout=urllib3.Timeout(connect=self._timeout_seconds, read=silence),
                    preload_content=False,
                )
                return response, _read(
                    what, response, until
                ) if stream_silence_seconds is None else b""
            except urllib3.exceptions.ProtocolError as error:
                if not attempts:
                    raise Unavailable(f"{what}: connection lost: {error}") from error
            except urllib3.exceptions.HTTPError as error:
                raise Unavailable(f"{what}: {error}") from error


def _read(what: str, response: urllib3.BaseHTTPResponse, until: float) -> bytes:
    """Return the body of an answer. The time-out of a connection counts for each piece anew."""
    pieces = []
    while piece := response.read1(PIECE_BYTES):
        pieces.append(piece)
        if SYSTEM_CLOCK.now() >= until:
            response.close()
            raise Unavailable(f"{what}: the answer takes more than {CALL_SECONDS:.0f} s")
    return b"".join(pieces)


def _refusal_body(response: urllib3.BaseHTTPResponse) -> bytes:
    try:
        return response.read(REFUSAL_BYTES_MAX) or response.data
    except (urllib3.exceptions.HTTPError, OSError):
        return b""
    finally:
        response.close()


def _decode_page(what: str, body: bytes, kind: type[T]) -> Page[T]:
    try:
        page: Page[T] = decoder_of(_PAGE[kind]).decode(body)
    except JSON_ERRORS:
        return _decode_page_piecemeal(what, body, kind)
    return page


def _decode_page_piecemeal(what: str, body: bytes, kind: type[T]) -> Page[T]:
    """Return the readable objects of a page; log each unreadable one."""
    try:
        raw = _RAW_PAGE.decode(body)
    except JSON_ERRORS as error:
        raise Unreadable(f"{what}: not the JSON of a list: {error}") from error
    items, left_out = [], []
    for piece in raw.items:
        try:
            items.append(decoder_of(kind).decode(piece))
        except JSON_ERRORS as error:
            metadata = read_stored(piece).metadata
            report_unreadable(what, metadata.namespace, metadata.name, error)
            left_out.append(metadata.uid)
    return Page(metadata=raw.metadata, items=items, left_out=tuple(left_out))
