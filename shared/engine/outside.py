"""What the engine asks of the outside world, a line a method; `shared.edges` says each in full.

Every method may raise the errors of `shared.model.errors`; a cluster is always named
``projects/P/locations/L/clusters/C``. None waits for an operation of GKE.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct, field

from shared.engine.budget import Books
from shared.engine.threads import Crew
from shared.model.names import ObjectName
from shared.model.pools import Machines, NodePool, Operation, PoolNode
from shared.model.times import Clock
from shared.model.workloads import (
    Check,
    CheckState,
    Disk,
    Namespace,
    Notice,
    PodView,
    QueuedWorkload,
    WorkloadView,
)
from shared.settings import Settings


class Role(StrEnum):
    """Which of the two functions acts."""

    PROVISION = "provision"
    COLLECT = "collect"


class PoolReads(Protocol):
    """GKE's node pools, and Compute Engine's machines of them, for both functions."""

    def list(self, cluster: str) -> Sequence[NodePool]: ...
    def get(self, cluster: str, name: str) -> NodePool | None: ...  # None: GKE says so
    def list_operations(self, cluster: str) -> Sequence[Operation]: ...
    def read_machines(self, pool: NodePool) -> Machines: ...
    def find_channel(self, cluster: str) -> str: ...  # it may have changed minutes ago


class PoolAdds(PoolReads, Protocol):
    """What `provision` may do. It submits, and the end of the operation comes later."""

    def create(self, cluster: str, node_pool: Mapping[str, Any]) -> None: ...
    def raise_maximum(self, cluster: str, name: str, nodes: int, *, least: int = 0) -> None: ...


class PoolTakes(PoolReads, Protocol):
    """What `collect` may do. It submits, and the end of the operation comes later."""

    def delete(self, cluster: str, name: str) -> None: ...  # an absent pool counts as success
    def lower_maximum(self, cluster: str, name: str, nodes: int) -> None: ...  # 0: no autoscaling


class Cluster(Protocol):
    """One cluster's live objects. None in place of one: Kubernetes says that there is none."""

    def get_workload(self, kind: str, namespace: str, name: str) -> WorkloadView | None: ...
    # Those by namespace and name; one that is not in the answer may exist too.
    def list_workloads(
        self, kind: str, names: Collection[tuple[str, str]]
    ) -> Sequence[WorkloadView]: ...
    def explain_parent(self, parent: ObjectName) -> str: ...  # why it keeps its workload, or ""
    def get_namespace(self, name: str) -> Namespace | None: ...
    def list_workload_pods(self, workload: WorkloadView) -> Sequence[PodView]: ...
    def find_disk(self, namespace: str, claim: str) -> Disk | None: ...  # None: usable anywhere
    def list_accelerator_pods(self) -> Iterable[PodView]: ...  # unfinished ones, of any kind
    def list_nodes(self, pools: Sequence[str] = ()) -> Sequence[PoolNode]: ...  # (): of all of ours
    def list_bound_pods(self, node: str) -> Sequence[PodView]: ...  # no DaemonSet or static pods
    # Sets our taint, or takes it off if `since` is None.
    def mark_idle(self, node: str, since: float | None, *, closed: bool = False) -> None: ...
    def write_notice(self, notice: Notice) -> None: ...


class Queues(Protocol):
    """Kueue in one cluster, as far as it is about admission checks that we answer."""

    def list_checks(self) -> Sequence[Check]: ...
    def mark_active(self, check: Check) -> None: ...
    def list_workloads(self) -> Iterable[QueuedWorkload]: ...
    def list_owned(self, namespace: str, owner_uid: str) -> Iterable[QueuedWorkload]: ...
    def view_owner(self, queued: QueuedWorkload) -> WorkloadView | None: ...  # as it will run
    def write_state(
        self, queued: QueuedWorkload, state: CheckState, *, retry_seconds: int | None = None
    ) -> None: ...


class Ports(Struct, frozen=True, kw_only=True):
    """The outside world of one function of one deployment."""

    settings: Settings
    pools: PoolReads
    adds: PoolAdds | None = None  # None in `collect`
    takes: PoolTakes | None = None  # None in `provision`
    clusters: Mapping[str, Cluster]
    queues: Mapping[str, Queues] = {}
    clock: Clock
    books: Mapping[str, Books]  # by cluster
    crew: Crew = field(default_factory=Crew)
