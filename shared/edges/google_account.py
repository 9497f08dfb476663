"""Finds the Google account of this process by google-auth, and keeps its access token valid.

The order is that of application default credentials: the file that GOOGLE_APPLICATION_CREDENTIALS
names (a service account, an impersonated one, or a workload identity pool), a person's own login
by gcloud, the metadata server
(https://cloud.google.com/docs/authentication/application-default-credentials).
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import google.auth
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import GoogleAuthError, TransportError
from google.auth.transport.requests import Request

from shared.model.errors import Denied, ProvisionerError, Unavailable
from shared.settings import Credentials

if TYPE_CHECKING:
    from google.auth.credentials import Credentials as GoogleCredentials

SCOPES = (
    "https://www.googleapis.com/auth/cloud-platform",
    # Without this one GKE knows the account by its number only, and an RBAC binding to its e-mail
    # does not hold:
    # https://cloud.google.com/kubernetes-engine/docs/how-to/role-based-access-control#forbidden_error_for_service_accounts_on_vm_instances
    "https://www.googleapis.com/auth/userinfo.email",  # assumes: user-name
)
UNREADABLE = (AttributeError, LookupError, TypeError, ValueError, RecursionError)
"""What Google's libraries raise for an answer of an unexpected form."""
_TIMEOUT_SECONDS = 5.0
_LOGIN = "gcloud auth application-default login"
_HTTP_THROTTLED, _HTTP_SERVER_ERROR = 429, 500


class GoogleAccount:
    """The Google account of this process, usable from several threads.

    Nothing is looked up before the first use. What was found is kept; a failure is not.
    """

    def __init__(self, kind: Credentials = Credentials.GOOGLE) -> None:
        """Prepare; nothing is sent yet.

        Args:
            kind: Whether there is an account at all. Stand-ins take none.
        """
        self._kind = kind
        self._lock = threading.Lock()
        self._found: Any = None  # google-auth has no types

    def find_credentials(self) -> GoogleCredentials:
        """Return the credentials, for the clients of Google's APIs; anonymous ones for stand-ins.

        Raises:
            Denied: there are none.
            Unavailable: they could not be found just now.
        """
        with self._lock:
            return self._find()  # type: ignore[no-any-return]

    def give_token(self) -> str:
        """Return a valid access token; empty for stand-ins. It is renewed shortly before it ends.

        Raises:
            Denied: there is no account, or it gets no token.
            Unavailable: whoever gives the token does not answer.
        """
        with self._lock:
            credentials = self._find()
            try:
                if not credentials.valid:
                    credentials.refresh(partial(Request(), timeout=_TIMEOUT_SECONDS))
            except GoogleAuthError as error:
                raise classify_account_error(error) from error
            except UNREADABLE as error:
                raise Unavailable(
                    f"no access token: the answer cannot be read: {error!r}"
                ) from error
            return credentials.token or ""

    def _find(self) -> Any:
        if self._found is None:
            try:
                if self._kind == Credentials.ANONYMOUS:
                    self._found = AnonymousCredentials()  # type: ignore[no-untyped-call]
                else:
                    self._found, _project = google.auth.default(scopes=SCOPES)
            except GoogleAuthError as error:
                raise classify_account_error(error) from error
        return self._found


def classify_account_error(error: GoogleAuthError) -> ProvisionerError:
    """Return what google-auth's error means: `Unavailable` if a retry can mend it, else `Denied`.

    google-auth wraps the answer of the metadata server in its errors, as the second argument of a
    `TransportError`.
    """
    transport = error if isinstance(error, TransportError) else error.__cause__
    answer = (
        transport.args[1]
        if isinstance(transport, TransportError) and len(transport.args) > 1
        else None
    )
    status = getattr(answer, "status", _HTTP_SERVER_ERROR)
    no_answer = isinstance(transport, TransportError) and (
        status >= _HTTP_SERVER_ERROR or status == _HTTP_THROTTLED
    )
    if no_answer or error.retryable:
        return Unavailable(f"no access token: {error}")
    return Denied(f"there are no Google credentials: {error}; log in with: {_LOGIN}")
