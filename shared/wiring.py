"""Builds the real ports from settings, once per process; the only place that knows both sides.

The clients are safe to share between threads, which the functions framework uses for concurrent
requests.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from shared.edges.clock import SYSTEM_CLOCK
from shared.edges.gke import GkeNodePools
from shared.edges.google_account import GoogleAccount
from shared.edges.kubernetes_api import KubernetesApi
from shared.edges.kubernetes_cluster import KubernetesCluster
from shared.edges.kubernetes_connection import connection_from_settings
from shared.edges.kueue_objects import KueueQueues
from shared.edges.threads import Threads
from shared.engine.looks.shared_reads import RecentReads
from shared.engine.outside import Ports
from shared.engine.places import Places
from shared.environment import read_settings
from shared.kinds.table import choose_kinds
from shared.model.errors import ProvisionerError
from shared.model.times import SHARED_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from shared.settings import Settings


_LOG = logging.getLogger("functions")


class _Process:
    """The one cached set of ports of this process."""

    lock = threading.Lock()
    ports: Ports | None = None


def check_settings() -> None:
    """Read this process's settings and open nothing.

    Raises:
        Misconfigured: the environment is wrong; every problem is named.
    """
    if _Process.ports is None:
        read_settings(os.environ)


def get_ports() -> Ports:
    """Return this process's ports, built from its environment at the first call.

    Raises:
        Misconfigured: the environment is wrong; every problem is named.
    """
    with _Process.lock:
        if _Process.ports is None:
            _Process.ports = build_ports(read_settings(os.environ))
        return _Process.ports


def open_ports() -> None:
    """Open this process's clients and get their access token, so that its first event waits less.

    A failure is logged, and the first event tries again.
    """
    try:
        pools = get_ports().pools
        if isinstance(pools, GkeNodePools):
            pools.open()
    except ProvisionerError as error:
        _LOG.warning("the clients could not be opened at the start", extra={"problem": str(error)})


@contextmanager
def use(ports: Ports) -> Iterator[None]:
    """Put other ports in place for a while: the one switch by which tests enter."""
    before, _Process.ports = _Process.ports, ports
    try:
        yield
    finally:
        _Process.ports = before


def build_ports(settings: Settings, environ: Mapping[str, str] = os.environ) -> Ports:
    """Return the real ports that the settings describe. Nothing is sent yet."""
    account = GoogleAccount(settings.credentials)
    apis = {
        name: KubernetesApi(connection_from_settings(cluster, account.give_token))
        for name, cluster in settings.clusters.items()
    }
    return Ports(
        settings=settings,
        pools=GkeNodePools(
            settings.gke_endpoint, account, compute_endpoint=settings.compute_endpoint
        ),
        clusters={
            name: KubernetesCluster(
                api,
                kinds=choose_kinds(settings.kinds),
                component=environ.get("K_SERVICE", "tpu-provisioner"),
            )
            for name, api in apis.items()
        },
        queues={name: KueueQueues(api) for name, api in apis.items()}
        if settings.kueue_admission_check
        else {},
        clock=SYSTEM_CLOCK,
        threads=Threads(),
        lists=RecentReads(SYSTEM_CLOCK, SHARED_SECONDS),
        places=Places(),
    )
