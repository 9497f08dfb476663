"""Writes Kubernetes Events on a workload and its leader pod, which tell the owner why.

If an Event cannot be written, that is logged; it never undoes or repeats what was done.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from shared.core.decisions import Decision, find_event_reason, is_warning
from shared.core.errors import ProvisionerError
from shared.core.ports import Cluster, Notice

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.core.messages import ObjectName
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
