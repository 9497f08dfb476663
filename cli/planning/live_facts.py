"""What a plan asks of a live cluster: labels of namespaces, and disks that bind pods to a zone."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from cli.exit_codes import say
from cli.planning.file_disks import FileDisks
from shared.model.errors import ProvisionerError
from shared.needs.ways import list_volume_claims

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shared.engine.outside import Cluster
    from shared.model.workloads import Disk, WorkloadView

T = TypeVar("T")


@dataclass(slots=True)
class _LiveFacts:
    """Facts that are read until a read fails."""

    cluster: Cluster | None = None
    """None: no cluster was asked."""
    unread: str = ""
    """Why a fact could not be read."""

    def _ask(self, read: Callable[[Cluster], T], otherwise: T) -> T:
        if self.cluster is None or self.unread:
            return otherwise
        try:
            return read(self.cluster)
        except ProvisionerError as error:
            self.unread = say(error)
            return otherwise

    def _assume(self, what: str) -> str:
        why = "no cluster was asked; --cluster asks it" if self.cluster is None else self.unread
        return f"assumed: {what} ({why})" if why else ""


@dataclass(slots=True)
class Namespaces(_LiveFacts):
    """The labels of namespaces, which may opt out of pools. They are read once each."""

    known: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def find_labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of a namespace; none if they are not known."""
        if name not in self.known:
            found = self._ask(lambda live: live.get_namespace(name), None)
            self.known[name] = found.labels if found else {}
        return self.known[name]

    @property
    def assumption(self) -> str:
        """Return what the plan assumes of namespaces; empty if it has read them."""
        return self._assume("no label of a namespace opts out of pools")


@dataclass(slots=True)
class Disks(_LiveFacts):
    """Reads the disks of claims that workloads name: from the manifests, else from the cluster."""

    files: FileDisks = field(default_factory=lambda: FileDisks({}))
    unseen: bool = False
    """Some workload names a claim that no manifest has."""

    def add_to(self, workload: WorkloadView) -> WorkloadView:
        """Return a workload with the disks of its claims, as far as they are known."""
        read = (self._find(workload.namespace, claim) for claim in list_volume_claims(workload))
        return dataclasses.replace(workload, disks=tuple(disk for disk in read if disk is not None))

    def _find(self, namespace: str, claim: str) -> Disk | None:
        if self.files.has(namespace, claim):
            return self.files.find_disk(namespace, claim)
        self.unseen = True
        return self._ask(lambda live: live.find_disk(namespace, claim), None)

    @property
    def assumption(self) -> str:
        """Return what the plan assumes of disks; empty if it has read them or needs none."""
        return self._assume("no disk binds pods to a zone") if self.unseen else ""
