"""Translates refusals of a Kubernetes API, and connection failures, into our errors.

Texts of answers are shown only when they are a Kubernetes `Status`; what else a proxy may send is
not repeated.
"""

from __future__ import annotations

import msgspec

from shared.edges.kubernetes_objects import Status
from shared.json_text import JSON_ERRORS
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

MESSAGE_LENGTH_MAX = 512


class Expired(Retryable):
    """HTTP 410: the resource version or continue token is too old; list again from the start.

    Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#410-gone-responses.
    """

    reason = "view_stale"


class Silence(Unavailable):
    """The other side kept the connection open and said nothing for longer than was agreed."""


class Unreadable(Retryable):
    """The answer is not the JSON that was expected of this address."""

    reason = "unavailable"


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
