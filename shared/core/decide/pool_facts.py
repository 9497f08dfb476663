"""The facts about one pool: its owner's state, and which slices of a workload run on which pools.

Slices of equal shape swap pools, because only a pin keeps a slice on the pool that was created
for it. A pool's name says for which slice it was created, and the pods on its nodes say which slice
it serves. Where the two differ, use decides (`shared.core.decide.needed_pools`).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from shared.core.errors import Rejected
from shared.core.kinds.elastic import find_slice, has_slice, is_leader
from shared.core.kinds.table import get_kind
from shared.core.times import measure_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.core.identity.names import PoolOwner
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.kinds.kind import Kind, SliceOfPod
    from shared.core.ports import BoundPod, SurplusMark
    from shared.core.workloads import Parent, PodView, SliceGroup, WorkloadView


@dataclass(frozen=True)
class Occupancy:
    """On which pools the live pods of one workload run."""

    kind: Kind
    workload: WorkloadView
    pods: tuple[PodView, ...]
    homes: Mapping[str, str]
    """The pool of each node by the node's name, for the nodes of the workload's pools."""

    @cached_property
    def slices(self) -> dict[str, SliceOfPod | None]:
        """The slice of each pod by its name; None where it is not clear."""
        return {pod.name: find_known_slice(self.kind, pod, self.workload) for pod in self.pods}

    @cached_property
    def by_pool(self) -> dict[str, list[PodView]]:
        """The bound pods by the name of their pool; empty for a pool of another workload."""
        found = defaultdict(list)
        for pod in self.pods:
            if pod.node_name:
                found[self.homes.get(pod.node_name, "")].append(pod)
        return dict(found)

    @cached_property
    def _slices_by_pool(self) -> dict[str, Counter[str]]:
        return {
            name: Counter(each.name for pod in pods if (each := self.slices[pod.name]) is not None)
            for name, pods in self.by_pool.items()
        }

    @cached_property
    def waiting(self) -> list[PodView]:
        """The pods that are bound to no node."""
        return [pod for pod in self.pods if not pod.node_name]

    @cached_property
    def waiting_slices(self) -> dict[str, SliceOfPod]:
        """Each slice, by name, that has a pod which is bound to no node and held by no queue."""
        known = (self.slices[pod.name] for pod in self.waiting if not pod.gates)
        return {each.name: each for each in known if each is not None}

    @cached_property
    def led(self) -> set[str]:
        """The slices, by name, that have a pod on a node, or a leader."""
        leading = (self.slices[pod.name] for pod in self.pods if pod.node_name or is_leader(self.kind, pod))
        return {each.name for each in leading if each is not None}

    @cached_property
    def placed(self) -> dict[str, SliceGroup]:
        """Each slice, by name with its group, that has all of its hosts bound to nodes.

        An elastic pool is one slice of all of its pods. A slice of unknown size is never placed.
        """
        hosts = (pod for pod in self.pods if pod.node_name and pod.template.units > 0)
        bound = (self.slices[pod.name] for pod in hosts)
        known = [each for each in bound if each is not None]
        counts, groups = Counter(each.name for each in known), {each.name: each.group for each in known}
        return {name: group for name, group in groups.items() if 0 < _count_hosts(group) <= counts[name]}

    @cached_property
    def node_counts(self) -> Counter[str]:
        """How many nodes each pool has, by its name."""
        return Counter(self.homes.values())

    @cached_property
    def shared_pools(self) -> dict[str, set[str]]:
        """By pool, the slices on it, if there are several and none of them is placed."""
        found = {name: each.keys() - self.placed.keys() for name, each in self._slices_by_pool.items()}
        return {name: found[name] for name in sorted(found) if name and len(found[name]) > 1}

    @cached_property
    def _hosts_by_slice(self) -> dict[str, list[PodView]]:
        found = defaultdict(list)
        for pod in self.pods:
            if pod.node_name and pod.template.chips > 0 and (known := self.slices[pod.name]) is not None:
                found[known.name].append(pod)
        return dict(found)

    def list_on(self, pool_name: str) -> list[PodView]:
        """Return the pods on a pool."""
        return self.by_pool.get(pool_name, [])

    def count_slices_on(self, pool_name: str) -> Counter[str]:
        """Return how many pods of each slice are on a pool."""
        return self._slices_by_pool.get(pool_name) or Counter()

    def list_hosts_of(self, slice_name: str) -> list[PodView]:
        """Return the pods with chips of a slice that are bound to a node, on any pool."""
        return self._hosts_by_slice.get(slice_name, [])


def find_known_slice(kind: Kind, pod: PodView, workload: WorkloadView) -> SliceOfPod | None:
    """Return the slice of a pod; None where it is not clear."""
    try:
        return find_slice(kind, pod, workload)
    except Rejected:
        return None


def measure_occupancy(
    kind: Kind, workload: WorkloadView, pods: Sequence[PodView], homes: Mapping[str, str]
) -> Occupancy:
    """Return the workload's live accelerator pods, and the pools of its nodes.

    Pods that are ending or have ended do not count, nor those of an earlier workload of its name.
    """
    live = (pod for pod in pods if not pod.deleting and not pod.finished and pod.template.wants_accelerator)
    ours = (pod for pod in live if kind.find_owner_uid(pod) in ("", workload.uid))
    return Occupancy(kind, workload, tuple(ours), homes)


def _count_hosts(group: SliceGroup) -> int:
    """Return how many pods one slice of a group has; 0 if the kind does not define it."""
    return group.replicas if group.elastic else group.hosts or group.pods


def find_queued_since(
    kind: Kind, workload: WorkloadView, slice_name: str, pods: Sequence[PodView]
) -> float | None:
    """Return since when a queue holds every live pod of a slice; None while one of them may run.

    When Kueue evicts a workload that it admits pod by pod, it does not suspend the workload: it
    deletes the pods, and the new pods have a scheduling gate. A slice without pods is no proof.
    """
    if all(pod.queued_since is None for pod in pods):
        return None
    found = measure_occupancy(kind, workload, pods, {})
    mine = [pod for pod in found.pods if (known := found.slices[pod.name]) and known.name == slice_name]
    held = [pod.queued_since for pod in mine if pod.queued_since is not None]
    return max(held) if held and len(held) == len(mine) else None


class OwnerState(StrEnum):
    """The state of the workload that a pool was made for, as the live cluster reports it."""

    LIVE = "live"
    SUSPENDED = "suspended"
    SURPLUS = "live and does not need this pool"
    """The slices run on other nodes, and none waits."""
    OVER = "over"
    """Completed or failed."""
    GONE = "gone"
    """There is no object with the recorded UID."""
    UNKNOWN = "unknown"
    """The cluster could not be read; the owner is never taken as absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPods:
    """The unfinished accelerator pods that are bound to a pool's nodes."""

    own: int = 0
    """Of the workload that the pool was made for."""
    staying: int = 0
    """Of these, the pods that are not being deleted."""
    others: tuple[BoundPod, ...] = ()
    """The pods of any other workload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPods:
    """When the pods were created that a pool's owner has and that are bound to no node."""

    leader_since: float | None = None
    """Unix seconds, of the oldest leader of the pool's slice, or pod if no leader waits; None if
    none waits, and infinite if one waits and none says since when."""
    youngest_since: float = 0.0
    """Unix seconds, of the youngest pod of any slice, since slices may swap pools; 0 if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts:
    """Everything that was read about one pool before a decision."""

    pool: PoolSnapshot
    owner: OwnerState
    owner_since: float | None = None
    """Unix seconds since when the owner is in that state; None when no condition records it."""
    owner_found: bool = False
    """The workload with the UID on the pool exists, so that its state is its own word."""
    workload: WorkloadView | None = None
    """The owner, for Events; None if it is gone or could not be read."""
    parent: Parent | None = None
    """The parent of a live owner, if it was read."""
    pods: PoolPods | None = None
    """None while the pods were not read. They are always read before a delete."""
    nodes: int = 0
    """How many nodes there are; read with `pods`, for a live owner's pool with errors."""
    ready_nodes: int = 0
    """How many of them are Ready."""
    superseded: bool = False
    """There is a pool of a later attempt of the same claim, which is not being deleted."""
    waiting: WaitingPods = WaitingPods()
    """Read with `pods`, for a live owner's pool with errors."""
    workload_over: bool = False
    """The whole workload has ended or is gone, and not only the slice of the pool."""
    marks: Mapping[str, SurplusMark | None] = field(default_factory=dict)
    """The nodes with our marks; read with `pods`, for a pool that may stay without use."""


def is_owner(owner: PoolOwner, workload: WorkloadView | None) -> bool:
    """Return whether a workload is the one that a pool was made for, by its UID."""
    return workload is not None and owner.owner_uid == workload.uid


def has_ended(owner: PoolOwner, workload: WorkloadView | None) -> bool:
    """Return whether the whole workload of a pool has ended, so that none of its slices comes back.

    The workload is the one of that name as it is now; None if there is none.
    """
    gone = workload is None or owner.owner_uid not in ("", workload.uid) or workload.deleting
    return gone or bool(workload and workload.terminal)


def classify_owner(
    owner: PoolOwner, workload: WorkloadView | None, pods: Sequence[PodView] | None
) -> tuple[OwnerState, float | None]:
    """Return the state of a pool's owner and its start in unix seconds, by the pool's labels alone.

    The workload is the one of that name as it is now; None if there is none. The pods are None for
    a kind whose slices all end together, or if only those count that come after a suspension.
    """
    if workload is None or owner.owner_uid not in ("", workload.uid) or workload.deleting:
        return OwnerState.GONE, None
    if workload.terminal:
        # Before the slices, because a workload that has ended can have none left: a Job of single
        # hosts lists each of its indexes as completed.
        return OwnerState.OVER, workload.terminal_since
    if owner.slice_name and not has_slice(get_kind(owner.kind), workload, owner.slice_name, pods):
        return OwnerState.GONE, None  # the slice was scaled away
    if workload.suspended:
        since = workload.suspended_since
        return OwnerState.SUSPENDED, workload.suspend_set_at if since is None else since
    held = find_queued_since(get_kind(owner.kind), workload, owner.slice_name, pods) if pods else None
    return (OwnerState.LIVE, None) if held is None else (OwnerState.SUSPENDED, held)


def measure_waiting(owner: PoolOwner, workload: WorkloadView, pods: Sequence[PodView]) -> WaitingPods:
    """Return since when pods of a pool's owner wait, among unbound pods of its kind."""
    kind = get_kind(owner.kind)
    mine = [
        pod
        for pod in pods
        if not (pod.node_name or pod.deleting or pod.finished or pod.gates)
        and kind.find_owner(pod) == workload.name
        and kind.find_owner_uid(pod) in ("", workload.uid)
    ]
    since = {pod.uid: pod.unschedulable_since if pod.created_at is None else pod.created_at for pod in mine}

    def select(*, leading: bool) -> list[PodView]:
        some = ((pod, find_known_slice(kind, pod, workload)) for pod in mine if is_leader(kind, pod) == leading)
        return [pod for pod, found in some if (found.name if found else "") == owner.slice_name]

    leaders = select(leading=True) or select(leading=False)
    return WaitingPods(
        leader_since=min((_or(since[pod.uid], math.inf) for pod in leaders), default=None),
        youngest_since=max((_or(each, 0.0) for each in since.values()), default=0.0),
    )


def _or(time: float | None, otherwise: float) -> float:
    return otherwise if time is None else time


def count_pods(
    owner: PoolOwner | None, pods: Sequence[BoundPod], *, now: float, drain_seconds_max: float
) -> PoolPods:
    """Return how many bound pods still need the pool: its owner's, and accelerator pods of others.

    A pod that has been terminating for longer than the limit does not count. Pods of others without
    accelerators, for example for monitoring, can move to other nodes. A pod without accelerators
    that has the owner's labels counts as the owner's only until it is older than the limit: anyone
    in the namespace can write these labels, and such a pod could keep the pool for ever.
    """
    home = owner.home if owner else None
    due = [pod for pod in pods if pod.deleting_since is None or now - pod.deleting_since <= drain_seconds_max]
    counted = [
        pod for pod in due if pod.chips or (measure_seconds(pod.created_at, now) or 0.0) <= drain_seconds_max
    ]
    own = [pod for pod in counted if pod.user == home]
    return PoolPods(
        own=len(own),
        staying=sum(pod.deleting_since is None for pod in own),
        others=tuple(pod for pod in counted if pod.chips and pod.user != home),
    )
