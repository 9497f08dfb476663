"""The disks of a live cluster that bind the pods of a manifest to a zone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cli.exit_codes import say
from shared.core.demand.disks import list_volume_claims
from shared.core.errors import ProvisionerError
from shared.engine.looks.gather import read_disks

if TYPE_CHECKING:
    from shared.core.ports import Cluster
    from shared.core.workloads import WorkloadView


@dataclass(slots=True)
class Disks:
    """Reads the disks of the claims that workloads name."""

    cluster: Cluster | None = None
    """None: no cluster was asked."""
    unread: str = ""
    """Why a disk could not be read."""
    named: bool = False
    """Some workload names a claim."""

    def add_to(self, workload: WorkloadView) -> WorkloadView:
        """Return a workload with the disks of its claims, as far as they are known."""
        claims = list_volume_claims(workload)
        self.named = self.named or bool(claims)
        if self.cluster is None or self.unread or not claims:
            return workload
        try:
            return read_disks(self.cluster, workload, claims)
        except ProvisionerError as error:
            self.unread = say(error)
            return workload

    @property
    def assumption(self) -> str:
        """Return what the plan assumes of disks; empty if it has read them or needs none."""
        why = "no cluster was asked; --cluster asks it" if self.cluster is None else self.unread
        return f"assumed: no disk binds pods to a zone ({why})" if why and self.named else ""
