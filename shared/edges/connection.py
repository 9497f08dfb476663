"""Where a Kubernetes API is and how one identifies oneself: by URL, authority and token.

It sends no request, and does without the official client, which costs a sixth of a cold start
(docs/decisions/clients.md).
"""

from __future__ import annotations

import base64
import ssl
import time
from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import urllib3
from requests.utils import get_environ_proxies, select_proxy
from urllib3.util import make_headers, parse_url
from urllib3.util.ssl_ import create_urllib3_context

from shared.model.errors import Misconfigured, Unavailable

TOKEN_REREAD_SECONDS = 60.0
"""The kubelet rotates a mounted token when a fifth of its hour is left, so a minute is never too
late (https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/)."""
CONNECTIONS_MAX = 256
"""Kept open at most to one server: an instance of a function serves 16 requests, each with 16 calls
side by side, and the exporter has two watches per kind of workload."""


class Connection:
    """Where a Kubernetes API is and how to identify oneself to it."""

    def __init__(
        self,
        *,
        url: str,
        token: Callable[[], str] | None = None,
        ca_file: str = "",
        ca_data: str = "",
    ) -> None:
        """Prepare; nothing is sent yet. `ValueError`: not a URL, or a certificate is of no use.

        The authority to trust is a file, else a PEM in base64, else the system's.
        """
        self.url, self._token = url.rstrip("/"), token
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"not an http:// or https:// URL: {self.url!r}")
        self._context = _build_context(ca_file, ca_data) if parts.scheme == "https" else None

    def reach(self) -> tuple[str, urllib3.PoolManager]:
        """Return the URL, and the kept connections to it."""
        return self.url, self.pool

    @cached_property
    def pool(self) -> urllib3.PoolManager:
        """The kept connections, through the proxy that the environment names."""
        # Else urllib3 makes a context for each connection. With the system's authorities that is
        # 30 ms of CPU and 0.9 MiB.
        trust: dict[str, Any] = {"ssl_context": self._context} if self._context else {}
        proxy = select_proxy(self.url, get_environ_proxies(self.url))
        if not proxy:
            return urllib3.PoolManager(maxsize=CONNECTIONS_MAX, **trust)
        headers = make_headers(proxy_basic_auth=parse_url(proxy).auth)
        return urllib3.ProxyManager(proxy, maxsize=CONNECTIONS_MAX, proxy_headers=headers, **trust)

    def authorize(self) -> str:
        """Return the header Authorization for the next request; empty sends none."""
        token = self._token() if self._token else ""
        return f"Bearer {token}" if token else ""


class GkeConnection(Connection):
    """The way to the API of a cluster as GKE describes it now: address and authority may change."""

    def __init__(self, locate: Callable[[], tuple[str, str]], token: Callable[[], str]) -> None:
        """Prepare; `locate` returns the URL, and the authority to trust if no public one signs."""
        self._locate, self._token = locate, token
        self._connect = lru_cache(maxsize=1)(lambda url, ca: Connection(url=url, ca_data=ca))

    def reach(self) -> tuple[str, urllib3.PoolManager]:
        """Return the URL, and the kept connections to it; `Unavailable` if neither is of use."""
        place = self._locate()
        try:
            return self._connect(*place).reach()
        except ValueError as error:
            raise Unavailable(f"GKE's answer cannot be read: {error}") from error


class TokenFile:
    """A bearer token in a file that another process renews."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._clock = path, clock
        self._token, self._read_at = "", float("-inf")

    def __call__(self) -> str:
        """Return the token, read again from the file when the last reading is a minute old.

        A file that cannot be read after a first success leaves the last token in use; one that
        never could be is `Misconfigured`.
        """
        now = self._clock()
        if now - self._read_at >= TOKEN_REREAD_SECONDS:
            try:
                self._token = self._path.read_text(encoding="utf-8").strip()
            except OSError as error:
                if not self._token:
                    problem = f"token file {self._path}: cannot be read: {error.strerror}"
                    raise Misconfigured((problem,)) from error
            self._read_at = now
        return self._token


def _build_context(authority: str, data: str) -> ssl.SSLContext:
    """Return whom all connections trust; `ValueError` if that cannot be read."""
    context = create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED)
    try:
        if data:
            context.load_verify_locations(cadata=base64.b64decode(data).decode("ascii"))
        elif authority:
            context.load_verify_locations(authority)
        else:
            context.load_default_certs()
    except OSError as error:
        problem = str(getattr(error, "reason", "") or error.strerror).replace("_", " ").lower()
        raise ValueError(f"certificates: {authority}: {problem}") from error
    return context
