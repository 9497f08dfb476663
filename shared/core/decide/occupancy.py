"""Finds which slice runs on which pool, for workloads whose slices come and go.

Slices of equal shape swap pools, because only a pin keeps a slice on the pool that was created
for it. A pool's name says for which slice it was created, and the pods on its nodes say which slice
it serves. Where the two differ, use decides (`shared.core.decide.needed_pools`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from shared.core.errors import Rejected
from shared.core.kinds.elastic import find_slice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.core.kinds.kind import Kind, SliceOfPod
    from shared.core.workloads import PodView, SliceGroup, WorkloadView


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
    def placed(self) -> dict[str, SliceGroup]:
        """Each slice, by name with its group, that has all of its hosts bound to nodes.

        An elastic pool is one slice of all of its pods. A slice of unknown size is never placed.
        """
        hosts = (pod for pod in self.pods if pod.node_name and pod.template.units > 0)
        bound = (self.slices[pod.name] for pod in hosts)
        known = [each for each in bound if each is not None]
        counts, groups = Counter(each.name for each in known), {each.name: each.group for each in known}
        return {name: group for name, group in groups.items() if 0 < _count_hosts(group) <= counts[name]}

    def list_nodes_of(self, pool_name: str) -> list[str]:
        """Return the names of a pool's nodes."""
        return [node for node, pool in self.homes.items() if pool == pool_name]

    def list_on(self, pool_name: str) -> list[PodView]:
        """Return the pods on a pool."""
        return self.by_pool.get(pool_name, [])

    def count_slices_on(self, pool_name: str) -> Counter[str]:
        """Return how many pods of each slice are on a pool."""
        return self._slices_by_pool.get(pool_name, Counter())

    def list_hosts_of(self, slice_name: str) -> list[PodView]:
        """Return the pods with chips of a slice that are bound to a node, on any pool."""
        placed = (pod for pod in self.pods if pod.node_name and pod.template.chips > 0)
        return [pod for pod in placed if (known := self.slices[pod.name]) and known.name == slice_name]


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
