"""Google's APIs as this process asks them: its account, a session for REST, and what they refuse.

By google-auth and requests. Each request is sent once and in time: requests repeats nothing by
itself, but its timeout starts again with each piece of an answer, so a `Deadline` bounds a call.
Whoever asks Google raises the leaves of `shared.model.errors` that the table below finds:
`Unavailable` when there was no answer, or none that can be read; `Denied` without credentials.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import google.auth
import msgspec
import requests
import urllib3
from google.api_core.exceptions import GoogleAPICallError, GoogleAPIError, from_http_response
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import GoogleAuthError, TransportError
from google.auth.transport.requests import AuthorizedSession, Request
from google.protobuf.json_format import ParseError
from requests.adapters import BaseAdapter, HTTPAdapter

from shared.edges.clock import SYSTEM_CLOCK
from shared.edges.connection import CONNECTIONS_MAX
from shared.model import errors
from shared.model.errors import JSON_ERRORS
from shared.model.failures import Failure, classify_failure
from shared.model.times import parse_count
from shared.settings import Credentials
from shared.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from shared.model.times import Clock

SCOPES = (
    "https://www.googleapis.com/auth/cloud-platform",
    # Without this one GKE knows the account by its number only, and an RBAC binding to its e-mail
    # does not hold:
    # https://cloud.google.com/kubernetes-engine/docs/how-to/role-based-access-control#forbidden_error_for_service_accounts_on_vm_instances
    "https://www.googleapis.com/auth/userinfo.email",  # assumes: user-name
)
UNREADABLE = (AttributeError, LookupError, TypeError, ValueError, RecursionError)
"""What Google's libraries raise for an answer of an unexpected form."""
TIMEOUT_SECONDS = 30.0  # assumes: create-answers-fast
"""GKE answers a create in about 1.5 s; past this the outcome is unknown and is looked up by the
next delivery."""
PROMPT_SECONDS = 5.0
"""The longest time from a call until its request is sent, where it may not be sent late."""
TEXT_MAX = 600
"""Characters of somebody else's words in an error: they can quote a whole answer."""
_TOKEN_SECONDS = 5.0
_PIECE_BYTES = 2**16
_RETRY_AFTER_SECONDS_MAX = 600  # assumes: throttled
_LOGIN = "gcloud auth application-default login"
_REDIRECT, _REFUSAL, _THROTTLED, _SERVER_ERROR = 300, 400, 429, 500


class GoogleAccount:
    """The Google account of this process by google-auth, usable from several threads.

    It is found by https://cloud.google.com/docs/authentication/application-default-credentials, at
    its first use. It is kept; a failure is not.
    """

    def __init__(self, kind: Credentials = Credentials.GOOGLE) -> None:
        self._kind = kind
        self._lock = threading.Lock()

    @cached_property
    def credentials(self) -> Any:  # google-auth has no types
        """The credentials for clients of Google's APIs; anonymous ones for stand-ins."""
        if self._kind == Credentials.ANONYMOUS:
            return AnonymousCredentials()  # type: ignore[no-untyped-call]
        with translate_errors("the Google account"):
            return google.auth.default(scopes=SCOPES)[0]

    def give_token(self) -> str:
        """Return an access token, renewed shortly before it ends; empty for stand-ins."""
        with self._lock, translate_errors("the access token"):
            credentials = self.credentials
            if not credentials.valid:
                credentials.refresh(partial(Request(), timeout=_TOKEN_SECONDS))
            return credentials.token or ""


class Deadline(urllib3.Timeout):
    """The time of one call: from its beginning, with the access token, to the end of its answer.

    It is the `timeout` of a call of google-api-core or google-auth, and arrives unchanged where the
    request is sent. A request for an access token, which gets it too, takes it for five seconds.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK, *, promptly: bool = False) -> None:
        """Begin, on a clock that goes on while an instance is frozen.

        A prompt request rests on a look that was made just now: it is sent within `PROMPT_SECONDS`
        or not at all.
        """
        super().__init__(total=_TOKEN_SECONDS)
        self._clock, self._promptly, self._began = clock, promptly, clock.now()

    def __call__(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return the call with this deadline, as google-api-core applies a timeout."""
        return partial(call, timeout=self)

    def start_sending(self) -> urllib3.Timeout:
        """Return the time that is left for connection and answer, else raise `requests.Timeout`.

        A request that must be prompt is not sent by a clock that was set back.
        """
        passed = self._clock.now() - self._began
        limit = PROMPT_SECONDS if self._promptly else TIMEOUT_SECONDS
        if passed >= limit or (self._promptly and passed < 0):
            raise requests.Timeout("not sent: getting an access token took too long")
        return urllib3.Timeout(connect=limit - passed, total=TIMEOUT_SECONDS - passed)

    def read(self, answer: urllib3.HTTPResponse) -> Iterator[bytes]:
        """Yield an answer piece by piece; `requests.Timeout` when the time is over."""
        while piece := answer.read1(_PIECE_BYTES, decode_content=True):
            yield piece
            if self._clock.now() - self._began >= TIMEOUT_SECONDS:
                raise requests.Timeout(f"the answer takes more than {TIMEOUT_SECONDS:.0f} s")


class OnceInTime(BaseAdapter):
    """Sends each request once, within the deadline of its call, and follows no redirection."""

    def __init__(self, adapter: BaseAdapter) -> None:
        """Take an adapter for its connections; google-auth's has the client certificate."""
        super().__init__()
        self._adapter = adapter

    def send(  # type: ignore[override]  # the name of an option is that of requests' base class
        self, request: requests.PreparedRequest, *, timeout: Deadline, **options: Any
    ) -> requests.Response:
        """Return the answer, read to its end, else raise a `requests.RequestException`."""
        options["stream"] = True
        response = self._adapter.send(request, timeout=timeout.start_sending(), **options)  # type: ignore[arg-type]
        try:
            response._content = b"".join(timeout.read(response.raw))  # noqa: SLF001 -- what requests itself sets
        except urllib3.exceptions.HTTPError as error:
            raise requests.ConnectionError(error, request=request) from error
        finally:
            response.close()
        if _REDIRECT <= response.status_code < _REFUSAL:
            raise requests.TooManyRedirects(f"HTTP {response.status_code}", request=request)
        return response

    def close(self) -> None:
        """Close the kept connections."""
        self._adapter.close()


def bound_session(session: AuthorizedSession, url: str) -> AuthorizedSession:
    """Return the session, which from now on sends each request once and within its `Deadline`.

    The variables for proxies and authorities are read once, for the host of the URL: to read all
    variables for each request takes a tenth of the CPU of an event.
    """
    for name, value in session.merge_environment_settings(url, {}, None, None, None).items():
        setattr(session, name, value)
    session.trust_env = False
    for prefix, adapter in list(session.adapters.items()):
        # Any other is google-auth's, with the client certificate of mutual TLS.
        plain = type(adapter) is HTTPAdapter
        session.mount(
            prefix, OnceInTime(HTTPAdapter(pool_maxsize=CONNECTIONS_MAX) if plain else adapter)
        )
    session.headers["User-Agent"] = f"tpu-provisioner/{VERSION}"
    return session


class GoogleSession:
    """A Google API at one base URL, by google-auth's session; usable from several threads."""

    def __init__(
        self, endpoint: str, account: GoogleAccount, *, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """Prepare; nothing is sent or opened yet."""
        self._endpoint, self._account, self._clock = endpoint.rstrip("/"), account, clock

    @cached_property
    def session(self) -> Any:  # google-auth has no types
        """The session, opened at its first use: no earlier, as no fork may share it."""
        session = AuthorizedSession(self._account.credentials)  # type: ignore[no-untyped-call]
        return bound_session(session, self._endpoint)

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        promptly: bool = False,
    ) -> bytes:
        """Return the body of a successful answer; `body` is sent as JSON, below the base URL."""
        deadline = Deadline(self._clock, promptly=promptly)
        with translate_errors(f"{method} {path}"):
            response = self.session.request(
                method,
                f"{self._endpoint}/{path}",
                data=None if body is None else msgspec.json.encode(body),
                headers={"Content-Type": "application/json"},
                timeout=deadline,
            )
            if response.status_code >= _REFUSAL:
                raise from_http_response(response)  # type: ignore[no-untyped-call]
        return bytes(response.content)


class ErrorBody(msgspec.Struct):
    """The ``error`` object of a Google API's refusal."""

    message: str = ""
    status: str = ""
    """The canonical code, the same over REST and gRPC."""
    details: list[dict[str, Any]] = []
    """``google.rpc.ErrorInfo`` and its siblings; only their ``reason`` is read."""


_DECODER = msgspec.json.Decoder(dict[str, ErrorBody])
_NO_ANSWER = (GoogleAPIError, GoogleAuthError, requests.RequestException)
_KINDS: dict[str, type[errors.ProvisionerError]] = {
    "ALREADY_EXISTS": errors.AlreadyExists,  # assumes: create-existing
    "ABORTED": errors.StaleView,
    # assumes: duplicate-create, create-while-deleting, delete-while-creating
    "FAILED_PRECONDITION": errors.Busy,
    "RESOURCE_EXHAUSTED": errors.Throttled,  # assumes: throttled
    "NOT_FOUND": errors.NotFound,
    "PERMISSION_DENIED": errors.Denied,
    "UNAUTHENTICATED": errors.Denied,
    "INVALID_ARGUMENT": errors.InvalidRequest,
    "OUT_OF_RANGE": errors.InvalidRequest,
    "UNIMPLEMENTED": errors.InvalidRequest,  # assumes: resize-slice
    "CANCELLED": errors.Unavailable,
    "UNKNOWN": errors.Unavailable,
    "INTERNAL": errors.Unavailable,
    "DATA_LOSS": errors.Unavailable,
    "UNAVAILABLE": errors.Unavailable,
    "DEADLINE_EXCEEDED": errors.Unavailable,
}
"""What a refusal means by its canonical code."""
_CODES = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    409: "ALREADY_EXISTS",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    501: "UNIMPLEMENTED",
}
"""The code of an answer that names none, as that of a proxy, by its HTTP status."""
_BUSY_TEXTS = (
    "incompatible operation",
    "is currently creating",
    "is currently deleting",
    "is currently upgrading",
    "Cluster is currently being",
)
"""As quoted in https://cloud.google.com/kubernetes-engine/docs/troubleshooting/concurrent-operations
and in public issue threads."""


@contextmanager
def translate_errors(request: str) -> Iterator[None]:
    """Raise our errors for those of a Google client inside the block, with the request for logs."""
    try:
        yield
    except (*_NO_ANSWER, *UNREADABLE, ParseError) as error:
        raise note_request(_classify_error(error), request) from error


def note_request(error: errors.ProvisionerError, request: str) -> errors.ProvisionerError:
    """Return the error with the request beside its text, where `find_request` finds it.

    It is a note on the error and not part of its text, because Events show the text to users.
    """
    error.add_note(request)
    return error


def find_request(error: Exception) -> str:
    """Return the verb and path of the request that failed, for logs; empty if there is none."""
    return "; ".join(getattr(error, "__notes__", ()))


def _classify_error(error: Exception) -> errors.ProvisionerError:
    if isinstance(error, GoogleAPICallError):
        return _classify_call_error(error)
    if isinstance(error, GoogleAuthError):
        return _classify_account_error(error)
    problem = "no answer" if isinstance(error, _NO_ANSWER) else "the answer cannot be read"
    return errors.Unavailable(f"{problem}: {error!s:.{TEXT_MAX}}")


def _classify_call_error(error: GoogleAPICallError) -> errors.ProvisionerError:
    """Return the error that a refused call means, over REST and over gRPC.

    Over REST the library keeps only the HTTP status, so the canonical code is read from its answer.
    """
    body = getattr(error.response, "content", None)
    if isinstance(body, bytes):
        status = getattr(error.response, "status_code", error.code or 0)
        return classify_refusal(status, body, error.response.headers.get("Retry-After"))
    if error.code is None and error.grpc_status_code is None:
        return errors.Unavailable(f"no answer: {error}")
    refusal = ErrorBody(
        message=str(error.message or ""),
        status=error.grpc_status_code.name if error.grpc_status_code else "",
        details=[{"reason": error.reason}],
    )
    return _classify(error.code or 0, refusal)


def classify_refusal(
    http_status: int, body: bytes, retry_after: str | None = None
) -> errors.ProvisionerError:
    """Return the error that a refusal over REST means; `retry_after` is its header of that name.

    A body that is not a Google API's refusal counts as one without words.
    """
    try:
        error = _DECODER.decode(body).get("error", ErrorBody())
    except JSON_ERRORS:
        error = ErrorBody()
    return _classify(http_status, error, retry_after)


def _classify(
    http_status: int, error: ErrorBody, retry_after: str | None = None
) -> errors.ProvisionerError:
    kind = _find_kind(http_status, error)
    message = error.message[:TEXT_MAX] or "the answer has no error text"
    text = f"{message} ({f'HTTP {http_status} {error.status}'.rstrip()})"
    if issubclass(kind, errors.Retryable):
        seconds = parse_count(retry_after or "", most=_RETRY_AFTER_SECONDS_MAX)
        return kind(text, retry_after_seconds=seconds)
    refusal = kind(text)
    if isinstance(refusal, errors.InvalidRequest):
        refusal.status = error.status
    return refusal


def _find_kind(http_status: int, error: ErrorBody) -> type[errors.ProvisionerError]:
    """Return the error that a refusal means: by its text where the code alone would mislead."""
    message = error.message
    reasons = {str(each.get("reason", "")) for each in error.details}
    code = _find_code(http_status, error.status)
    if classify_failure(message) == Failure.RESERVATION:  # GKE answers with 400, 404 or 429
        return errors.ReservationUnfit  # assumes: reservation-refusal
    if code == "NOT_FOUND":  # assumes: missing-cluster
        return errors.ClusterNotFound if _is_about_cluster(message) else errors.NotFound
    if code == "PERMISSION_DENIED":  # assumes: quota-or-rights
        return errors.NoCapacity if _is_about_quota(message, reasons) else errors.Denied
    if "does not have access to service account" in message:  # assumes: service-account-refusal
        return errors.Denied
    if _is_busy(message, reasons):
        return errors.Busy
    return _KINDS.get(
        code, errors.Unavailable if http_status >= _SERVER_ERROR else errors.InvalidRequest
    )


def _is_about_cluster(message: str) -> bool:
    of_pool = "/nodePools/" in message or "node pool" in message
    return "/clusters/" in message and not of_pool


def _find_code(http_status: int, status: str) -> str:
    """Return the canonical code; empty for an answer that has none."""
    return status if status in _KINDS else _CODES.get(http_status, "")


def _is_busy(message: str, reasons: set[str]) -> bool:
    busy = any(text in message for text in _BUSY_TEXTS)
    return busy or "CLUSTER_ALREADY_HAS_OPERATION" in reasons


def _is_about_quota(message: str, reasons: set[str]) -> bool:
    code = any("QUOTA" in reason for reason in reasons)
    quota = code or classify_failure(message) == Failure.QUOTA
    return quota and "IAM_PERMISSION_DENIED" not in reasons


def _classify_account_error(error: GoogleAuthError) -> errors.ProvisionerError:
    """Return what google-auth's error means: `Unavailable` if a retry can mend it, else `Denied`.

    google-auth wraps the answer of the metadata server in its errors, as the second argument of a
    `TransportError`.
    """
    transport, status = error if isinstance(error, TransportError) else error.__cause__, 0
    if isinstance(transport, TransportError):
        answer = transport.args[1] if len(transport.args) > 1 else None
        status = getattr(answer, "status", _SERVER_ERROR)
    if error.retryable or status >= _SERVER_ERROR or status == _THROTTLED:
        return errors.Unavailable(f"no access token: {error}")
    return errors.Denied(f"there are no Google credentials: {error}; log in with: {_LOGIN}")
