"""What the shell needs of the outside world, as protocols that the edges implement."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from shared.core.identity.creations import Creation
    from shared.model.pool_status import PoolSnapshot
    from shared.model.kueue import Check, CheckState, QueuedWorkload
    from shared.settings import Settings
    from shared.model.workloads import Disk, NodeView, Parent, PodView, WorkloadView

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FillError:
    """Why a pool did not get its nodes at some time."""

    message: str
    """GKE's words, with the code if there is one."""
    at: float | None = None
    """Unix seconds; None if it is not told, or for what is true now."""
    tries: bool = False
    """No error: the autoscaler asks for nodes, or finds no pool that the pod fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """The machines of a pool, as its instance groups report them."""

    made: int = 0
    """How many are there, if only starting."""
    coming: int = 0
    """How many more are being made without an error."""
    errors: tuple[FillError, ...] = ()
    """What kept the groups from making machines, as long as they remember it."""


class NodePools(Protocol):
    """GKE's node pools. A cluster is always named ``projects/P/locations/L/clusters/C``.

    Every method may raise `Unavailable`, `Throttled`, `Denied` and `ClusterNotFound`. None
    waits for an operation.
    """

    def create(self, cluster: str, node_pool: Mapping[str, Any]) -> None:
        """Submit one pool. When this returns, GKE has accepted the request; the pool comes later.

        Raises:
            AlreadyExists: a pool has the name, in any state. Read it, then decide.
            Busy: an operation holds the pool or the cluster, often our own earlier create.
            NoCapacity: the quota is used up; nothing was created.
            InvalidRequest: GKE does not accept the request; the same request fails again.
        """

    def get(self, cluster: str, name: str) -> PoolSnapshot | None:
        """Return one pool, or None when the cluster has none of that name."""

    def list(self, cluster: str) -> list[PoolSnapshot]:
        """Return every pool of a cluster; GKE neither filters nor pages."""

    def find_channel(self, cluster: str) -> str:
        """Return the release channel of a cluster, or empty. It may have changed minutes ago."""

    def list_creations(self, cluster: str) -> Sequence[Creation]:
        """Return the creations of a cluster's pools that GKE still lists, those that ended too.

        It is the list of all operations of the cluster's location. GKE neither filters nor pages.
        """

    def delete(self, cluster: str, name: str) -> None:
        """Submit the deletion of one pool. An absent pool counts as success.

        Raises:
            Busy: another operation creates, upgrades or deletes it.
        """

    def measure(self, pool: PoolSnapshot) -> int:
        """Return how many nodes a pool has now, nodes that GKE still adds included."""

    def resize(self, cluster: str, name: str, nodes: int) -> None:
        """Submit a larger size of one pool; never a smaller one, since GKE would choose the nodes.

        May raise `Busy`, `NoCapacity` and `InvalidRequest` too, as `create` does.
        """

    def read_machines(self, pool: PoolSnapshot) -> Machines:
        """Return what Compute Engine says of the machines of a pool."""

    def list_missing(self, pool: PoolSnapshot) -> Sequence[str]:
        """Return the nodes that GKE keeps trying to make, by name; `remove_nodes` gives them up."""

    def remove_nodes(self, pool: PoolSnapshot, names: Sequence[str]) -> None:
        """Remove exactly these nodes of a pool, which is smaller from then on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundPod:
    """One unfinished pod on a pool's node."""

    namespace: str
    name: str
    kind: str
    """The kind of its workload, by its labels; empty for other pods."""
    workload: str
    """The name of that workload."""
    chips: int
    """TPU chips, or units of GPUs."""
    deleting_since: float | None
    """Unix seconds; None while it is not being deleted."""
    node: str = ""
    uid: str = ""
    created_at: float | None = None
    """Unix seconds; None if the API does not say it."""

    @property
    def user(self) -> tuple[str, str, str]:
        """Return kind, namespace and name of its workload; of a pod without one, its own."""
        return self.kind or "Pod", self.namespace, self.workload or self.name


@dataclass(frozen=True, slots=True)
class SurplusMark:
    """Our taint on a node of an elastic pool that is not needed."""

    since: float
    """Unix seconds."""
    closed: bool
    """True: new pods stay off the node. False: they prefer other nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """A namespace as it is now."""

    uid: str
    """That of ``kube-system`` is unique to its cluster."""
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitHold:
    """What one pool may soon have, kept until GKE's list surely shows the pool."""

    namespace: str
    """The workload's."""
    chips: int
    """TPU chips or whole GPUs of all of its nodes."""
    made_at: float
    """Unix seconds, by the clock of the process that made it."""
    again: bool = False
    """Another process had a hold for the pool, and its create may come when the pool is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The holds of one cluster, by the name of the pool."""

    version: str
    """The version that was read; empty if there is no ledger yet."""
    entries: Mapping[str, LimitHold]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One Kubernetes Event to be written on one object."""

    kind: str
    namespace: str
    name: str
    uid: str
    reason: str
    message: str
    warning: bool


class Queues(Protocol):
    """Kueue in one cluster.

    Each method may raise `Unavailable`, `Throttled` and `Denied`, and `KindAbsent` without Kueue.
    """

    def list_checks(self) -> Sequence[Check]:
        """Return the admission checks that this provisioner answers."""

    def mark_active(self, check: Check) -> None:
        """Say that an admission check is answered, so that queues can use it."""

    def list_workloads(self) -> Iterable[QueuedWorkload]:
        """Return every Workload of Kueue."""

    def list_owned(self, namespace: str, owner_uid: str) -> Iterable[QueuedWorkload]:
        """Return the Workloads of one object, by its UID; none without Kueue."""

    def view_admitted(self, workload: WorkloadView) -> WorkloadView | None:
        """Return a suspended workload as it will be resumed; None if Kueue has no quota for it."""

    def view_owner(self, queued: QueuedWorkload) -> WorkloadView | None:
        """Return the owner of a Workload as Kueue will resume it; None if it is gone or replaced.

        Raises:
            Rejected: Kueue can never resume it.
        """

    def write_state(self, queued: QueuedWorkload, state: CheckState, *, retry_seconds: int | None = None) -> None:
        """Write the state of one check of a Workload.

        Raises:
            StaleView: the Workload has changed since it was read; nothing was written.
        """


class Cluster(Protocol):
    """One cluster's live objects.

    Each method may raise `Unavailable`, `Throttled`, `Denied`, `Unreadable` and `Rejected`.
    """

    def get_pod(self, namespace: str, name: str) -> PodView | None:
        """Return one pod as it is now, or None."""

    def get_workload(self, kind: str, namespace: str, name: str) -> WorkloadView | None:
        """Return one workload as it is now, or None when there is none of that name."""

    def get_parent(self, parent: Parent) -> Parent | None:
        """Return the parent of a workload with what it is now; None when it is gone or replaced."""

    def get_namespace(self, name: str) -> Namespace | None:
        """Return one namespace as it is now, or None when there is none of that name."""

    def find_disk(self, namespace: str, claim: str) -> Disk | None:
        """Return where the volume of a PersistentVolumeClaim can be used.

        It is None if any zone will do, if that is not decided yet, or without such a claim.
        """

    def read_ledger(self, namespace: str) -> Ledger:
        """Return the holds that are kept in a namespace; none if there is no ledger yet."""

    def write_ledger(self, namespace: str, ledger: Ledger) -> Ledger:
        """Write the holds in place of those that were read; return them with their version.

        Raises:
            StaleView: another process has written since; nothing was changed.
        """

    def list_waiting_leaders(self, workload: WorkloadView | None = None) -> Iterable[PodView]:
        """Return the accelerator pods that are leaders and are bound to no node.

        With a workload only its own, and those of an earlier one of its kind and name.
        """

    def list_waiting_followers(self) -> Iterable[PodView]:
        """Return the accelerator pods that are no leaders and are bound to no node."""

    def list_waiting_pods(self, kind: str, namespace: str) -> list[PodView]:
        """Return the pods of all workloads of a kind in a namespace that are bound to no node."""

    def list_workload_pods(self, workload: WorkloadView) -> list[PodView]:
        """Return the pods of a workload, and of an earlier one of its kind and name."""

    def find_pools_of_nodes(self, pool_names: Sequence[str], *, some: bool = False) -> dict[str, str]:
        """Return the nodes of these pools by name, each with the name of its pool.

        With `some` it returns only the first of them, at a cost that does not grow with them.
        """

    def list_pool_nodes(self, pool_name: str) -> list[NodeView]:
        """Return the nodes of a pool."""

    def list_pool_pods(self, pool_name: str) -> list[BoundPod]:
        """Return the unfinished pods on a pool's nodes, without DaemonSet and static pods."""

    def list_scale_ups(self, pod: PodView) -> Sequence[FillError]:
        """Return what GKE's autoscaler told a pod about new nodes, from its Events."""

    def list_surplus_marks(self, pool_name: str) -> dict[str, SurplusMark | None]:
        """Return the nodes of a pool by name, each with our mark or None."""

    def mark_surplus(self, node: str, since: float | None, *, closed: bool = False) -> None:
        """Set our mark on a node; remove the mark if `since` is None."""

    def write_notice(self, notice: Notice) -> None:
        """Write an Event. The same Event again raises a count instead of adding one."""


class Clock(Protocol):
    """The time of day."""

    def now(self) -> float:
        """Return unix seconds."""

    def pause(self, seconds: float) -> None:
        """Return after so many seconds."""


class SideBySide(Protocol):
    """Runs tasks that do not depend on each other."""

    def __call__(self, tasks: Sequence[Callable[[], T]], *, at_once: int, until: float) -> list[T | Exception]:
        """Return what each task returned or raised, in the order of the tasks.

        At most `at_once` of them run at one time. A task that has not ended at `until` (unix
        seconds) has an `OutOfTime` in its place. A task may call this again.
        """


class OperationPlaces(Protocol):
    """Knows how many operations GKE runs for a cluster's node pools at one time.

    Both methods take every pool of the cluster, as listed for the create, and unix seconds. They
    raise `NoPlace` if there is no free place, and `Throttled` if GKE has refused another create
    that rested on the same list.
    """

    def turn(self, cluster: str) -> AbstractContextManager[object]:
        """Return what keeps a create waiting while enough others are sent; not for nested use."""

    def is_sent(
        self, cluster: str, name: str, pools: Sequence[PoolSnapshot], *, now: float, frees: bool = False
    ) -> bool:
        """Return whether a pool of the slice was asked for that the list may not show yet.

        `frees`: the last pool of the slice is deleted before the create.
        """

    def send(
        self, create: Callable[[], None], cluster: str, name: str, pools: Sequence[PoolSnapshot], *, now: float
    ) -> bool:
        """Send the create of a pool of this name if there is a free place; False if `is_sent`."""


class SharedLists(Protocol):
    """Lets deliveries that come at the same time share what they list of a cluster."""

    def share(self, key: str, read: Callable[[], T], *, since: float = 0.0) -> T:
        """Return what `read` returned for this key some seconds ago (after `since`), or now."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The outside world of one deployment."""

    settings: Settings
    pools: NodePools
    clusters: dict[str, Cluster]
    """By ``projects/P/locations/L/clusters/C``."""
    clock: Clock
    threads: SideBySide | None = None
    """None to run one task after the other, as a simulation does."""
    lists: SharedLists | None = None
    """None to list everything in each delivery, as a simulation does."""
    places: OperationPlaces | None = None
    """None to ask GKE in any case."""
    queues: Mapping[str, Queues] = field(default_factory=dict)
    """Kueue, by cluster; empty unless the setting `kueue_admission_check` is on."""
    reads_fillings: bool = False
    """What keeps pools empty is read: in a sweep, and to show an operator the present state."""
    until: float = float("inf")
    """Unix seconds of the end of this delivery; see `shared.engine.looks.limited_ports`."""
