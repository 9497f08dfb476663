"""Builds the real ports of one function from settings, once per process; only it knows both sides.

The clients are safe to share between threads, which the functions framework uses for concurrent
requests.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping

from shared.edges.cluster import KubernetesCluster
from shared.edges.gke import GkeAdds, GkePools, GkeTakes, open_apis
from shared.edges.google import GoogleAccount
from shared.edges.kueue import KueueQueues
from shared.edges.process import SYSTEM_CLOCK
from shared.engine.budget import Budget
from shared.engine.outside import Ports, Role
from shared.engine.threads import Crew
from shared.model.errors import ProvisionerError
from shared.settings import Settings, read_settings

_LOG = logging.getLogger("functions")
_LOCK = threading.Lock()
_KEPT: dict[Role, Ports] = {}  # what this process keeps from one request to the next, by function


def check_settings() -> None:
    """Read this process's settings and open nothing."""
    if not _KEPT:
        read_settings(os.environ)


def get_process(role: Role) -> Ports:
    """Return a function's ports, made from the environment at the first call."""
    with _LOCK:
        if role not in _KEPT:
            _KEPT[role] = build_ports(read_settings(os.environ), role)
        return _KEPT[role]


def open_clients(role: Role) -> None:
    """Open a function's clients and get their access token, so that its first message waits less.

    A failure is logged, and the first message tries again.
    """
    try:
        pools = get_process(role).pools
        if isinstance(pools, GkePools):
            pools.open()
    except ProvisionerError as error:
        _LOG.warning("the clients could not be opened at the start", extra={"problem": str(error)})


def build_ports(
    settings: Settings, role: Role | None = None, environ: Mapping[str, str] = os.environ
) -> Ports:
    """Return the real ports that the settings describe. Nothing is sent yet.

    Each function can do its own verb only; without a role nothing can be added or taken away.
    """
    account = GoogleAccount(settings.credentials)
    edges: dict[Role | None, type[GkePools]] = {Role.PROVISION: GkeAdds, Role.COLLECT: GkeTakes}
    pools = edges.get(role, GkePools)(settings.gke_endpoint, account)
    apis = open_apis(settings.clusters, pools, account)
    component = environ.get("K_SERVICE", "tpu-provisioner")
    queues = {name: KueueQueues(api) for name, api in apis.items()}
    return Ports(
        settings=settings,
        pools=pools,
        adds=pools if isinstance(pools, GkeAdds) else None,
        takes=pools if isinstance(pools, GkeTakes) else None,
        clusters={name: KubernetesCluster(api, component=component) for name, api in apis.items()},
        queues=queues if settings.kueue_admission_check else {},
        clock=SYSTEM_CLOCK,
        budget=Budget(settings),
        crew=Crew(),
    )
