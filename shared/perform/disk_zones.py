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

    from shared.core.ports import Cluster
    from shared.core.workloads import WorkloadView
    from shared.perform.look import Look

_UNREAD = "the disks of its claims cannot be read, so its node pool may be made in a zone without them"


def add_disks(look: Look, workload: WorkloadView, *, claims: Sequence[str] | None = None) -> WorkloadView:
    """Return a workload with the disks of some claims; without any if they may not be read.

    The claims are those of the workload's spec if they are None.

    Raises:
        Retryable: one of them could not be read.
    """
    try:
        return read_disks(look.live, workload, list_claims(workload) if claims is None else claims)
    except Denied as error:
        explain(look.live, decide_failure(_UNREAD, error), objects=(workload,))
        return workload


def read_disks(live: Cluster, workload: WorkloadView, claims: Sequence[str]) -> WorkloadView:
    """Return a workload with the disks of some claims.

    Raises:
        Retryable: one of them could not be read.
        Denied: they may not be read.
    """
    found = [live.find_disk(workload.namespace, claim) for claim in claims]
    return dataclasses.replace(workload, disks=tuple(disk for disk in found if disk)) if found else workload
