"""How to reach one Kubernetes API: from a kubeconfig file, from the pod's own account, or from a URL and a token.

Reads files and environment once; tokens from files are read again at most once a minute. No request is
sent from here. Programs that a kubeconfig names (exec plugins) are never run.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from shared.core.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_REREAD_SECONDS = 60.0
"""The kubelet rotates a mounted token when a fifth of its hour is left, so a minute is never too late
(https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Where a Kubernetes API is and how to identify oneself to it."""

    url: str
    """``http(s)://host[:port][/prefix]``."""
    token: Callable[[], str] | None = None
    """Gives the bearer token for the next request; None sends none."""
    ssl_context: ssl.SSLContext | None = None
    """Trust and client certificate; None means the system's trust."""
    server_hostname: str | None = None
    """The name to expect in the server's certificate, when it is not the URL's host."""
    namespace: str = "default"
    """The namespace of the account or of the kubeconfig's context."""


class TokenFile:
    """A bearer token kept in a file that somebody else renews."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._clock = path, clock
        self._token, self._read_at = "", float("-inf")

    def __call__(self) -> str:
        """Return the token, read again from the file when the last reading is a minute old.

        A file that cannot be read after a first success leaves the last token in use.

        Raises:
            Misconfigured: the file could never be read.
        """
        now = self._clock()
        if now - self._read_at >= TOKEN_REREAD_SECONDS:
            try:
                self._token = self._path.read_text(encoding="utf-8").strip()
            except OSError as error:
                if not self._token:
                    raise Misconfigured((f"token file {self._path}: {error.strerror}",)) from error
            self._read_at = now
        return self._token


def connection_in_cluster(environ: Mapping[str, str] | None = None, folder: Path = ACCOUNT_FOLDER) -> Connection:
    """Return the connection of the pod's own service account.

    Source: https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/.

    Raises:
        Misconfigured: this is not a pod with a mounted account.
    """
    environ = os.environ if environ is None else environ
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise Misconfigured(
            ("KUBERNETES_SERVICE_HOST is not set: not in a cluster; name a kubeconfig file instead",)
        )
    try:
        context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    except (OSError, ssl.SSLError) as error:
        raise Misconfigured((f"{folder / 'ca.crt'}: {error}",)) from error
    namespace_file = folder / "namespace"
    namespace = namespace_file.read_text(encoding="utf-8").strip() if namespace_file.exists() else "default"
    bracketed = f"[{host}]" if ":" in host else host
    return Connection(
        url=f"https://{bracketed}:{port}",
        token=TokenFile(folder / "token"),
        ssl_context=context,
        namespace=namespace,
    )


def connection_from_kubeconfig(path: Path | str, context_name: str = "") -> Connection:
    """Return the connection of one context of a kubeconfig file, by default its current one.

    Understands CA and client certificates (data or file), tokens (literal or file), ``tls-server-name`` and
    ``insecure-skip-tls-verify``. Source: https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/.

    Raises:
        Misconfigured: the file or one of its entries is missing, malformed, or asks for what is refused here
            (exec plugins, auth providers, passwords, proxies, impersonation).
    """
    return _Kubeconfig(Path(path)).connection(context_name)


class _Kubeconfig:
    """One kubeconfig file while it is being read; every error names the file and the entry."""

    def __init__(self, path: Path) -> None:
        import yaml  # noqa: PLC0415 -- only the reader of a kubeconfig pays for the import

        self._path = path
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise self._problem("cannot be read", str(error)) from error
        if not isinstance(content, dict):
            raise self._problem("is not a mapping", type(content).__name__)
        self._content: dict[str, Any] = content

    def connection(self, context_name: str) -> Connection:
        name = context_name or str(self._content.get("current-context") or "")
        if not name:
            raise self._problem("current-context", "is empty: name the context to use")
        context = self._entry("contexts", "context", name)
        cluster = self._entry("clusters", "cluster", str(context.get("cluster", "")))
        user = self._entry("users", "user", str(context["user"])) if context.get("user") else {}
        self._refuse(cluster, ("proxy-url",))
        self._refuse(user, ("exec", "auth-provider", "username", "password", "as", "as-groups", "as-uid"))
        url = str(cluster.get("server", ""))
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise self._problem("clusters[].cluster.server", f"{url!r} is not an http:// or https:// URL")
        return Connection(
            url=url,
            token=self._token(user),
            ssl_context=self._ssl_context(cluster, user) if parts.scheme == "https" else None,
            server_hostname=cluster.get("tls-server-name"),
            namespace=str(context.get("namespace") or "default"),
        )

    def _problem(self, where: str, what: str) -> Misconfigured:
        return Misconfigured((f"kubeconfig {self._path}: {where}: {what}",))

    def _entry(self, plural: str, singular: str, name: str) -> dict[str, Any]:
        for entry in self._content.get(plural) or ():
            if isinstance(entry, dict) and entry.get("name") == name:
                return dict(entry.get(singular) or {})
        known = ", ".join(str(entry.get("name")) for entry in self._content.get(plural) or ()) or "none"
        raise self._problem(plural, f"no entry named {name!r}; known: {known}")

    def _refuse(self, entry: dict[str, Any], keys: tuple[str, ...]) -> None:
        for key in keys:
            if entry.get(key):
                raise self._problem(
                    key, "is not supported here; use a bearer token, a token file or a client certificate"
                )

    def _token(self, user: dict[str, Any]) -> Callable[[], str] | None:
        if user.get("tokenFile"):
            return TokenFile(self._path.parent / str(user["tokenFile"]))
        token = str(user.get("token") or "")
        return (lambda: token) if token else None

    def _ssl_context(self, cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext:
        authority = self._bytes(cluster, "certificate-authority")
        certificate, key = self._bytes(user, "client-certificate"), self._bytes(user, "client-key")
        try:
            context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
            if cluster.get("insecure-skip-tls-verify"):
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if certificate:
                _load_certificate(context, certificate, key)
        except (ssl.SSLError, ValueError) as error:
            raise self._problem("certificates", str(error)) from error
        return context

    def _bytes(self, entry: dict[str, Any], key: str) -> bytes:
        """Return what ``key-data`` (base64) or the file named by ``key`` holds; empty when neither is given."""
        try:
            if entry.get(f"{key}-data"):
                return base64.b64decode(str(entry[f"{key}-data"]), validate=True)
            if entry.get(key):
                return (self._path.parent / str(entry[key])).read_bytes()
        except (OSError, binascii.Error) as error:
            raise self._problem(key, str(error)) from error
        return b""


def _load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a client certificate; the ssl module only takes files, so it passes through a private temporary one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "client.pem"
        path.touch(mode=0o600)
        path.write_bytes(certificate + b"\n" + key)
        context.load_cert_chain(path)
