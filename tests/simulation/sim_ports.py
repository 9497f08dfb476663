"""The ports of a story: what the product sees of GKE and of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from shared.kinds.table import is_pod_of, select_pods_of
from shared.model import labels
from shared.model.pools import Machines, PoolNode
from shared.model.workloads import Namespace
from tests.simulation.sim_pool_bodies import DEFAULT_POOL

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from shared.model.decisions import Notice
    from shared.model.pools import NodePool, Operation
    from shared.model.workloads import Disk, Parent, PodView, WorkloadView
    from tests.simulation.sim_cluster import SimCluster, SimPod
    from tests.simulation.sim_world import World

OWN_NAMESPACE = "tpu-provisioner"


class SimClock:
    """`shared.model.times.Clock` of one story."""

    def __init__(self, world: World) -> None:
        self._time = world.time

    def now(self) -> float:
        """Return unix seconds."""
        return self._time.now

    def pause(self, seconds: float) -> None:
        """Let others go on for so long."""
        self._time.pause(seconds)


class GkePort:
    """`shared.engine.outside.PoolReads` of one story."""

    def __init__(self, world: World) -> None:
        self._world, self._gke = world, world.gke

    def list(self, cluster: str) -> list[NodePool]:
        """Return every pool of a cluster."""
        return [DEFAULT_POOL, *self._gke.list(cluster)]

    def get(self, cluster: str, name: str) -> NodePool | None:
        """Return one pool."""
        return self._gke.get(cluster, name)

    def list_operations(self, cluster: str) -> Sequence[Operation]:
        """Return the creates and deletes that GKE still lists."""
        return self._gke.list_operations(cluster)

    def read_machines(self, pool: NodePool) -> Machines:
        """Return what the instance group of a pool says of its machines."""
        named = (name for name, pools in self._gke.pools.items() if pool.name in pools)
        cluster = next(named, self._world.cluster_names[0])
        self._world.faults.read("read_machines", cluster)
        truth = self._gke.pools[cluster].get(pool.name)
        shows = self._world.time.now - self._world.faults.stale_seconds
        said = truth.recall_machines(shows) if truth else Machines()
        # The errors that a group remembers are read only if machines are absent and none comes.
        remembers = not said.coming and said.present < max(pool.node_count, 1)
        return replace(said, errors=tuple(error for error in said.errors if error.at is None or remembers))

    def find_channel(self, cluster: str) -> str:
        """Return the release channel, which each cluster of a story has."""
        return "REGULAR" if cluster in self._gke.pools else ""

    def open(self) -> None:
        """Open nothing: there is no connection."""


class GkeAdds(GkePort):
    """`shared.engine.outside.PoolAdds` of one story."""

    def create(self, cluster: str, node_pool: Mapping[str, Any]) -> None:
        """Submit one pool."""
        self._gke.create(cluster, node_pool)

    def raise_maximum(self, cluster: str, name: str, nodes: int, *, least: int = 0) -> None:
        """Let GKE's autoscaler give a pool so many nodes, and never fewer than `least`."""
        self._gke.bound("raise_maximum", cluster, name, nodes, least=least)


class GkeTakes(GkePort):
    """`shared.engine.outside.PoolTakes` of one story."""

    def delete(self, cluster: str, name: str) -> None:
        """Submit the deletion of one pool."""
        self._gke.delete(cluster, name)

    def lower_maximum(self, cluster: str, name: str, nodes: int) -> None:
        """Bound a pool to fewer nodes."""
        self._gke.bound("lower_maximum", cluster, name, nodes)


class ClusterPort:
    """`shared.engine.outside.Cluster` of one story."""

    def __init__(self, world: World, name: str) -> None:
        self._world, self._name = world, name

    def _begin(self, method: str) -> SimCluster:
        """Take the time of a call and return the cluster that answers it."""
        self._world.faults.read(method, self._name)
        return self._world.clusters[self._name]

    def get_workload(self, kind: str, namespace: str, name: str) -> WorkloadView | None:
        """Return one workload."""
        del namespace  # a story has one
        made = self._begin("get_workload").workloads.get((kind, name))
        return made.view if made else None

    def list_workloads(self, kind: str, names: Collection[tuple[str, str]]) -> list[WorkloadView]:
        """Return workloads by namespace and name."""
        workloads = self._begin("list_workloads").workloads.values()
        views = (each.view for each in workloads)
        return [view for view in views if view.kind == kind and (view.namespace, view.name) in names]

    def get_parent(self, parent: Parent) -> Parent | None:
        """Return nothing: no workload of a story has a parent."""
        del parent
        return None

    def find_disk(self, namespace: str, claim: str) -> Disk | None:
        """Return nothing: no pod of a story has claims."""
        del namespace, claim
        return None

    def get_namespace(self, name: str) -> Namespace | None:
        """Return a namespace, which says of which cluster it is, with the label that stops us."""
        truth, scenario = self._begin("get_namespace"), self._world.scenario
        mode = ""
        if name == OWN_NAMESPACE:
            mode = truth.stop_mode or ("" if scenario.mode == "active" else scenario.mode)
        marks = {labels.MODE: mode} if mode else {}
        return Namespace(uid=f"{name}-of-{truth.name.rpartition('/')[2]}", labels=marks)

    def list_workload_pods(self, workload: WorkloadView) -> list[PodView]:
        """Return the pods of a workload."""
        selector = select_pods_of(workload)
        pods = (pod.view for pod in self._begin("list_workload_pods").pods.values())
        return [pod for pod in pods if is_selected(selector, pod) and is_pod_of(workload, pod)]

    def list_accelerator_pods(self) -> Iterable[PodView]:
        """Return all unfinished accelerator pods of the cluster."""
        pods = self._begin("list_accelerator_pods").pods.values()
        return [pod.view for pod in pods if pod.units and not pod.view.finished]

    def list_nodes(self, pools: Sequence[str] = ()) -> list[PoolNode]:
        """Return the nodes of these pools, or of all pools of ours."""
        nodes = self._begin("list_nodes").nodes.values()
        return [node.show() for node in nodes if (node.pool.name in pools if pools else node.pool.owner)]

    def list_bound_pods(self, node: str) -> list[PodView]:
        """Return the unfinished pods on a node, and remember the look at its pool."""
        truth = self._begin("list_bound_pods")
        self._world.note_look(self._name, truth.nodes.get(node))
        if node not in truth.nodes:
            return []
        return [self._view(pod) for pod in truth.nodes[node].pods if not pod.view.finished]

    def mark_idle(self, node: str, since: float | None, *, closed: bool = False) -> None:
        """Set our taint on a node, or take it off."""
        with self._world.faults.changing("mark_idle", self._name):
            truth = self._world.clusters[self._name]
            marked = truth.nodes.get(node)
            if marked is not None:
                self._world.judge.see_mark(marked.pool, opens=since is None)
                truth.mark(marked, since, closed=closed)

    def write_notice(self, notice: Notice) -> None:
        """Write an Event."""
        with self._world.faults.changing("write_notice", self._name):
            self._world.tell(f"tells {notice.kind} {notice.name}: {notice.message}")
            self._world.clusters[self._name].write_event(notice)

    def _view(self, pod: SimPod) -> PodView:
        if pod.deleting_since is None:
            return pod.view
        return replace(pod.view, deleting_since=pod.deleting_since + self._world.scenario.skew_seconds)


def is_selected(selector: str, pod: PodView) -> bool:
    """Return whether a selector of ``key``, ``!key``, ``key=value`` takes a pod; empty does not."""
    for term in selector.split(","):
        key, equals, value = term.removeprefix("!").partition("=")
        answer = pod.template.labels.get(key)
        if (answer == value if equals else answer is not None) == term.startswith("!"):
            return False
    return True
