"""Writes Kubernetes Events on a workload and its leader pod, which tell the owner why.

If an Event cannot be written, that is logged; it never undoes or repeats what was done. The same
Event again is counted up at most every ten minutes (`shared.edges.kubernetes_cluster`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from shared.core.decide.squatters import decide_squatters
from shared.core.decisions import Decision, find_event_reason, is_warning
from shared.core.errors import ProvisionerError
from shared.core.messages import ObjectName
from shared.core.ports import Cluster, Notice

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import BoundPod
    from shared.core.workloads import Parent, PodView, WorkloadView

_LOG = logging.getLogger("explain")


def find_parent(cluster: Cluster, workload: WorkloadView) -> Parent | None:
    """Return the parent of a workload, and whether it keeps the workload; None without parent.

    It is used for Events only, so an error is logged and stops nothing.
    """
    if workload.parent is None:
        return None
    try:
        return cluster.get_parent(workload.parent, workload.kind)
    except ProvisionerError as error:
        _LOG.warning(
            "the parent of a workload could not be read",
            extra={"object": str(workload.parent), "error": str(error)},
        )
        return None


def explain(
    cluster: Cluster, decision: Decision, *, objects: Iterable[WorkloadView | PodView | Parent | ObjectName | None]
) -> None:
    """Write one Event per object that still exists; none for the verdict NOTHING."""
    reason = find_event_reason(decision)
    if reason is None:
        return
    # A pod without controller is its own workload: it gets one Event.
    for found in {each.uid: each for each in objects if each}.values():
        notice = Notice(
            kind=getattr(found, "kind", "Pod"),
            namespace=found.namespace,
            name=found.name,
            uid=found.uid,
            reason=str(reason),
            message=f"{decision.message} [{decision.reason}]",
            warning=is_warning(decision),
        )
        try:
            cluster.write_notice(notice)
        except Exception as error:  # noqa: BLE001 -- the net of this object
            note_unwritten(notice, error)


def note_unwritten(notice: Notice, error: Exception) -> None:
    """Log that an Event could not be written."""
    said = {"object": f"{notice.kind} {notice.namespace}/{notice.name}", "error": str(error)}
    _LOG.warning("the Event could not be written on the object", extra=said)


def tell_squatters(
    live: Cluster, pool: PoolSnapshot, others: Sequence[BoundPod], *, kinds: Collection[str]
) -> None:
    """Write an Event on other workloads that have accelerator pods on a pool, and on the pods.

    The pool's own workload needs it no more. Only workloads of these kinds are read. An error is
    logged and stops nothing.
    """
    for decision, workload, pods in decide_squatters(pool, others):
        named = [ObjectName(kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid) for pod in pods]
        found = _find_workload(live, *workload) if workload[0] in kinds else None
        explain(live, decision, objects=(found, *named))


def _find_workload(live: Cluster, kind: str, namespace: str, name: str) -> WorkloadView | None:
    try:
        return live.get_workload(kind, namespace, name)
    except Exception as error:  # noqa: BLE001 -- the net of this workload
        said = {"object": f"{kind} {namespace}/{name}", "error": str(error)}
        _LOG.warning("the workload that keeps a node pool could not be read", extra=said)
        return None
