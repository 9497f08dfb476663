"""The clock of a story, and what the product sees of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from shared.kinds.table import is_pod_of, select_pods_of
from shared.model import labels
from shared.model.workloads import Namespace, Notice

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from shared.model.pools import PoolNode
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


class ClusterPort:
    """`shared.engine.outside.Cluster` of one story, which says what each method does."""

    def __init__(self, world: World, name: str) -> None:
        self._world, self._name = world, name

    def _begin(self, method: str) -> SimCluster:
        """Take the time of a call and return the cluster that answers it."""
        self._world.faults.read(method, self._name)
        return self._world.clusters[self._name]

    def get_workload(self, kind: str, namespace: str, name: str) -> WorkloadView | None:
        del namespace  # a story has one
        made = self._begin("get_workload").workloads.get((kind, name))
        return made.view if made else None

    def list_workloads(self, kind: str, names: Collection[tuple[str, str]]) -> list[WorkloadView]:
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
        selector = select_pods_of(workload)
        pods = (pod.view for pod in self._begin("list_workload_pods").pods.values())
        return [pod for pod in pods if is_selected(selector, pod) and is_pod_of(workload, pod)]

    def list_accelerator_pods(self) -> Iterable[PodView]:
        pods = self._begin("list_accelerator_pods").pods.values()
        return [pod.view for pod in pods if pod.units and not pod.view.finished]

    def list_nodes(self, pools: Sequence[str] = ()) -> list[PoolNode]:
        nodes = self._begin("list_nodes").nodes.values()
        return [node.show() for node in nodes if (node.pool.name in pools if pools else node.pool.owner)]

    def list_bound_pods(self, node: str) -> list[PodView]:
        """Return the unfinished pods on a node, and remember the look at its pool."""
        truth = self._begin("list_bound_pods")
        self._world.note_look(self._name, truth.nodes.get(node))
        if node not in truth.nodes:
            return []
        return [self._view(pod) for pod in truth.nodes[node].pods]

    def mark_idle(self, node: str, since: float | None, *, closed: bool = False) -> None:
        with self._world.faults.changing("mark_idle", self._name):
            truth = self._world.clusters[self._name]
            marked = truth.nodes.get(node)
            if marked is not None:
                opens = since is None
                self._world.judge.see_change("open" if opens else "mark", marked.pool, adds=opens)
                truth.mark(marked, since, closed=closed)

    def write_notice(self, notice: Notice) -> None:
        with self._world.faults.changing("write_notice", self._name):
            self._world.tell(f"tells {notice.subject.kind} {notice.subject.name}: {notice.message}")
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
