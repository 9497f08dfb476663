"""Connects by a kubeconfig, as the official client reads it (docs/decisions/clients.md)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from kubernetes.client.configuration import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import kube_config as _kube_config

from shared.edges.connection import CONNECTIONS_MAX, Connection
from shared.model.errors import Misconfigured

if TYPE_CHECKING:
    from pathlib import Path

    import urllib3

_loaders: Any = _kube_config
_BEARER = "BearerToken"  # the client's own name for the header Authorization


class ClientConnection(Connection):
    """A connection by the client's own configuration, which is kept and not copied."""

    def __init__(self, configuration: Configuration) -> None:
        """Prepare; nothing is sent yet."""
        super().__init__(url=str(configuration.host))
        self._configuration = configuration

    @cached_property
    def pool(self) -> urllib3.PoolManager:
        """The client's transport: trust, client certificate and proxy are in it."""
        self._configuration.connection_pool_maxsize = CONNECTIONS_MAX
        pool: urllib3.PoolManager = RESTClientObject(self._configuration).pool_manager
        return pool

    def authorize(self) -> str:
        """Return the header Authorization for the next request; empty sends none."""
        return (self._configuration.get_api_key_with_prefix(_BEARER) or "").strip()


def _check_user(loader: Any) -> None:
    """Refuse a user who acts as another: the client would act as the person, with more rights."""
    name = loader.current_context["context"].get("user")
    user = loader._config["users"].get_with_name(name).value["user"] or {} if name else {}  # noqa: SLF001
    others = [key for key in user if key == "as" or key.startswith("as-")]
    if others:
        raise ValueError(f"user {name!r}: {others[0]} is not supported")


def connection_from_kubeconfig(path: Path | str, context_name: str = "") -> Connection:
    """Return the connection of one context of a kubeconfig, by default its current one.

    The client runs exec plugins here, and again before what they gave expires.
    """
    configuration: Any = Configuration()
    try:
        loader: Any = _loaders.KubeConfigLoader(
            _loaders.KubeConfigMerger(str(path)).config, context_name or None, config_base_path=None
        )
        _check_user(loader)
        loader.load_and_set(configuration)
        return ClientConnection(configuration)
    except Exception as error:
        # The client lets through whatever a malformed file makes Python or a library raise.
        problem = f"kubeconfig {path}: cannot be used: {error}; valid: a kubeconfig as kubectl reads it"
        raise Misconfigured((problem,)) from error
