"""Sends each request to a Google API once and in time, for the clients that use REST.

The sessions are google-auth's. requests repeats nothing by itself. Its timeout starts again with
each piece of an answer, so this module keeps the total deadline of a call.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import requests
import urllib3
from google.api_core.exceptions import from_http_response
from google.auth.transport.requests import AuthorizedSession
from requests.adapters import BaseAdapter, HTTPAdapter

from shared.edges.clock import SYSTEM_CLOCK
from shared.edges.google_errors import translate_errors
from shared.edges.kubernetes_connection import CONNECTIONS_MAX
from shared.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shared.edges.google_account import GoogleAccount
    from shared.model.times import Clock

TIMEOUT_SECONDS = 30.0  # assumes: create-answers-fast
"""GKE answers a create in about 1.5 s; past this the outcome is unknown and is looked up by the
next delivery."""
PROMPT_SECONDS = 5.0
"""The longest time from a call until its request is sent, where it may not be sent late."""
_TOKEN_SECONDS = 5.0
_PIECE_BYTES = 2**16
_HTTP_REDIRECT, _HTTP_REFUSAL = 300, 400


class Deadline(urllib3.Timeout):
    """The time of one call: from its beginning, with the access token, to the end of its answer.

    It is the `timeout` of a call of google-api-core or google-auth, and arrives unchanged where the
    request is sent. A request for an access token, which gets it too, takes it for five seconds.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK, *, promptly: bool = False) -> None:
        """Begin.

        Args:
            clock: The time of day, which goes on while an instance is frozen.
            promptly: The request rests on a look that was made just now, so it is sent within
                `PROMPT_SECONDS` or not at all.
        """
        super().__init__(total=_TOKEN_SECONDS)
        self._clock, self._promptly, self._began = clock, promptly, clock.now()

    def __call__(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return the call with this deadline, as google-api-core applies a timeout."""
        return partial(call, timeout=self)

    def start_sending(self) -> urllib3.Timeout:
        """Return the time that is left for connection and answer.

        Raises:
            requests.Timeout: none is left, or a request that must be prompt meets a clock that was
                set back.
        """
        passed = self._clock.now() - self._began
        limit = PROMPT_SECONDS if self._promptly else TIMEOUT_SECONDS
        if passed >= limit or (self._promptly and passed < 0):
            raise requests.Timeout("not sent: getting an access token took too long")
        return urllib3.Timeout(connect=limit - passed, total=TIMEOUT_SECONDS - passed)

    def check(self) -> None:
        """Raise `requests.Timeout` if the time is over."""
        if self._clock.now() - self._began >= TIMEOUT_SECONDS:
            raise requests.Timeout(f"the answer takes more than {TIMEOUT_SECONDS:.0f} s")


class OnceInTime(BaseAdapter):
    """Sends each request once, within the deadline of its call, and follows no redirection."""

    def __init__(self, adapter: BaseAdapter) -> None:
        """Prepare.

        Args:
            adapter: Whose connections are used; google-auth's has the client certificate.
        """
        super().__init__()
        self._adapter = adapter

    def send(  # type: ignore[override]  # the name of an option is that of requests' base class
        self, request: requests.PreparedRequest, *, timeout: Deadline, **options: Any
    ) -> requests.Response:
        """Return the answer, read to its end.

        Raises:
            requests.RequestException: there is none in time, or it is a redirection.
        """
        options["stream"] = True
        response = self._adapter.send(request, timeout=timeout.start_sending(), **options)  # type: ignore[arg-type]
        try:
            response._content = _read(response.raw, timeout)  # noqa: SLF001 -- what requests itself sets
        except urllib3.exceptions.HTTPError as error:
            raise requests.ConnectionError(error, request=request) from error
        finally:
            response.close()
        if _HTTP_REDIRECT <= response.status_code < _HTTP_REFUSAL:
            raise requests.TooManyRedirects(f"HTTP {response.status_code}", request=request)
        return response

    def close(self) -> None:
        """Close the kept connections."""
        self._adapter.close()


def _read(answer: urllib3.HTTPResponse, deadline: Deadline) -> bytes:
    pieces = []
    while piece := answer.read1(_PIECE_BYTES, decode_content=True):
        pieces.append(piece)
        deadline.check()
    return b"".join(pieces)


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
        """Prepare; nothing is sent or opened yet.

        Args:
            endpoint: Base URL.
            account: Whose credentials are used.
            clock: The time of day.
        """
        self._endpoint, self._account, self._clock = endpoint.rstrip("/"), account, clock
        self._lock = threading.Lock()
        self._session: Any = None  # google-auth has no types

    def open(self) -> Any:
        """Return the session, opened at the first call: no earlier, as no fork may share it.

        Raises:
            Denied, Unavailable: there is no Google account.
        """
        with self._lock:
            if self._session is None:
                credentials = self._account.find_credentials()
                self._session = bound_session(AuthorizedSession(credentials), self._endpoint)  # type: ignore[no-untyped-call]
            return self._session

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        promptly: bool = False,
    ) -> bytes:
        """Return the body of a successful answer.

        Args:
            method: HTTP verb.
            path: below the base URL.
            body: sent as JSON; None sends none.
            promptly: as for a `Deadline`.

        Raises:
            ProvisionerError: the leaf of `shared.model.errors` that the table of `google_errors`
                finds; `Unavailable` when there was no answer.
        """
        deadline = Deadline(self._clock, promptly=promptly)
        with translate_errors(f"{method} {path}"):
            response = self.open().request(
                method,
                f"{self._endpoint}/{path}",
                data=None if body is None else msgspec.json.encode(body),
                headers={"Content-Type": "application/json"},
                timeout=deadline,
            )
            if response.status_code >= _HTTP_REFUSAL:
                raise from_http_response(response)  # type: ignore[no-untyped-call]
        return bytes(response.content)
