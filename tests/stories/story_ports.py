"""The ports of a story: what the engine sees of GKE and of a cluster."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shared.engine.outside import SurplusMark
from shared.kinds.table import is_pod_of, select_pods_of
from shared.model import labels
from shared.model.pools import NodePool, PoolStatus
from shared.model.readings import BoundPod, Machines, Namespace, Notice, Operation, PoolNode
from shared.model.workloads import Parent, PodView, WorkloadView
from tests.component.fakes import is_selected
from tests.simulation.sim_faults import Invocation
from tests.simulation.sim_pool_bodies import DEFAULT_POOL, Pool

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Node, SimCluster, SimPod
    from tests.stories.story_world import StoryWorld

OWN_NAMESPACE = "tpu-provisioner"


def view_pool(pool: Pool) -> NodePool:
    """Return a pool as GKE lists it."""
    return NodePool(
        name=pool.name,
        status=pool.status,
        labels=pool.labels,
        machine_type=pool.machine_type,
        accelerator=pool.accelerator if pool.gpus else "",
        gpus_per_node=pool.gpus,
        topology=pool.topology if pool.size > 1 and not pool.gpus else "",
        node_count=pool.node_count,
        zones=(pool.zone,) if pool.zone else (),
        spot=pool.spot,
        reservation="held" if pool.reserved else "",
        autoscaled=pool.autoscaled,
        group_urls=(f"projects/p/zones/{pool.zone or 'z'}/instanceGroupManagers/{pool.name}",),
        error=pool.error,
    )


class GkePort:
    """GKE's node pools of one story."""

    def __init__(self, world: StoryWorld) -> None:
        self._world, self._gke = world, world.gke

    def create(self, cluster: str, node_pool: Mapping[str, Any]) -> None:
        self._gke.create(cluster, node_pool)

    def delete(self, cluster: str, name: str) -> None:
        self._gke.delete(cluster, name)

    def get(self, cluster: str, name: str) -> NodePool | None:
        if self._gke.get(cluster, name) is None:
            return None
        return view_pool(self._gke.pools[cluster][name]) if name in self._gke.pools[cluster] else None

    def list(self, cluster: str) -> list[NodePool]:
        names = [pool.name for pool in self._gke.list(cluster)]
        default = NodePool(
            name=DEFAULT_POOL, status=PoolStatus.RUNNING, machine_type="e2-standard-4", node_count=1
        )
        pools = self._gke.pools[cluster]
        return [default, *(view_pool(pools[name]) for name in names if name in pools)]

    def find_channel(self, cluster: str) -> str:
        return self._gke.find_channel(cluster)

    def list_operations(self, cluster: str) -> Sequence[Operation]:
        return [
            Operation(
                pool=each.pool,
                creates=True,
                ended=each.ended,
                error=each.error,
                began_at=each.began_at,
                ended_at=each.ended_at,
            )
            for each in self._gke.list_creations(cluster)
        ]

    def read_machines(self, pool: NodePool) -> Machines:
        cluster = next((name for name, pools in self._gke.pools.items() if pool.name in pools), "")
        self._world.faults.read("read_machines", cluster or self._world.cluster_names[0])
        truth = self._gke.pools[cluster].get(pool.name) if cluster else None
        return truth.recall_machines(self._world.time.now) if truth else Machines()

    def raise_maximum(self, cluster: str, name: str, nodes: int) -> None:
        self._bound("raise_maximum", cluster, name, nodes)

    def lower_maximum(self, cluster: str, name: str, nodes: int) -> None:
        self._bound("lower_maximum", cluster, name, nodes)

    def _bound(self, method: str, cluster: str, name: str, nodes: int) -> None:
        with self._world.faults.changing(method, cluster):
            pool = self._gke.pools[cluster].get(name)
            if pool is None:
                return
            self._world.judge.see_change(method, pool)
            self._world.tell(f"GKE bounds {name} to {nodes} nodes")
            pool.node_count, pool.autoscaled = nodes, nodes > 0
            self._world.note_change()


class ClusterPort:
    """The live objects of one cluster of a story."""

    def __init__(self, world: StoryWorld, name: str) -> None:
        self._world, self._name = world, name

    def _begin(self, method: str) -> SimCluster:
        self._world.faults.read(method, self._name)
        return self._world.find_answering(self._name)

    def get_workload(self, kind: str, namespace: str, name: str) -> WorkloadView | None:
        made = self._begin("get_workload").workloads.get((kind, name))
        return made.view if made else None

    def get_parent(self, parent: Parent, kind: str) -> Parent | None:
        return None

    def get_namespace(self, name: str) -> Namespace | None:
        truth = self._begin("get_namespace")
        found = {labels.MODE: truth.stop_mode} if truth.stop_mode and name == OWN_NAMESPACE else {}
        if name == OWN_NAMESPACE and not found and self._world.scenario.mode != "active":
            found = {labels.MODE: self._world.scenario.mode}
        return Namespace(uid=f"{name}-of-{truth.name.rpartition('/')[2]}", labels=found)

    def list_workload_pods(self, workload: WorkloadView) -> list[PodView]:
        selector = select_pods_of(workload)
        pods = (pod.view for pod in self._begin("list_workload_pods").pods.values())
        return [pod for pod in pods if is_selected(selector, pod) and is_pod_of(workload, pod)]

    def list_accelerator_pods(self, *, unbound: bool) -> Iterable[PodView]:
        pods = self._begin("list_accelerator_pods").pods.values()
        return [pod.view for pod in pods if pod.units and not (unbound and pod.node)]

    def list_nodes(self, pools: Sequence[str] = ()) -> list[PoolNode]:
        nodes = self._begin("list_nodes").nodes.values()
        return [_view_node(node) for node in nodes if (node.pool.name in pools if pools else node.pool.owner)]

    def list_bound_pods(self, node: str) -> list[BoundPod]:
        truth = self._begin("list_bound_pods")
        known = truth.nodes.get(node)
        run = self._world.time.get_owner()
        if known is None:
            return []
        if isinstance(run, Invocation):
            run.looks[self._name, known.pool.name] = self._world.time.now
        return [self._view(pod) for pod in known.pods if not pod.view.finished]

    def mark_idle(self, node: str, since: float | None, *, closed: bool = False) -> None:
        with self._world.faults.changing("mark_idle", self._name):
            truth = self._world.find_answering(self._name)
            known = truth.nodes.get(node)
            if known is not None:
                self._world.judge.see_change("mark_idle", known.pool)
                known.mark = None if since is None else SurplusMark(float(int(since)), closed)
                self._world.note_change()
                truth.schedule_soon()

    def write_notice(self, notice: Notice) -> None:
        with self._world.faults.changing("write_notice", self._name):
            self._world.find_answering(self._name).write_event(notice)

    def _view(self, pod: SimPod) -> BoundPod:
        ending = pod.deleting_since
        return BoundPod(
            namespace=pod.view.namespace,
            name=pod.view.name,
            kind=pod.kind.name if pod.kind else "",
            workload=pod.kind.find_owner(pod.view) if pod.kind else "",
            chips=pod.units,
            deleting_since=None if ending is None else ending + self._world.scenario.skew_seconds,
            node=pod.view.node_name,
            uid=pod.view.uid,
            created_at=pod.view.created_at,
        )


def _view_node(node: Node) -> PoolNode:
    mark = node.mark
    return PoolNode(
        name=node.name,
        pool=node.pool.name,
        ready=node.ready,
        ready_at=node.created_at if node.ready else None,
        idle_since=mark.since if mark else None,
        closed=mark.closed if mark else False,
    )


def refresh(pool: Pool, **fields: object) -> Pool:
    """Return a pool with other fields."""
    return dataclasses.replace(pool, **fields)  # type: ignore[arg-type]
