"""What the engine asks of the outside world.

Every method may raise the errors of `shared.model.errors`; a cluster is always named
``projects/P/locations/L/clusters/C``. None waits for an operation of GKE.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct

from shared.engine.budget import Budget
from shared.engine.threads import Crew
from shared.model.decisions import Notice
from shared.model.kueue import Check, CheckState, QueuedWorkload
from shared.model.pools import Machines, NodePool, Operation, PoolNode
from shared.model.times import Clock
from shared.model.workloads import Disk, Namespace, Parent, PodView, WorkloadView
from shared.settings import Settings


class Role(StrEnum):
    """Which of the two functions acts."""

    PROVISION = "provision"
    COLLECT = "collect"


class PoolReads(Protocol):
    """GKE's node pools, for both functions."""

    def list(self, cluster: str) -> Sequence[NodePool]:
        """Return every pool of a cluster."""

    def get(self, cluster: str, name: str) -> NodePool | None:
        """Return one pool, or None when the cluster has none of that name."""

    def list_operations(self, cluster: str) -> Sequence[Operation]:
        """Return the creates and deletes of pools that GKE still lists."""

    def read_machines(self, pool: NodePool) -> Machines:
        """Return what Compute Engine says of the machines of a pool."""

    def find_channel(self, cluster: str) -> str:
        """Return the release channel of a cluster, or empty. It may have changed minutes ago."""


class PoolAdds(PoolReads, Protocol):
    """What `provision` may do."""

    def create(self, cluster: str, node_pool: Mapping[str, Any]) -> None:
        """Submit one pool."""

    def raise_maximum(self, cluster: str, name: str, nodes: int, *, least: int = 0) -> None:
        """Let GKE's autoscaler give a pool so many nodes, and never fewer than `least`."""


class PoolTakes(PoolReads, Protocol):
    """What `collect` may do."""

    def delete(self, cluster: str, name: str) -> None:
        """Submit the deletion of one pool. An absent pool counts as success."""

    def lower_maximum(self, cluster: str, name: str, nodes: int) -> None:
        """Bound a pool to fewer nodes; 0 turns its autoscaling off."""


class Cluster(Protocol):
    """One cluster's live objects."""

    def get_workload(self, kind: str, namespace: str, name: str) -> WorkloadView | None:
        """Return one workload as it is now, or None when there is none of that name."""

    def list_workloads(
        self, kind: str, names: Collection[tuple[str, str]]
    ) -> Sequence[WorkloadView]:
        """Return workloads by namespace and name; one that is not among them may exist too."""

    def get_parent(self, parent: Parent) -> Parent | None:
        """Return the parent of a workload as it is now; None when it is gone or replaced."""

    def get_namespace(self, name: str) -> Namespace | None:
        """Return one namespace as it is now, or None when there is none of that name."""

    def list_workload_pods(self, workload: WorkloadView) -> Sequence[PodView]:
        """Return the unfinished accelerator pods of a workload."""

    def find_disk(self, namespace: str, claim: str) -> Disk | None:
        """Return where the volume of a claim can be used; None if it can be used anywhere."""

    def list_accelerator_pods(self) -> Iterable[PodView]:
        """Return all unfinished accelerator pods of the cluster, of any kind."""

    def list_nodes(self, pools: Sequence[str] = ()) -> Sequence[PoolNode]:
        """Return the nodes of these pools, or of all pools of ours."""

    def list_bound_pods(self, node: str) -> Sequence[PodView]:
        """Return the unfinished pods on a node, without DaemonSet and static pods."""

    def mark_idle(self, node: str, since: float | None, *, closed: bool = False) -> None:
        """Set our taint on a node, or take it off if `since` is None."""

    def write_notice(self, notice: Notice) -> None:
        """Write an Event. The same Event again raises a count instead of adding one."""


class Queues(Protocol):
    """Kueue in one cluster."""

    def list_checks(self) -> Sequence[Check]:
        """Return the admission checks that this provisioner answers."""

    def mark_active(self, check: Check) -> None:
        """Say that an admission check is answered, so that queues can use it."""

    def list_workloads(self) -> Iterable[QueuedWorkload]:
        """Return every Workload of Kueue."""

    def list_owned(self, namespace: str, owner_uid: str) -> Iterable[QueuedWorkload]:
        """Return the Workloads of one object, by its UID."""

    def view_owner(self, queued: QueuedWorkload) -> WorkloadView | None:
        """Return the owner of a Workload as Kueue will resume it; None if it is gone."""

    def write_state(
        self, queued: QueuedWorkload, state: CheckState, *, retry_seconds: int | None = None
    ) -> None:
        """Write the state of one check of a Workload."""


class Ports(Struct, frozen=True, kw_only=True):
    """The outside world of one function of one deployment."""

    settings: Settings
    pools: PoolReads
    adds: PoolAdds | None = None  # None in `collect`
    takes: PoolTakes | None = None  # None in `provision`
    clusters: Mapping[str, Cluster]
    queues: Mapping[str, Queues] = {}
    clock: Clock
    budget: Budget
    crew: Crew
