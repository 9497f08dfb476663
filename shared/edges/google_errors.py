"""Sorts what a Google API refuses by what to do next: one table, for every client and transport.

The same canonical codes come over REST and gRPC, but not the same HTTP classes in every client;
texts are those quoted in
https://cloud.google.com/kubernetes-engine/docs/troubleshooting/concurrent-operations and in public
issue threads.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
from google.api_core.exceptions import GoogleAPICallError, GoogleAPIError
from google.auth.exceptions import GoogleAuthError
from google.protobuf.json_format import ParseError
from requests.exceptions import RequestException

from shared.edges.google_account import UNREADABLE, classify_account_error
from shared.json_text import JSON_ERRORS
from shared.model.errors import (
    AlreadyExists,
    Busy,
    ClusterNotFound,
    Denied,
    InvalidRequest,
    NoCapacity,
    NotFound,
    ProvisionerError,
    ReservationUnfit,
    Retryable,
    StaleView,
    Throttled,
    Unavailable,
)
from shared.model.failures import Failure, classify_failure

if TYPE_CHECKING:
    from collections.abc import Iterator

_MESSAGE_LENGTH_MAX = 600
_RETRY_AFTER_SECONDS_MAX = 600.0  # assumes: throttled


class ErrorDetail(msgspec.Struct):
    """``google.rpc.ErrorInfo`` and its siblings; only the reason is read."""

    reason: str = ""


class ErrorBody(msgspec.Struct):
    """The ``error`` object of a Google API's refusal."""

    code: int = 0
    message: str = ""
    status: str = ""
    details: list[ErrorDetail] = []


class Refusal(msgspec.Struct):
    """A Google API's refusal."""

    error: ErrorBody = msgspec.field(default_factory=ErrorBody)


_REFUSAL = msgspec.json.Decoder(Refusal)


def find_request(error: Exception) -> str:
    """Return the verb and path of the request that failed, for logs; empty if the error has none.

    They are a note on the error and not part of its text, because Events show the text to users.
    """
    return "; ".join(getattr(error, "__notes__", ()))


def note_request(error: ProvisionerError, request: str) -> ProvisionerError:
    """Return the error with the request beside its text, where `find_request` finds it."""
    error.add_note(request)
    return error


def classify_refusal(
    request: str, http_status: int, body: bytes, retry_after: str | None = None
) -> ProvisionerError:
    """Return the error that a refusal over REST means.

    Args:
        request: Verb and path, for logs.
        http_status: The status of the answer.
        body: Of the answer; what is not a Google API's refusal counts as one without words.
        retry_after: The header ``Retry-After``, if there is one.
    """
    try:
        error = _REFUSAL.decode(body).error
    except JSON_ERRORS:
        error = ErrorBody()
    return classify_error(request, http_status, error, retry_after)


def classify_error(
    request: str, http_status: int, error: ErrorBody, retry_after: str | None = None
) -> ProvisionerError:
    """Return the error that a refusal means, by code and reason first and by text second."""
    reasons = {detail.reason for detail in error.details}  # assumes: quota-or-rights
    kind = _find_kind(http_status, error, reasons)
    message = error.message[:_MESSAGE_LENGTH_MAX] or "the answer has no error text"
    text = f"{message} ({f'HTTP {http_status} {error.status}'.rstrip()})"
    if issubclass(kind, Retryable):
        known = retry_after is not None and retry_after.isascii() and retry_after.isdigit()
        seconds = min(float(retry_after or 0), _RETRY_AFTER_SECONDS_MAX) if known else None
        return note_request(kind(text, retry_after_seconds=seconds), request)
    found = kind(text)
    if isinstance(found, InvalidRequest):
        found.status = error.status
    return note_request(found, request)


_BUSY_TEXTS = (
    "incompatible operation",
    "is currently creating",
    "is currently deleting",
    "is currently upgrading",
    "Cluster is currently being",
)
_KIND_BY_STATUS: dict[str, type[ProvisionerError]] = {
    "ALREADY_EXISTS": AlreadyExists,  # assumes: create-existing
    "ABORTED": StaleView,
    # assumes: duplicate-create, create-while-deleting, delete-while-creating
    "FAILED_PRECONDITION": Busy,
    "RESOURCE_EXHAUSTED": Throttled,  # assumes: throttled
    "UNAUTHENTICATED": Denied,
    "INVALID_ARGUMENT": InvalidRequest,
    "OUT_OF_RANGE": InvalidRequest,
    "UNIMPLEMENTED": InvalidRequest,  # assumes: resize-slice
    "CANCELLED": Unavailable,
    "UNKNOWN": Unavailable,
    "INTERNAL": Unavailable,
    "DATA_LOSS": Unavailable,
    "UNAVAILABLE": Unavailable,
    "DEADLINE_EXCEEDED": Unavailable,
}
_KIND_BY_HTTP: dict[int, type[ProvisionerError]] = {
    401: Denied,
    408: Unavailable,
    409: AlreadyExists,
    429: Throttled,
    499: Unavailable,
    501: InvalidRequest,
}


def _find_kind(http_status: int, error: ErrorBody, reasons: set[str]) -> type[ProvisionerError]:
    return _find_kind_by_text(http_status, error, reasons) or _find_kind_by_code(
        http_status, error.status
    )


def _find_kind_by_text(
    http_status: int, error: ErrorBody, reasons: set[str]
) -> type[ProvisionerError] | None:
    """Return the error when the code alone would mislead; None when the code is enough."""
    message = error.message
    if classify_failure(message) == Failure.RESERVATION:  # GKE answers with 400, 404 or 429
        return ReservationUnfit  # assumes: reservation-refusal
    if http_status == 404 or error.status == "NOT_FOUND":  # noqa: PLR2004 -- HTTP
        cluster = (
            "/clusters/" in message and "/nodePools/" not in message and "node pool" not in message
        )
        return ClusterNotFound if cluster else NotFound  # assumes: missing-cluster
    if http_status == 403 or error.status == "PERMISSION_DENIED":  # noqa: PLR2004 -- HTTP
        quota = (
            any("QUOTA" in reason for reason in reasons)
            or classify_failure(message) == Failure.QUOTA
        )
        return NoCapacity if quota and "IAM_PERMISSION_DENIED" not in reasons else Denied
    if "does not have access to service account" in message:  # assumes: service-account-refusal
        return Denied
    busy = "CLUSTER_ALREADY_HAS_OPERATION" in reasons or any(
        text in message for text in _BUSY_TEXTS
    )
    return Busy if busy else None


def _find_kind_by_code(http_status: int, status: str) -> type[ProvisionerError]:
    if status in _KIND_BY_STATUS:
        return _KIND_BY_STATUS[status]
    if http_status in _KIND_BY_HTTP:
        return _KIND_BY_HTTP[http_status]
    return Unavailable if http_status >= 500 else InvalidRequest  # noqa: PLR2004 -- HTTP


TEXT_MAX = 600
"""Characters of a library's own words in an error: they can quote a whole answer."""


@contextmanager
def translate_errors(request: str) -> Iterator[None]:
    """Raise our errors for those of a Google client inside the block.

    Args:
        request: What is asked, for logs, for example ``CreateNodePool projects/P/...``.

    Raises:
        ProvisionerError: the leaf of `shared.model.errors` that the table finds; `Unavailable` when
            there was no answer; `Denied` when there are no credentials or they are refused.
    """
    try:
        yield
    except GoogleAPICallError as error:
        raise classify_call_error(request, error) from error
    except GoogleAuthError as error:
        raise note_request(classify_account_error(error), request) from error
    except (GoogleAPIError, RequestException) as error:
        raise note_request(Unavailable(f"no answer: {error!s:.{TEXT_MAX}}"), request) from error
    except (ParseError, *UNREADABLE) as error:
        raise note_request(
            Unavailable(f"the answer cannot be read: {error!s:.{TEXT_MAX}}"), request
        ) from error


def classify_call_error(request: str, error: GoogleAPICallError) -> ProvisionerError:
    """Return the error that a refused call means, over REST and over gRPC.

    Over REST the library keeps only the HTTP status, so the canonical code is read from its answer.
    """
    body = getattr(error.response, "content", None)
    if isinstance(body, bytes):
        status = getattr(error.response, "status_code", error.code or 0)
        return classify_refusal(request, status, body, error.response.headers.get("Retry-After"))
    if error.code is None and error.grpc_status_code is None:
        return note_request(Unavailable(f"no answer: {error}"), request)
    refusal = ErrorBody(
        message=str(error.message or ""),
        status=error.grpc_status_code.name if error.grpc_status_code else "",
        details=[ErrorDetail(reason=error.reason or "")],
    )
    return classify_error(request, error.code or 0, refusal)
