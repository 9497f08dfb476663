"""What every Kubernetes answer is read with: structs, their decoders, and errors of refusals.

A struct names only the fields that are read; everything else in the JSON is skipped without being
built. What a caller reads of pods or workloads is declared by that caller on top of `Record`. Texts
of answers are shown only when they are a Kubernetes `Status`, not what else a proxy may send.
"""

from __future__ import annotations

import logging
import threading
from typing import Any, Generic, TypeVar

import msgspec

from shared.json_text import JSON_ERRORS
from shared.model.decisions import Reason
from shared.model.errors import (
    AlreadyExists,
    Denied,
    InvalidRequest,
    NotFound,
    ProvisionerError,
    Retryable,
    StaleView,
    Throttled,
    Unavailable,
)

T = TypeVar("T")
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


class StatusDetails(Record):
    """The machine-readable part of a refusal."""

    retry_after_seconds: int = 0


class Status(Record):
    """A refusal in Kubernetes' own words (``kind: Status``)."""

    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


class ListMeta(Record):
    """The state of a list: its version, and the token of its next page."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Page(Record, Generic[T]):
    """One page of a list."""

    items: list[T]
    """Required: an answer without it is no list, and must never be read as an empty one."""
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    left_out: tuple[str, ...] = ()
    """The UIDs of the objects that were unreadable and are not in `items`, empty where the UID is
    unreadable too; never in an answer."""


JsonObject = dict[str, Any]
"""A JSON object without a struct."""


_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}
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


def read_stored(piece: Any) -> Stored:
    """Return the identity of an undecoded object; empty if even that is unreadable."""
    try:
        return decoder_of(Stored).decode(piece) if isinstance(piece, msgspec.Raw) else Stored()
    except JSON_ERRORS:
        return Stored()


def report_unreadable(what: str, namespace: str, name: str, error: Exception) -> None:
    """Log that one object is skipped because it cannot be read."""
    problem = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    _logger.error(
        "object skipped: it cannot be read",
        extra={"request": what, "namespace": namespace, "name_of_object": name, "problem": problem},
    )


MESSAGE_LENGTH_MAX = 512


class Expired(Retryable):
    """HTTP 410: the resource version or continue token is too old; list again from the start.

    Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#410-gone-responses.
    """

    reason = Reason.VIEW_STALE


class Silence(Unavailable):
    """The other side kept the connection open and said nothing for longer than was agreed."""


class Unreadable(Retryable):
    """The answer is not the JSON that was expected of this address."""


_HTTP_GONE, _HTTP_SERVER_ERROR = 410, 500
_RETRY_AFTER_SECONDS_MAX = 600.0
_ERROR_OF_CODE: dict[int, type[ProvisionerError]] = {
    401: Denied,
    403: Denied,
    404: NotFound,
    409: StaleView,
    _HTTP_GONE: Expired,
    429: Throttled,
}
_STATUS = msgspec.json.Decoder(Status)


def parse_status(body: bytes) -> Status:
    """Return the `Status` in an answer, or an empty one when the answer is something else."""
    try:
        status = _STATUS.decode(body)
    except JSON_ERRORS:
        return Status()
    return status if status.kind in ("Status", "") else Status()


def classify_refusal(
    what: str, code: int, status: Status, retry_after: str | None = None
) -> ProvisionerError:
    """Return the error to raise for one refusal.

    Args:
        what: The request, for example ``GET /api/v1/pods``.
        code: The HTTP status, or the code inside a watch's ERROR event.
        status: Kubernetes' own words, perhaps empty.
        retry_after: The header Retry-After as sent, in seconds.
    """
    message = status.message[:MESSAGE_LENGTH_MAX] or "the answer is not a Kubernetes Status"
    text = f"{what}: {code} {status.reason}".rstrip() + f": {message}"
    kind = _ERROR_OF_CODE.get(code, Unavailable if code >= _HTTP_SERVER_ERROR else InvalidRequest)
    if kind is StaleView and status.reason == "AlreadyExists":
        kind = AlreadyExists
    if issubclass(kind, Retryable):
        return kind(text, retry_after_seconds=_retry_after_seconds(status, retry_after))
    return kind(text)


def _retry_after_seconds(status: Status, header: str | None) -> float | None:
    """Return the advised pause. A header with a date instead of seconds is ignored."""
    if header and header.strip().isdecimal():
        return min(float(header), _RETRY_AFTER_SECONDS_MAX)
    if status.details and status.details.retry_after_seconds > 0:
        return min(float(status.details.retry_after_seconds), _RETRY_AFTER_SECONDS_MAX)
    return None
