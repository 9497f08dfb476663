"""Access tokens of the function's own Google account, straight from the metadata server that every instance has.

Not by google-auth: its Compute Engine credentials need `requests` (which google-auth does not install) and
`cryptography`; together they make a cold start 40 % dearer and take 17 MiB (docs/decisions/0002-clients.md).
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

import msgspec
import urllib3

from shared.core.errors import Denied, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

HOST_VARIABLE = "GCE_METADATA_HOST"
"""``host[:port]`` of another metadata server, by the name that Google's own libraries read."""
_HOST = "metadata.google.internal"
_PATH = "/computeMetadata/v1/instance/service-accounts/default/token?scopes="
SCOPES = (
    "https://www.googleapis.com/auth/cloud-platform",
    # Without this one GKE knows the account by its number only, and an RBAC binding to its e-mail does not hold:
    # https://cloud.google.com/kubernetes-engine/docs/how-to/role-based-access-control#forbidden_error_for_service_accounts_on_vm_instances
    "https://www.googleapis.com/auth/userinfo.email",
)
_TIMEOUT_SECONDS = 5.0
RENEW_BEFORE_SECONDS = 225.0
"""As google-auth does it (``google.auth._helpers.REFRESH_THRESHOLD``); the server has a new token before that
(https://cloud.google.com/compute/docs/access/authenticate-workloads#applications)."""
_HTTP_OK, _HTTP_SERVER_ERROR, _HTTP_THROTTLED = 200, 500, 429


class _Token(msgspec.Struct):
    access_token: str
    expires_in: float


_TOKEN = msgspec.json.Decoder(_Token)


def google_token_source(
    http: urllib3.PoolManager, clock: Callable[[], float] = time.monotonic
) -> Callable[[], str]:
    """Return a function that gives a valid access token of the instance's Google account.

    The token is fetched at the first call and renewed shortly before it ends; calls from several threads share it.
    The returned function raises `Denied` when the server knows no account, `Unavailable` when it cannot be reached
    or fails (https://cloud.google.com/compute/docs/metadata/querying-metadata).
    """
    url = f"http://{os.environ.get(HOST_VARIABLE) or _HOST}{_PATH}{','.join(SCOPES)}"
    lock = threading.Lock()
    held, renew_at = "", 0.0

    def give_token() -> str:
        nonlocal held, renew_at
        with lock:
            if not held or clock() >= renew_at:
                token = _fetch(http, url)
                held, renew_at = token.access_token, clock() + token.expires_in - RENEW_BEFORE_SECONDS
            return held

    return give_token


def _fetch(http: urllib3.PoolManager, url: str) -> _Token:
    try:
        answer = http.request(
            "GET", url, headers={"Metadata-Flavor": "Google"}, timeout=_TIMEOUT_SECONDS, redirect=False, retries=2
        )
    except urllib3.exceptions.HTTPError as error:
        raise Unavailable(f"metadata server: {error}") from error
    if answer.status >= _HTTP_SERVER_ERROR or answer.status == _HTTP_THROTTLED:
        raise Unavailable(f"metadata server: HTTP {answer.status}")
    if answer.status != _HTTP_OK:
        raise Denied(f"metadata server: HTTP {answer.status}: this instance has no Google account")
    try:
        return _TOKEN.decode(answer.data)
    except msgspec.DecodeError as error:
        raise Unavailable(f"metadata server: not a token: {error}") from error
