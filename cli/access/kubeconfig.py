"""Connects by a kubeconfig, for the person who runs the command.

It is read by the official client, with exec plugins, proxies and certificates
(docs/decisions/clients.md). This module adds only which errors an operator sees, and
errors for what the client would ignore in silence.
"""

from __future__ import annotations

import logging
import ssl
import threading
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubernetes.client.configuration import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import kube_config
from kubernetes.config.config_exception import ConfigException

from shared.edges.connection import CONNECTIONS_MAX, Connection, TokenFile, explain_refused
from shared.model.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Callable

    import urllib3

_BEARER = "BearerToken"
"""The client's own name for the header Authorization."""
_IGNORED_BY_THE_CLIENT = ("as", "as-groups", "as-uid", "as-user-extra")
"""With these the client acts as the person, and not as the account that the kubeconfig names
(https://github.com/kubernetes-client/python/issues/362)."""
_CREDENTIALS = "token, tokenFile, exec, client-certificate, username with password"
_logger = logging.getLogger(__name__)
_loaders: Any = kube_config


class ClientConnection(Connection):
    """A connection by the client's own configuration, which is kept and not copied."""

    def __init__(self, configuration: Configuration, *, token: Callable[[], str] | None) -> None:
        """Prepare; `token` takes the place of the credentials of the configuration."""
        authority, certificate = configuration.ssl_ca_cert or "", configuration.cert_file
        super().__init__(url=str(configuration.host), token=token, ca_file=authority)
        self._configuration = configuration
        if self._context and certificate:
            try:
                self._context.load_cert_chain(certificate, configuration.key_file)
            except OSError as error:
                raise ValueError(f"certificates: {certificate}: {explain_refused(error)}") from error
        if self._context and not configuration.verify_ssl:
            self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE
        self._renewing = threading.Lock()

    @cached_property
    def pool(self) -> urllib3.PoolManager:
        """The client's transport: trust, client certificate and proxy are in it."""
        self._configuration.connection_pool_maxsize = CONNECTIONS_MAX
        pool: urllib3.PoolManager = RESTClientObject(self._configuration).pool_manager
        if self._context:
            pool.connection_pool_kw["ssl_context"] = self._context
        return pool

    def authorize(self) -> str:
        """Return the header Authorization for the next request; empty sends none.

        A token that cannot be read again stays in use, because it may be valid for long.
        """
        if self._token:
            return super().authorize()
        with self._renewing:
            try:
                return self._configuration.get_api_key_with_prefix(_BEARER) or ""
            except (OSError, ConfigException) as error:
                _logger.warning("the cluster's token was not renewed", extra={"problem": str(error)})
                return self._configuration.api_key.get(_BEARER, "")


def connection_from_kubeconfig(path: Path | str, context_name: str = "") -> Connection:
    """Return the connection of one context of a kubeconfig, by default its current one.

    Exec plugins are run here, and again five minutes before what they gave expires. One that cannot
    be used, asks to act as another account, or gives its user no credentials is `Misconfigured`.
    """
    try:
        return _load(str(path), context_name)
    except Misconfigured:
        raise
    except Exception as error:
        # The client lets through whatever a malformed file makes Python or a library raise.
        clear = isinstance(error, ConfigException | ValueError) and not isinstance(error, UnicodeError)
        problem = str(error) if clear else "is not valid"
        if isinstance(error, OSError):
            problem = f"{error.filename}: {error.strerror}"
        valid = "" if "valid: " in problem else "; valid: a kubeconfig as kubectl reads it"
        raise Misconfigured((f"kubeconfig {path}: {problem}{valid}",)) from error


def _load(path: str, context_name: str) -> Connection:
    merged = _loaders.KubeConfigMerger(path).config
    if merged is None:
        raise ConfigException("cannot be read, because it does not exist")
    loader = _loaders.KubeConfigLoader(merged, context_name or None, config_base_path=None)
    context = loader.current_context["context"]
    user, folder = _find_user(merged, context.get("user"))
    configuration = Configuration()
    loader.load_and_set(configuration)
    if user and not (configuration.api_key or configuration.cert_file):
        # The client has logged why an exec plugin failed.
        raise ConfigException(f"user {context['user']!r} gets no credentials; valid: {_CREDENTIALS}")
    return ClientConnection(
        configuration,
        # The client reads it only once.
        token=TokenFile(folder / str(user["tokenFile"])) if user.get("tokenFile") else None,
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
