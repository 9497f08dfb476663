"""Reads the disks of the claims that pods name, so that no pool is bought in a zone without them.

They are read only for pods with a PersistentVolumeClaim. Without the right to read them a pool is
created as if there were no disks, and an Event on the workload says so.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from shared.core.decide.error_answers import decide_failure
from shared.core.demand.disks import list_claims
from shared.core.errors import Denied
from shared.perform.explain import explain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.ports import Cluster, Ports
    from shared.core.workloads import WorkloadView

_UNREAD = "the disks of its claims cannot be read, so its node pool may be made in a zone without them"


def add_disks(
    cluster: str, workload: WorkloadView, ports: Ports, *, claims: Sequence[str] | None = None
) -> WorkloadView:
    """Return a workload with the disks of some claims; without any if they may not be read.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        workload: as it was read.
        ports: the outside world.
        claims: the names of the claims; None for those of the workload's spec.

    Raises:
        Retryable: one of them could not be read.
    """
    live = ports.clusters[cluster]
    try:
        return read_disks(live, workload, list_claims(workload) if claims is None else claims)
    except Denied as error:
        explain(live, decide_failure(_UNREAD, error), objects=(workload,))
        return workload


def read_disks(live: Cluster, workload: WorkloadView, claims: Sequence[str]) -> WorkloadView:
    """Return a workload with the disks of some claims.

    Raises:
        Retryable: one of them could not be read.
        Denied: they may not be read.
    """
    found = [live.find_disk(workload.namespace, claim) for claim in claims]
    return dataclasses.replace(workload, disks=tuple(disk for disk in found if disk)) if found else workload
