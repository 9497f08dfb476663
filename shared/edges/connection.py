"""Connects to one Kubernetes API: by kubeconfig, by the pod's account, or by URL and token.

Configuration and transport are the official client's (docs/decisions/0027-kubernetes-client.md):
kubeconfigs with exec plugins, proxies, certificates, and the pod's account with its renewed token.
This module adds only which errors an operator sees, and errors for what the client would ignore in
silence. It sends no request.
"""

from __future__ import annotations

import base64
import logging
import ssl
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kubernetes.client.configuration import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import kube_config
from kubernetes.config.config_exception import ConfigException
from urllib3.util.ssl_ import create_urllib3_context

from shared.model.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import urllib3

    from shared.settings import ClusterSettings

TOKEN_REREAD_SECONDS = 60.0
"""The kubelet rotates a mounted token when a fifth of its hour is left, so a minute is never too
late (https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/)."""
CONNECTIONS_MAX = 256
"""Kept open at most to one server: an instance of a function serves 16 requests, each with 16 calls
side by side, and the exporter has two watches per kind of workload."""
_BEARER = "BearerToken"
"""The client's own name for the header Authorization."""
_IGNORED_BY_THE_CLIENT = ("as", "as-groups", "as-uid", "as-user-extra")
"""With these the client acts as the person, and not as the account that the kubeconfig names
(https://github.com/kubernetes-client/python/issues/362)."""
_CREDENTIALS = "token, tokenFile, exec, client-certificate, username with password"
_logger = logging.getLogger(__name__)
_loaders: Any = kube_config


class Connection:
    """Where a Kubernetes API is and how to identify oneself to it."""

    def __init__(
        self,
        *,
        url: str = "",
        token: Callable[[], str] | None = None,
        ca_file: str = "",
        ca_data: str = "",
        namespace: str = "default",
        configuration: Configuration | None = None,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            url: ``http(s)://host[:port][/prefix]``; empty: that of `configuration`.
            token: Gives the bearer token for the next request; None leaves `configuration` alone.
            ca_file: The authority to trust; empty: that of `configuration`, else the system's.
            ca_data: The same as a PEM in base64.
            namespace: The namespace of the account or of the kubeconfig's context.
            configuration: The client's own. It is kept, not copied.

        Raises:
            ValueError: the URL is not one, or a certificate cannot be used.
        """
        self._configuration = Configuration() if configuration is None else configuration
        if url:
            self._configuration.host = url
        if ca_file:
            self._configuration.ssl_ca_cert = ca_file
        if token:
            hooked: Any = self._configuration
            hooked.refresh_api_key_hook = _hook(token)
        self.url = str(self._configuration.host).rstrip("/")
        self.namespace = namespace
        self._renewing = threading.Lock()
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"not an http:// or https:// URL: {self.url!r}")
        self._context = (
            _build_context(self._configuration, ca_data) if parts.scheme == "https" else None
        )

    def open_pool(self) -> urllib3.PoolManager:
        """Return the client's transport: trust, client certificate and proxy are in it."""
        self._configuration.connection_pool_maxsize = CONNECTIONS_MAX
        pool: urllib3.PoolManager = RESTClientObject(self._configuration).pool_manager
        if self._context:
            # Else urllib3 makes a context for each connection. With the system's authorities that
            # is 30 ms of CPU and 0.9 MiB.
            pool.connection_pool_kw["ssl_context"] = self._context
        return pool

    def authorize(self) -> str:
        """Return the header Authorization for the next request; empty sends none.

        A token that cannot be read again stays in use, because it may be valid for long.
        """
        with self._renewing:
            try:
                return self._configuration.get_api_key_with_prefix(_BEARER) or ""
            except (OSError, ConfigException) as error:
                _logger.warning(
                    "the cluster's token was not renewed", extra={"problem": str(error)}
                )
                return self._configuration.api_key.get(_BEARER, "")


class TokenFile:
    """A bearer token in a file that another process renews."""

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
                    raise Misconfigured(
                        (f"token file {self._path}: cannot be read: {error.strerror}",)
                    ) from error
            self._read_at = now
        return self._token


def connection_from_settings(cluster: ClusterSettings, token: Callable[[], str]) -> Connection:
    """Return the connection that the settings of a cluster describe.

    Args:
        cluster: Its settings. A token file in them takes the place of `token`.
        token: Gives the access token of the Google account.
    """
    given = TokenFile(Path(cluster.token_file)) if cluster.token_file else token
    return Connection(
        url=cluster.endpoint, token=given, ca_file=cluster.ca_file, ca_data=cluster.ca_data
    )


def connection_from_kubeconfig(path: Path | str, context_name: str = "") -> Connection:
    """Return the connection of one context of a kubeconfig, by default its current one.

    Exec plugins are run here, and again five minutes before what they gave expires. Source:
    https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/.

    Raises:
        Misconfigured: the file or one of its entries is missing or malformed, asks to act as
            another account, or gives a user no credentials.
    """
    try:
        return _load_kubeconfig(str(path), context_name)
    except Misconfigured:
        raise
    except Exception as error:
        # The client lets through whatever a malformed file makes Python or a library raise.
        clear = isinstance(error, ConfigException | ValueError) and not isinstance(
            error, UnicodeError
        )
        problem = str(error) if clear else "is not valid"
        if isinstance(error, OSError):
            problem = f"{error.filename}: {error.strerror}"
        valid = "" if "valid: " in problem else "; valid: a kubeconfig as kubectl reads it"
        raise Misconfigured((f"kubeconfig {path}: {problem}{valid}",)) from error


def _load_kubeconfig(path: str, context_name: str) -> Connection:
    merged = _loaders.KubeConfigMerger(path).config
    if merged is None:
        raise ConfigException("cannot be read, because it does not exist")
    loader = _loaders.KubeConfigLoader(merged, context_name or None, config_base_path=None)
    context = loader.current_context["context"]
    user, folder = _find_user(merged, context.get("user"))
    configuration = Configuration()
    with _complaints_of_plugins() as complaints:
        loader.load_and_set(configuration)
    if user and not (configuration.api_key or configuration.cert_file):
        reason = "; ".join(complaints) or f"valid: {_CREDENTIALS}"
        raise ConfigException(f"user {context['user']!r} gets no credentials: {reason}")
    return Connection(
        configuration=configuration,
        # The client reads it only once.
        token=TokenFile(folder / str(user["tokenFile"])) if user.get("tokenFile") else None,
        namespace=str(context.get("namespace") or "default"),
    )


def _find_user(merged: Any, name: str | None) -> tuple[dict[str, Any], Path]:
    """Return the context's user and the folder of its file.

    The client takes a user without an entry for anonymous, and ignores some fields.
    """
    if not name:
        return {}, Path()
    entry = merged["users"].get_with_name(name)
    user = dict(entry.value.get("user") or {})
    for key in _IGNORED_BY_THE_CLIENT:
        if user.get(key):
            raise ConfigException(f"user {name!r}: {key} is not supported; valid: {_CREDENTIALS}")
    return user, Path(entry.path).parent


def _hook(token: Callable[[], str]) -> Callable[[Configuration], None]:
    def renew(configuration: Configuration) -> None:
        found = token()
        configuration.api_key = {_BEARER: f"Bearer {found}"} if found else {}

    return renew


def _build_context(configuration: Configuration, ca_data: str) -> ssl.SSLContext:
    """Return trust and client certificate, for all connections.

    Raises:
        ValueError: a certificate cannot be used.
    """
    context = create_urllib3_context(
        cert_reqs=ssl.CERT_REQUIRED if configuration.verify_ssl else ssl.CERT_NONE
    )
    authority, certificate = configuration.ssl_ca_cert, configuration.cert_file
    try:
        if ca_data:
            context.load_verify_locations(cadata=base64.b64decode(ca_data).decode("ascii"))
        elif authority:
            context.load_verify_locations(authority)
        else:
            context.load_default_certs()
        if certificate:
            context.load_cert_chain(certificate, configuration.key_file)
    except OSError as error:
        why = str(getattr(error, "reason", "") or error.strerror).replace("_", " ").lower()
        raise ValueError(f"certificates: {authority or ''} {certificate or ''}: {why}") from error
    return context


@contextmanager
def _complaints_of_plugins() -> Iterator[list[str]]:
    """Collect why an exec plugin failed: the client logs that to the root logger, and goes on."""
    found: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        if record.module != "kube_config":
            return True
        found.append(record.getMessage())
        return False

    root = logging.getLogger()
    root.addFilter(keep)
    try:
        yield found
    finally:
        root.removeFilter(keep)
