"""What the rules' shell asks of the outside world, as contracts. Edges implement them; tests use fakes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from shared.core.events import Message
    from shared.core.pools import PoolSnapshot
    from shared.core.workloads import Parent, PodView, WorkloadView


class NodePools(Protocol):
    """GKE's node pools of any cluster; ``cluster`` is ``projects/P/locations/L/clusters/C`` throughout.

    Every method may raise `Unavailable`, `Throttled`, `Denied` and `ClusterNotFound`. None waits for an operation.
    """

    def create(self, cluster: str, node_pool: Mapping[str, Any]) -> None:
        """Submit one pool; returning means accepted, not made.

        Raises:
            AlreadyExists: the name is taken, by a pool in whatever state. Look, then decide.
            Busy: an operation holds the pool or the cluster, quite likely our own earlier create.
            NoCapacity: refused for want of quota; nothing was created.
            InvalidRequest: refused as wrong; the same request will be refused again.
        """

    def get(self, cluster: str, name: str) -> PoolSnapshot | None:
        """Return one pool, or None when the cluster has none of that name."""

    def list(self, cluster: str) -> list[PoolSnapshot]:
        """Return every pool of a cluster; GKE filters and pages nothing here."""

    def delete(self, cluster: str, name: str) -> None:
        """Submit the deletion of one pool. A pool that is absent already is success.

        Raises:
            Busy: an operation holds it (it is being created, upgraded or deleted).
        """

    def measure(self, pool: PoolSnapshot) -> int:
        """Return how many nodes GKE keeps in a pool now, those that come included; asks Compute Engine."""

    def resize(self, cluster: str, name: str, nodes: int) -> None:
        """Submit another size of one pool, in its one zone. A smaller one would remove any nodes: never ask so.

        Raises:
            Busy: an operation holds it.
            NoCapacity: refused for want of quota.
            InvalidRequest: refused as wrong.
        """

    def remove_nodes(self, pool: PoolSnapshot, names: Sequence[str]) -> None:
        """Remove exactly these nodes of a pool, which becomes so much smaller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundPod:
    """One unfinished pod on a pool's node."""

    namespace: str
    name: str
    kind: str
    """The kind of the workload that it says it belongs to; empty for other pods."""
    workload: str
    """The name of that workload."""
    chips: int
    """TPU chips, or units of GPUs."""
    deleting_since: float | None
    """Unix seconds; None while it is not being deleted."""
    node: str = ""


@dataclass(frozen=True, slots=True)
class SurplusMark:
    """Our taint on a node of an elastic pool that is one too many."""

    since: float
    """Unix seconds."""
    closed: bool
    """It keeps new pods off; else they only prefer other nodes."""


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


class Cluster(Protocol):
    """One cluster's live objects. Every method may raise `Unavailable`, `Throttled` and `Denied`."""

    def get_pod(self, namespace: str, name: str) -> PodView | None:
        """Return one pod as it is now, or None."""

    def get_workload(self, kind: str, namespace: str, name: str) -> WorkloadView | None:
        """Return one workload of a kind of the table as it is now, or None when there is none of that name."""

    def get_parent(self, parent: Parent, kind: str) -> Parent | None:
        """Return what made a workload of a kind as it is now, with `Parent.keeps`; None when it is gone.

        May raise `Unreadable` too.
        """

    def get_namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace as they are now; none when it is gone."""

    def list_waiting_leaders(self) -> Iterable[PodView]:
        """Return the pods that speak for a slice of any kind that is served, and that are bound to no node."""

    def list_waiting_followers(self) -> Iterable[PodView]:
        """Return the accelerator pods of slices that do not speak for them, and that are bound to no node."""

    def list_workload_pods(self, workload: WorkloadView) -> list[PodView]:
        """Return the live accelerator pods of a workload; none where `select_pods_of` names none."""

    def list_pool_nodes(self, pool_name: str) -> list[str]:
        """Return the names of a pool's nodes."""

    def list_pool_pods(self, pool_name: str) -> list[BoundPod]:
        """Return the unfinished pods on a pool's nodes, those of DaemonSets and of the kubelet itself left out."""

    def list_surplus_marks(self, pool_name: str) -> dict[str, SurplusMark | None]:
        """Return the nodes of a pool by name, each with our mark where it has one."""

    def mark_surplus(self, node: str, since: float | None, *, closed: bool = False) -> None:
        """Put our mark on a node, in place of an earlier one; None for `since` takes it off."""

    def write_notice(self, notice: Notice) -> None:
        """Write an Event; the same one again raises its count, now and then, instead of adding another."""


class DeadLetters(Protocol):
    """Where messages are kept that can never succeed."""

    def keep(self, message: Message) -> None:
        """Keep one message; raises `Unavailable` when that could not be done, so that it is not lost."""


class Clock(Protocol):
    """The time of day."""

    def now(self) -> float:
        """Return unix seconds."""
