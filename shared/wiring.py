"""Builds the real ports from settings, once per process; the only place that knows both sides.

The clients are safe to share between threads, which the functions framework uses for concurrent requests.
"""

from __future__ import annotations

import os
import ssl
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import urllib3

from shared.configuration import read_settings
from shared.core.kinds.table import choose_kinds
from shared.core.settings import ClusterSettings, Credentials, Settings
from shared.edges.clock import SystemClock
from shared.edges.cluster import KubernetesCluster
from shared.edges.gke import GkeNodePools
from shared.edges.google_access import google_token_source
from shared.edges.google_rest import CONNECTIONS_MAX, GoogleRest
from shared.edges.kubernetes_api import Connection, KubernetesApi
from shared.edges.kubernetes_connection import TokenFile
from shared.edges.pubsub_topic import PubsubTopic
from shared.perform.outcome import Ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


class _Process:
    """The one cached set of ports of this process."""

    lock = threading.Lock()
    ports: Ports | None = None


def get_ports() -> Ports:
    """Return this process's ports, built from its environment at the first call.

    Raises:
        Misconfigured: the environment is wrong; every problem is named.
    """
    with _Process.lock:
        if _Process.ports is None:
            _Process.ports = build_ports(read_settings(os.environ))
        return _Process.ports


@contextmanager
def use(ports: Ports) -> Iterator[None]:
    """Put other ports in place for a while: the one switch by which tests enter."""
    before, _Process.ports = _Process.ports, ports
    try:
        yield
    finally:
        _Process.ports = before


def build_ports(settings: Settings, environ: Mapping[str, str] = os.environ) -> Ports:
    """Return the real ports that settings describe. Nothing is sent yet, but for the account's own look-up."""
    http = urllib3.PoolManager(maxsize=CONNECTIONS_MAX)
    token = google_token_source(http) if settings.credentials == Credentials.GOOGLE else None
    pubsub = GoogleRest(settings.pubsub_endpoint, http=http, token=token)
    return Ports(
        settings=settings,
        pools=GkeNodePools(
            GoogleRest(settings.gke_endpoint, http=http, token=token),
            GoogleRest(settings.compute_endpoint, http=http, token=token),
        ),
        clusters={
            name: KubernetesCluster(
                _build_api(cluster, token),
                kinds=choose_kinds(settings.kinds),
                component=environ.get("K_SERVICE", "tpu-provisioner"),
            )
            for name, cluster in settings.clusters.items()
        },
        clock=SystemClock(),
        dead_letters=PubsubTopic(pubsub, settings.dead_letter_topic) if settings.dead_letter_topic else None,
    )


def _build_api(cluster: ClusterSettings, token: Callable[[], str] | None) -> KubernetesApi:
    if cluster.token_file:
        token = TokenFile(Path(cluster.token_file))
    context = ssl.create_default_context(cafile=cluster.ca_file) if cluster.ca_file else None
    return KubernetesApi(Connection(url=cluster.endpoint, token=token, ssl_context=context))
