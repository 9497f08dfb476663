"""Google's APIs as this process asks them: account, REST session, refusals, one Pub/Sub topic.

By google-auth and requests. Each request is sent once and in time: requests repeats nothing by
itself, but its timeout starts again with each piece of an answer, so `OnceInTime` bounds a call.
Whoever asks Google raises the leaves of `shared.model.errors` that the table below finds:
`Unavailable` when there was no answer, or none that can be read; `Denied` without credentials.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import google.auth
import msgspec
import requests
import urllib3
from google.api_core.exceptions import GoogleAPICallError, GoogleAPIError, from_http_response
from google.api_core.gapic_v1.client_info import ClientInfo
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import GoogleAuthError, TransportError
from google.auth.transport.requests import AuthorizedSession, Request
from google.protobuf.json_format import ParseError
from requests.adapters import HTTPAdapter

from shared import VERSION
from shared.edges.connection import CONNECTIONS_MAX
from shared.edges.process import SYSTEM_CLOCK
from shared.model import errors
from shared.model.errors import JSON_ERRORS
from shared.model.failures import classify_failure
from shared.model.messages import Message
from shared.model.times import Clock
from shared.settings import Credentials

if TYPE_CHECKING:  # the functions publish nothing
    from google.pubsub_v1.services.publisher import PublisherClient

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
TEXT_MAX = 600  # characters of somebody else's words in an error: they can quote a whole answer
_TOKEN_SECONDS = 5.0
_PIECE_BYTES = 2**16
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


class OnceInTime(HTTPAdapter):
    """Sends each request once, follows no redirection, and bounds the time of the whole answer."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        """Prepare, on a clock that goes on while an instance is frozen."""
        super().__init__(pool_maxsize=CONNECTIONS_MAX)
        self._clock = clock

    def send(  # type: ignore[override]  # requests' base class allows more kinds of timeout
        self, request: requests.PreparedRequest, *, timeout: float, **options: Any
    ) -> requests.Response:
        """Return the answer, read to its end, else raise a `requests.RequestException`."""
        until = self._clock.now() + timeout
        response = super().send(request, timeout=timeout, **(options | {"stream": True}))
        try:
            pieces = []
            while piece := response.raw.read1(_PIECE_BYTES, decode_content=True):
                pieces.append(piece)
                if self._clock.now() >= until:
                    raise requests.Timeout(f"the answer takes more than {timeout:.0f} s")
        except urllib3.exceptions.HTTPError as error:
            raise requests.ConnectionError(error, request=request) from error
        finally:
            response.close()
        response._content = b"".join(pieces)  # noqa: SLF001 -- what requests itself sets
        if _REDIRECT <= response.status_code < _REFUSAL:
            raise requests.TooManyRedirects(f"HTTP {response.status_code}", request=request)
        return response


def bound_session(session: AuthorizedSession, url: str, clock: Clock) -> AuthorizedSession:
    """Return the session, which from now on sends each request once and in time.

    The variables for proxies and authorities are read once, for the host of the URL: to read all
    variables for each request takes a tenth of the CPU of an event.
    """
    for name, value in session.merge_environment_settings(url, {}, None, None, None).items():
        setattr(session, name, value)
    session.trust_env = False
    for prefix in list(session.adapters):
        session.mount(prefix, OnceInTime(clock))
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
        return bound_session(session, self._endpoint, self._clock)

    @contextmanager
    def asking(self, request: str, *, promptly: bool = False) -> Iterator[None]:
        """Raise our errors for those of the one request that the block sends, as it is called.

        A prompt request rests on a look that was made just now: it is sent within `PROMPT_SECONDS`
        or not at all, also not by a clock that was set back.
        """
        began = self._clock.now()
        with translate_errors(request):
            self._account.give_token()
            passed = self._clock.now() - began
            if promptly and not 0 <= passed < PROMPT_SECONDS:
                raise requests.Timeout("not sent: getting an access token took too long")
            yield

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        """Return the body of a successful answer. A body of ours is JSON, and sent promptly."""
        with self.asking(f"{method} {path}", promptly=body is not None):
            response = self.session.request(
                method,
                f"{self._endpoint}/{path}",
                data=None if body is None else msgspec.json.encode(body),
                headers={"Content-Type": "application/json"},
                timeout=TIMEOUT_SECONDS,
            )
            if response.status_code >= _REFUSAL:
                raise from_http_response(response)  # type: ignore[no-untyped-call]
        return bytes(response.content)


class ErrorBody(msgspec.Struct):
    """The ``error`` object of a Google API's refusal."""

    message: str = ""
    status: str = ""  # the canonical code, the same over REST and gRPC
    details: list[dict[str, Any]] = []
    """``google.rpc.ErrorInfo`` and its siblings; only their ``reason`` is read."""


_DECODER = msgspec.json.Decoder(dict[str, ErrorBody])
_NO_ANSWER = (GoogleAPIError, GoogleAuthError, requests.RequestException)
_REFUSALS: tuple[tuple[str, str, type[errors.ProvisionerError]], ...] = (
    # GKE answers with 400, 404 or 429.
    ("", r"\Areservation_", errors.ReservationUnfit),  # assumes: reservation-refusal
    ("NOT_FOUND", "/nodePools/|node pool", errors.NotFound),
    ("NOT_FOUND", "/clusters/", errors.ClusterNotFound),  # assumes: missing-cluster
    ("NOT_FOUND", "", errors.NotFound),
    ("PERMISSION_DENIED", r"\A.*\n.*IAM_PERMISSION_DENIED", errors.Denied),
    ("PERMISSION_DENIED", r"\A(quota_|.*\n.*QUOTA)", errors.NoCapacity),  # assumes: quota-or-rights
    ("PERMISSION_DENIED", "", errors.Denied),
    ("", "not have access to service account", errors.Denied),  # assumes: service-account-refusal
    # As quoted in
    # https://cloud.google.com/kubernetes-engine/docs/troubleshooting/concurrent-operations and in
    # public issue threads.
    ("", r"\A.*\n.*CLUSTER_ALREADY_HAS_OPERATION|incompatible operation", errors.Busy),
    ("", "is currently (creating|deleting|upgrading)|Cluster is currently being", errors.Busy),
    # assumes: duplicate-create, create-while-deleting, delete-while-creating
    ("FAILED_PRECONDITION", "", errors.Busy),
    ("ALREADY_EXISTS", "", errors.AlreadyExists),  # assumes: create-existing
    ("ABORTED", "", errors.StaleView),
    ("RESOURCE_EXHAUSTED", "", errors.Throttled),  # assumes: throttled
    ("UNAUTHENTICATED", "", errors.Denied),
    ("UNIMPLEMENTED", "", errors.InvalidRequest),
    ("CANCELLED", "", errors.Unavailable),
)
"""What a refusal means: its canonical code, a pattern, the error. The first match counts; of others
the HTTP status says whether the server failed. The pattern looks at three lines: the class of the
failure, the reasons of the details, and the message."""
_STATUSES = {code for code, _, _ in _REFUSALS if code}
_CODES = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "CANCELLED",
    409: "ALREADY_EXISTS",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    501: "UNIMPLEMENTED",
}
"""The code of an answer that names none, as that of a proxy, by its HTTP status."""


@contextmanager
def translate_errors(request: str) -> Iterator[None]:
    """Raise our errors for those of a Google client inside the block.

    The request is a note on the error, for logs, and not part of its text, which Events show.
    """
    try:
        yield
    except (*_NO_ANSWER, *UNREADABLE, ParseError) as error:
        refusal = _classify_error(error)
        refusal.add_note(request)
        raise refusal from error


def find_request(error: Exception) -> str:
    """Return the verb and path of the request that failed, for logs; empty if there is none."""
    return "; ".join(getattr(error, "__notes__", ()))


def _classify_error(error: Exception) -> errors.ProvisionerError:
    """Return the error that a refused call means, over REST and over gRPC.

    Over REST the library keeps only the HTTP status, so the canonical code is read from its answer.
    """
    if isinstance(error, GoogleAuthError):
        return _classify_account_error(error)
    response = getattr(error, "response", None)
    if isinstance(error, GoogleAPICallError) and isinstance(response, requests.Response):
        return classify_refusal(response.status_code, response.content)
    if isinstance(error, GoogleAPICallError) and error.grpc_status_code is not None:
        details, code = [{"reason": error.reason}], error.grpc_status_code.name
        return _classify(error.code or 0, ErrorBody(str(error.message or ""), code, details))
    problem = "no answer" if isinstance(error, _NO_ANSWER) else "the answer cannot be read"
    return errors.Unavailable(f"{problem}: {error!s:.{TEXT_MAX}}")


def classify_refusal(http_status: int, body: bytes) -> errors.ProvisionerError:
    """Return the error that a refusal over REST means; a body of another form has no words."""
    try:
        error = _DECODER.decode(body).get("error", ErrorBody())
    except JSON_ERRORS:
        error = ErrorBody()
    return _classify(http_status, error)


def _classify(http_status: int, error: ErrorBody) -> errors.ProvisionerError:
    message = error.message[:TEXT_MAX] or "the answer has no error text"
    text = f"{message} ({f'HTTP {http_status} {error.status}'.rstrip()})"
    refusal = _find_kind(http_status, error)(text)
    if isinstance(refusal, errors.InvalidRequest):
        refusal.status = error.status
    return refusal


def _find_kind(http_status: int, error: ErrorBody) -> type[errors.ProvisionerError]:
    code = error.status if error.status in _STATUSES else _CODES.get(http_status, "")
    reasons = " ".join(str(each.get("reason", "")) for each in error.details)
    lines = "\n".join((classify_failure(error.message), reasons, error.message))
    for of, words, kind in _REFUSALS:
        if of in ("", code) and re.search(words, lines):
            return kind
    return errors.Unavailable if http_status >= _SERVER_ERROR else errors.InvalidRequest


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


BATCH_MAX = 1_000  # assumes: publish
"""Messages in one request (https://cloud.google.com/pubsub/quotas#resource_limits)."""
PUBLISH_SECONDS = 10.0  # the longest wait for the answer to one request
CLIENT = ClientInfo(user_agent=f"tpu-provisioner/{VERSION}")  # type: ignore[no-untyped-call]


class PubsubTopic:
    """One topic by Google's own client, for one thread.

    It is the client that Google's publisher itself is built on, asked for one request at a time:
    batching, repetition and limits belong to the caller (docs/decisions/clients.md).
    """

    timeout_seconds = PUBLISH_SECONDS

    def __init__(self, open_client: Callable[[], PublisherClient], topic: str) -> None:
        """Prepare. The client is opened at the first use, so in the process that uses it.

        Nothing is sent: a publisher may not ask whether the topic exists.
        """
        self._open, self.name = open_client, topic
        self._client: PublisherClient | None = None

    def publish(self, messages: Sequence[Message]) -> list[str]:
        """Publish a batch and return the message ids, in order, once the service has stored it.

        It is one request: nothing is repeated inside. After an error the batch may still have been
        stored: publishing it again can duplicate, never lose. `InvalidRequest` says that the
        service never accepts one of the messages.
        """
        batch = [{"data": each.data, "attributes": each.attributes} for each in messages]
        request = {"topic": self.name, "messages": batch}
        try:
            with translate_errors(f"Publish {self.name}"):
                client = self._client = self._client or self._open()
                ids = client.publish(request, retry=None, timeout=self.timeout_seconds).message_ids
                if len(ids) != len(messages):
                    raise ValueError(f"{len(ids)} ids for {len(messages)} messages")
        except errors.Unavailable:
            # A gRPC channel waits up to two minutes before it connects again; a new one does not.
            self.close()
            raise
        except errors.InvalidRequest as error:
            if error.status == "INVALID_ARGUMENT":
                raise
            # By a proxy, for example: it says nothing of the messages.
            raise errors.Unavailable(f"{self.name}: {error}") from error
        return list(ids)

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            client.transport.close()  # type: ignore[no-untyped-call]
