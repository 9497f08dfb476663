"""One way to call a Google API over REST: keep-alive, token, deadline, and errors sorted by what to do next.

Used for GKE and for Pub/Sub's dead letters. Why not the official clients in the functions: see
`docs/decisions/0002-clients.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import urllib3

from shared.core.errors import (
    AlreadyExists,
    Busy,
    ClusterNotFound,
    Denied,
    InvalidRequest,
    NoCapacity,
    NotFound,
    ProvisionerError,
    Retryable,
    StaleView,
    Throttled,
    Unavailable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TIMEOUT_SECONDS = 30.0
"""GKE answers a create in about 1.5 s; past this the outcome is unknown and is looked up by the next delivery."""
CONNECTIONS_MAX = 16
_MESSAGE_LENGTH_MAX = 600
_RETRY_AFTER_SECONDS_MAX = 600.0


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


class GoogleRest:
    """A Google API at one base URL, usable from several threads."""

    def __init__(
        self,
        endpoint: str,
        *,
        http: urllib3.PoolManager,
        token: Callable[[], str] | None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            endpoint: Base URL.
            http: Whose connections are used.
            token: Gives the bearer token of the next call; None sends none.
            timeout_seconds: The longest wait for a connection, and for each piece of an answer.
        """
        self._endpoint = endpoint.rstrip("/")
        self._http = http
        self._token = token
        self._timeout_seconds = timeout_seconds

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        """Return the body of a successful answer.

        Raises:
            ProvisionerError: the leaf of `shared.core.errors` that `classify_refusal` finds; `Unavailable` when
                there was no answer.
        """
        headers = {"Content-Type": "application/json", "User-Agent": "tpu-provisioner"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token()}"
        what = f"{method} {path}"
        try:
            response = self._http.request(
                method,
                f"{self._endpoint}/{path}",
                body=None if body is None else msgspec.json.encode(body),
                headers=headers,
                timeout=self._timeout_seconds,
                retries=False,
                redirect=False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise Unavailable(f"{what}: {error}") from error
        if response.status < 300:  # noqa: PLR2004 -- the class of HTTP successes
            return response.data
        raise classify_refusal(what, response.status, response.data, response.headers.get("Retry-After"))


def classify_refusal(what: str, http_status: int, body: bytes, retry_after: str | None = None) -> ProvisionerError:
    """Return the error that a refusal means, by canonical code and reason first and by text second.

    The same status names come over REST and gRPC, but not the same HTTP classes in every client; texts are those
    quoted in https://cloud.google.com/kubernetes-engine/docs/troubleshooting/concurrent-operations and in public
    issue threads.
    """
    try:
        error = _REFUSAL.decode(body).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        error = ErrorBody()
    reasons = {detail.reason for detail in error.details}
    kind = _find_kind(http_status, error, reasons)
    said = error.message[:_MESSAGE_LENGTH_MAX] or f"HTTP {http_status} without an error object"
    text = f"{what}: {error.status or http_status}: {said}"
    if issubclass(kind, Retryable):
        known = retry_after is not None and retry_after.isascii() and retry_after.isdigit()
        seconds = min(float(retry_after or 0), _RETRY_AFTER_SECONDS_MAX) if known else None
        return kind(text, retry_after_seconds=seconds)
    return kind(text)


_BUSY_TEXTS = (
    "incompatible operation",
    "is currently creating",
    "is currently deleting",
    "is currently upgrading",
    "Cluster is currently being",
)
_KIND_BY_STATUS: dict[str, type[ProvisionerError]] = {
    "ALREADY_EXISTS": AlreadyExists,
    "ABORTED": StaleView,
    "FAILED_PRECONDITION": Busy,
    "RESOURCE_EXHAUSTED": Throttled,
    "UNAUTHENTICATED": Denied,
    "INVALID_ARGUMENT": InvalidRequest,
    "OUT_OF_RANGE": InvalidRequest,
    "UNIMPLEMENTED": InvalidRequest,
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
    return _find_kind_by_text(http_status, error, reasons) or _find_kind_by_code(http_status, error.status)


def _find_kind_by_text(http_status: int, error: ErrorBody, reasons: set[str]) -> type[ProvisionerError] | None:
    """Return what a refusal means where its code alone would mislead; None where the code says it all."""
    message = error.message
    if http_status == 404 or error.status == "NOT_FOUND":  # noqa: PLR2004 -- HTTP
        cluster = "/clusters/" in message and "/nodePools/" not in message and "node pool" not in message
        return ClusterNotFound if cluster else NotFound
    if http_status == 403 or error.status == "PERMISSION_DENIED":  # noqa: PLR2004 -- HTTP
        quota = any("QUOTA" in reason for reason in reasons) or "quota" in message.lower()
        return NoCapacity if quota and "IAM_PERMISSION_DENIED" not in reasons else Denied
    if "does not have access to service account" in message:
        return Denied
    busy = "CLUSTER_ALREADY_HAS_OPERATION" in reasons or any(text in message for text in _BUSY_TEXTS)
    return Busy if busy else None


def _find_kind_by_code(http_status: int, status: str) -> type[ProvisionerError]:
    if status in _KIND_BY_STATUS:
        return _KIND_BY_STATUS[status]
    if http_status in _KIND_BY_HTTP:
        return _KIND_BY_HTTP[http_status]
    return Unavailable if http_status >= 500 else InvalidRequest  # noqa: PLR2004 -- HTTP
