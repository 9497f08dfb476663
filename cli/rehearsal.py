"""Runs the functions' own code without any change: what would be decided now.

A create that would conflict conflicts here too, so the code takes the same path as in reality.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, cast

from shared.core.errors import AlreadyExists
from shared.core.identity.pool_index import PoolIndex
from shared.perform.answer_demand import provision_pod
from shared.perform.creation_list import Creations
from shared.perform.fillings import OptionalReads
from shared.perform.followers import judge_followers
from shared.perform.look import Look, RecentPools
from shared.perform.release_pools import collect_pool
from shared.perform.resume_workloads import SweepShare, answer_workload, hand_over, list_parents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from shared.core.identity.creations import Creation
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import (
        BoundPod,
        Cluster,
        FillError,
        Ledger,
        Machines,
        Namespace,
        NodePools,
        Notice,
        Ports,
        SurplusMark,
    )
    from shared.core.workloads import Disk, NodeView, Parent, PodView, WorkloadView
    from shared.perform.outcome import Outcome

SHOWN_MAX = 50
"""Of so many pools that have no nodes yet an operator is shown why: they are read one by one."""


class RehearsedPools:
    """`shared.core.ports.NodePools` that reads and never writes."""

    def __init__(self, real: NodePools) -> None:
        self._real = real

    def create(self, cluster: str, node_pool: Mapping[str, Any]) -> None:
        """Accept a pool that GKE would accept as far as can be seen; nothing is sent."""
        name = str(node_pool["name"])
        if self._real.get(cluster, name) is not None:
            raise AlreadyExists(f"node pool {name} exists")

    def get(self, cluster: str, name: str) -> PoolSnapshot | None:
        """Return one pool, or None."""
        return self._real.get(cluster, name)

    def list(self, cluster: str) -> list[PoolSnapshot]:
        """Return every pool."""
        return self._real.list(cluster)

    def list_creations(self, cluster: str) -> Sequence[Creation]:
        """Return the creations of pools that GKE still lists."""
        return self._real.list_creations(cluster)

    def delete(self, cluster: str, name: str) -> None:
        """Accept a deletion; nothing is sent."""

    def measure(self, pool: PoolSnapshot) -> int:
        """Return how many nodes GKE keeps in a pool."""
        return self._real.measure(pool)

    def resize(self, cluster: str, name: str, nodes: int) -> None:
        """Accept another size; nothing is sent."""

    def read_machines(self, pool: PoolSnapshot) -> Machines:
        """Return what Compute Engine says of the machines of a pool."""
        return self._real.read_machines(pool)

    def list_missing(self, pool: PoolSnapshot) -> Sequence[str]:
        """Return the nodes that GKE keeps trying to make."""
        return self._real.list_missing(pool)

    def remove_nodes(self, pool: PoolSnapshot, names: Sequence[str]) -> None:
        """Accept that nodes go; nothing is sent."""


class RehearsedCluster:
    """`shared.core.ports.Cluster` that reads and writes no Events."""

    def __init__(self, real: Cluster) -> None:
        self._real = real

    def get_pod(self, namespace: str, name: str) -> PodView | None:
        """Return one pod, or None."""
        return self._real.get_pod(namespace, name)

    def get_workload(self, kind: str, namespace: str, name: str) -> WorkloadView | None:
        """Return one workload, or None."""
        return self._real.get_workload(kind, namespace, name)

    def get_parent(self, parent: Parent, kind: str) -> Parent | None:
        """Return what made a workload, or None."""
        return self._real.get_parent(parent, kind)

    def get_namespace(self, name: str) -> Namespace | None:
        """Return one namespace, or None."""
        return self._real.get_namespace(name)

    def find_disk(self, namespace: str, claim: str) -> Disk | None:
        """Return where the volume of a claim can be used, or None."""
        return self._real.find_disk(namespace, claim)

    def read_ledger(self, namespace: str) -> Ledger:
        """Return the reservations."""
        return self._real.read_ledger(namespace)

    def write_ledger(self, namespace: str, ledger: Ledger) -> Ledger:  # noqa: ARG002 -- as the port has it
        """Write nothing."""
        return ledger

    def list_waiting_leaders(self, workload: WorkloadView | None = None) -> Iterable[PodView]:
        """Return the leader pods that are bound to no node."""
        return self._real.list_waiting_leaders(workload)

    def list_waiting_followers(self) -> Iterable[PodView]:
        """Return the other pods of slices that are bound to no node."""
        return self._real.list_waiting_followers()

    def list_waiting_pods(self, kind: str, namespace: str) -> list[PodView]:
        """Return the pods of a kind's workloads in a namespace that are bound to no node."""
        return self._real.list_waiting_pods(kind, namespace)

    def list_asking_workloads(self) -> Iterable[WorkloadView]:
        """Return the workloads that ask for their capacity first."""
        return self._real.list_asking_workloads()

    def list_asking_parents(self) -> Iterable[WorkloadView]:
        """Return the parents that ask for it."""
        return self._real.list_asking_parents()

    def change_workload(
        self,
        workload: WorkloadView,
        marks: Mapping[str, str | None],
        *,
        suspended: bool | None = None,
    ) -> WorkloadView:
        """Return the workload as it would be; nothing is sent."""
        said = {key: value for key, value in {**workload.marks, **marks}.items() if value is not None}
        now = workload.suspended if suspended is None else suspended
        return dataclasses.replace(workload, marks=said, suspended=now)

    def list_workload_pods(self, workload: WorkloadView) -> list[PodView]:
        """Return the live accelerator pods of a workload."""
        return self._real.list_workload_pods(workload)

    def find_pools_of_nodes(self, pool_names: Sequence[str], *, some: bool = False) -> dict[str, str]:
        """Return the nodes of these pools by name, each with the name of its pool."""
        return self._real.find_pools_of_nodes(pool_names, some=some)

    def list_pool_nodes(self, pool_name: str) -> list[NodeView]:
        """Return the nodes of a pool."""
        return self._real.list_pool_nodes(pool_name)

    def list_pool_pods(self, pool_name: str) -> list[BoundPod]:
        """Return the unfinished pods on a pool's nodes."""
        return self._real.list_pool_pods(pool_name)

    def list_scale_ups(self, pod: PodView) -> Sequence[FillError]:
        """Return what GKE's autoscaler told a pod about new nodes."""
        return self._real.list_scale_ups(pod)

    def list_surplus_marks(self, pool_name: str) -> dict[str, SurplusMark | None]:
        """Return the nodes of a pool by name, each with our mark where it has one."""
        return self._real.list_surplus_marks(pool_name)

    def mark_surplus(self, node: str, since: float | None, *, closed: bool = False) -> None:
        """Mark nothing."""

    def write_notice(self, notice: Notice) -> None:
        """Write nothing."""


def rehearse(ports: Ports) -> Ports:
    """Return ports by which nothing can be changed."""
    pools = OptionalReads(RehearsedPools(ports.pools), "read_machines", reads_max=SHOWN_MAX)
    return dataclasses.replace(
        ports,
        pools=cast("NodePools", pools),
        clusters={name: RehearsedCluster(cluster) for name, cluster in ports.clusters.items()},
        dead_letters=None,
        reads_fillings=True,
    )


def rehearse_leaders(cluster: str, pools: list[PoolSnapshot], ports: Ports) -> Iterator[tuple[PodView, Outcome]]:
    """Yield each waiting leader of a cluster with its decision, and each refused follower.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        pools: every pool of it, just listed.
        ports: from `rehearse`.
    """
    listed = RecentPools(lambda: PoolIndex.of(pools), ports.clock)
    look = Look(cluster=cluster, ports=ports, pools=listed, creations=Creations(cluster, ports), sweeps=True)
    for pod in ports.clusters[cluster].list_waiting_leaders():
        yield pod, provision_pod(pod, look)
    for pod, found in judge_followers(cluster, ports, pools=pools, answered=look.answered):
        if isinstance(found, Exception):
            raise found
        yield pod, found


def rehearse_asking(
    cluster: str, pools: list[PoolSnapshot], ports: Ports
) -> Iterator[tuple[WorkloadView, list[Outcome]]]:
    """Yield each suspended workload that waits for its capacity, with its decision.

    What would be done for its slices, or its pools, follows the decision. The arguments are those
    of `rehearse_leaders`. Without the setting they are not listed, since that needs a right.
    """
    if ports.settings.capacity_first:
        for workload in ports.clusters[cluster].list_asking_workloads():
            if workload.suspended:
                share = SweepShare(list_pools=lambda: pools)
                yield workload, answer_workload(cluster, workload, ports, share=share)
        for parent in list_parents(ports.clusters[cluster]):
            if parent.suspended:
                yield parent, [hand_over(cluster, parent, ports)]


def rehearse_pools(
    cluster: str, pools: list[PoolSnapshot], ports: Ports
) -> Iterator[tuple[PoolSnapshot, Outcome]]:
    """Yield each pool of ours with its decision. The arguments are those of `rehearse_leaders`."""
    for pool in pools:
        if pool.owner is not None:
            yield pool, collect_pool(cluster, pool, ports, pools=pools)
