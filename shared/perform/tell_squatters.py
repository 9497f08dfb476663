"""Writes Events on the workloads and pods that keep a pool which its own workload needs no more.

Only Events are written, so an error is logged and stops nothing. The same Event again is counted up
at most every ten minutes (`shared.edges.kubernetes_cluster`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from shared.core.decide.squatters import decide_squatters
from shared.core.kinds.table import find_kind
from shared.core.messages import ObjectName
from shared.perform.explain import explain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import BoundPod, Cluster, Ports
    from shared.core.workloads import WorkloadView

_LOG = logging.getLogger("squatters")


def tell_squatters(cluster: str, pool: PoolSnapshot, others: Sequence[BoundPod], ports: Ports) -> None:
    """Write an Event on other workloads that have accelerator pods on a pool, and on the pods."""
    live = ports.clusters[cluster]
    for decision, workload, pods in decide_squatters(pool, others):
        named = [ObjectName(kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid) for pod in pods]
        explain(live, decision, objects=(_find_workload(live, workload, ports), *named))


def _find_workload(live: Cluster, workload: tuple[str, str, str], ports: Ports) -> WorkloadView | None:
    kind, namespace, name = workload
    if find_kind(kind) is None or kind not in ports.settings.kinds:
        return None
    try:
        return live.get_workload(kind, namespace, name)
    except Exception as error:  # noqa: BLE001 -- the net of this workload
        said = {"object": f"{kind} {namespace}/{name}", "error": str(error)}
        _LOG.warning("the workload that keeps a node pool could not be read", extra=said)
        return None
