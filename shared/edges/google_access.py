"""Access tokens of the function's own Google account, by google-auth over urllib3; `google.auth` is only here.

The ``requests`` transport is left out on purpose: it makes a cold start half as long again (`make bench`).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from shared.core.errors import Denied, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    import urllib3

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)


def google_token_source(http: urllib3.PoolManager) -> Callable[[], str]:
    """Return a function that gives a valid access token of the environment's Google account.

    The token is fetched at the first call and renewed shortly before it ends; calls from several threads share it.
    The returned function raises `Denied` without any account, `Unavailable` when the token server fails.
    """
    import google.auth  # noqa: PLC0415 -- stand-ins need no account, and pay for no import
    from google.auth import exceptions  # noqa: PLC0415
    from google.auth.transport.urllib3 import Request  # noqa: PLC0415

    request = Request(http)  # type: ignore[no-untyped-call]
    lock = threading.Lock()
    try:
        credentials, _ = google.auth.default(scopes=SCOPES, request=request)
    except exceptions.DefaultCredentialsError as error:
        raise Denied(f"no Google account in this environment: {error}") from error

    def give_token() -> str:
        with lock:
            if not credentials.valid:
                try:
                    credentials.refresh(request)  # type: ignore[no-untyped-call]
                except exceptions.TransportError as error:
                    raise Unavailable(f"token server: {error}") from error
                except exceptions.RefreshError as error:
                    raise Denied(f"token server: {error}") from error
            return str(credentials.token)

    return give_token
