"""Whose pods really stand on a pool, for workloads that lose and gain single slices while they live.

Slices of equal shape swap pools: nothing but a pin makes the first replica land on the pool that was made for it.
So a pool's name says for which slice it was bought, and the pods on its nodes say which slice it serves. Where the
two differ, use decides: a pool in use is never given back for its name's sake, a pool that stands empty while its
slice runs on another one is, and a slice whose pool is taken by another one gets a further pool.

Pods of other workloads are nobody's to move: where these hold a pool, that is said.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from shared.core.decisions import Decision, Reason, Verdict
from shared.core.elastic import find_slice
from shared.core.errors import Rejected
from shared.core.kinds.table import find_kind
from shared.core.pools import PoolStatus

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from shared.core.kinds.kind import Kind, SliceOfPod
    from shared.core.pools import PoolSnapshot
    from shared.core.ports import BoundPod
    from shared.core.workloads import PodView, WorkloadView

TAKERS_NAMED_MAX = 3
_COMING = (PoolStatus.PROVISIONING, PoolStatus.RECONCILING)


class Holder(StrEnum):
    """Which pods of the asking slice's workload hold the pool that was made for it."""

    NOBODY = "nobody"
    """There is room: the pool serves, or will."""
    OTHER_SLICE = "other_slice"
    """Another slice of the workload took it; the asking one needs a further pool."""
    SAME_SLICE = "same_slice"
    """Other pods of this very slice run already, as many as it has hosts: the one that asks is one too many."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Where the live pods of one workload stand, seen from one pool."""

    kind: Kind
    workload: WorkloadView
    pods: tuple[PodView, ...]
    nodes: frozenset[str]
    """Names of the pool's nodes."""

    @property
    def here(self) -> list[PodView]:
        """Return the pods on the pool."""
        return [pod for pod in self.pods if pod.node_name in self.nodes]

    @property
    def waiting(self) -> list[PodView]:
        """Return the pods that no node has."""
        return [pod for pod in self.pods if not pod.node_name]

    def list_hosts_of(self, slice_name: str) -> list[PodView]:
        """Return the pods of a slice that have a node, wherever that is; guests without chips fill none."""
        placed = (pod for pod in self.pods if pod.node_name and pod.template.chips > 0)
        return [pod for pod in placed if (known := self.find_slice(pod)) and known.name == slice_name]

    def find_slice(self, pod: PodView) -> SliceOfPod | None:
        """Return the slice of one of the pods; None for one whose slice cannot be told."""
        try:
            return find_slice(self.kind, pod, self.workload)
        except Rejected:
            return None


def measure_occupancy(
    kind: Kind, workload: WorkloadView, pods: Sequence[PodView], nodes: Collection[str]
) -> Occupancy:
    """Return where a workload's accelerator pods stand; those that are ending or over hold nothing any more.

    Args:
        kind: one with `Kind.pods_of`.
        workload: as it is now.
        pods: its pods, those of an earlier workload of its name among them or not.
        nodes: names of the nodes of one pool.
    """
    live = (pod for pod in pods if not pod.deleting and not pod.finished and pod.template.wants_accelerator)
    ours = (pod for pod in live if kind.find_owner_uid(pod) in ("", workload.uid))
    return Occupancy(kind, workload, tuple(ours), frozenset(nodes))


def is_surplus(found: Occupancy, slice_name: str) -> bool:
    """Return whether a pool that was made for a slice stands empty and nothing of its workload will need it.

    So: none of the workload's pods is on it, the slice lives on other nodes, and no pod waits or is still to come.
    A slice without pods, with fewer than it has hosts, or of unknown size proves nothing: its next pods may be
    about to be made.
    """
    if found.here or found.waiting:
        return False
    slices = [known for known in map(found.find_slice, found.pods) if known is not None]
    mine = next((known for known in slices if known.name == slice_name), None)
    if mine is None or not mine.group.hosts or len(slices) < len(found.pods):
        return False
    pods_of = Counter(known.name for known in slices if known.group.name == mine.group.name)
    whole = {name for name, count in pods_of.items() if count >= mine.group.hosts}
    return slice_name in whole and len(whole) >= mine.group.replicas


def list_waiting_slices(found: Occupancy) -> list[SliceOfPod]:
    """Return the slices of a workload with a pod that no node has and no queue holds, each once."""
    known = (found.find_slice(pod) for pod in found.waiting if not pod.gated)
    return list({each.name: each for each in known if each is not None}.values())


def find_holder(found: Occupancy, asking: PodView, *, hosts: int) -> Holder:
    """Return who holds the pool that was made for the slice of a pod that waits.

    Args:
        found: seen from that pool.
        asking: the pod.
        hosts: how many nodes the slice has.
    """
    mine = found.find_slice(asking)
    known = [found.find_slice(pod) for pod in found.here]
    if mine is None or not known:
        return Holder.NOBODY
    if len(found.list_hosts_of(mine.name)) >= hosts:
        return Holder.SAME_SLICE
    if any(each is not None and each.name != mine.name for each in known):
        return Holder.OTHER_SLICE
    filling = sum(pod.template.chips > 0 for pod in found.here)  # a guest without chips fills no host
    return Holder.SAME_SLICE if filling >= hosts else Holder.NOBODY


def find_queued_since(
    kind: Kind, workload: WorkloadView, slice_name: str, pods: Sequence[PodView]
) -> float | None:
    """Return since when a queue holds every live pod of a slice, at the latest; None while one is free to run.

    Kueue does not suspend what it holds pod by pod: evicted, its pods are deleted, and those
    that come after them wait at a gate. A slice without pods proves nothing.
    """
    if all(pod.queued_since is None for pod in pods):
        return None
    found = measure_occupancy(kind, workload, pods, ())
    mine = [pod for pod in found.pods if (known := found.find_slice(pod)) and known.name == slice_name]
    held = [pod.queued_since for pod in mine if pod.queued_since is not None]
    return max(held) if held and len(held) == len(mine) else None


def count_slices(found: Occupancy) -> int:
    """Return how many slices the workload's pods make up, whether they run or wait."""
    return len({known.name for known in map(found.find_slice, found.pods) if known is not None})


def find_takers(
    pool: PoolSnapshot, pods: Sequence[BoundPod], *, now: float, drain_seconds_max: float
) -> list[tuple[str, str, str]]:
    """Return kind, namespace and name of the other workloads whose accelerator pods hold a pool of ours, sorted.

    Args:
        pool: the pool.
        pods: the unfinished pods on its nodes.
        now: unix seconds.
        drain_seconds_max: for how long a pod that is being deleted is believed to end by itself.
    """
    mine = (pool.owner.kind, pool.owner.namespace, pool.owner.name) if pool.owner else None
    holding = (
        pod
        for pod in pods
        if pod.chips and (pod.deleting_since is None or now - pod.deleting_since > drain_seconds_max)
    )
    found = {(pod.kind or "Pod", pod.namespace, pod.workload or pod.name) for pod in holding}
    return sorted(found - {mine})


def decide_taken(
    pool: PoolSnapshot, takers: Sequence[tuple[str, str, str]], *, pools: Sequence[PoolSnapshot]
) -> Decision | None:
    """Return what is told to the owner of a pod whose running pool others hold; None when nothing is to be told.

    While a taker's own pool is being made, this pod has only to wait for room there: both want the same nodes.

    Args:
        pool: the pool that should serve.
        takers: as `find_takers` returns them.
        pools: every pool of the cluster.
    """
    coming = {
        (each.owner.kind, each.owner.namespace, each.owner.name)
        for each in pools
        if each.owner and each.status in _COMING
    }
    if not takers or coming.intersection(takers):
        return None
    names = [f"{kind} {namespace}/{name}" for kind, namespace, name in takers]
    more = len(names) - TAKERS_NAMED_MAX
    shown = ", ".join(names[:TAKERS_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
    kind = find_kind(pool.owner.kind) if pool.owner else None
    pin = f"; so would, on this {kind.name}, {kind.pin_advice}" if kind and kind.pin_advice else ""
    return Decision(
        Verdict.REFUSE,
        Reason.POOL_TAKEN,
        f"node pool {pool.name} runs and does not take this pod: accelerator pods of other workloads stand on it "
        f"({shown}), and it waits until they end. A node label of its own that each workload of this shape "
        f"selects, and that its pool then carries, would keep them apart{pin}",
    )
