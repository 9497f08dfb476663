"""The ports of a scenario: what the product sees of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.engine.outside import Ledger, SurplusMark
from shared.kinds.table import is_pod_of, select_pods_of
from shared.model import labels
from shared.model.errors import StaleView
from shared.model.readings import BoundPod, FillError, Namespace
from shared.model.workloads import NodeView
from tests.component.fakes import is_selected
from tests.simulation.sim_pool_bodies import DEFAULT_POOL, name_default_group
from tests.simulation.sim_scenario import EVENT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.model.readings import Notice
    from shared.model.workloads import Disk, Parent, PodView, WorkloadView
    from tests.simulation.sim_cluster import Node, SimCluster, SimPod
    from tests.simulation.sim_faults import Invocation
    from tests.simulation.sim_world import World


OWN_NAMESPACE = "tpu-provisioner"


class SimClock:
    """`shared.model.ports.Clock` of one scenario."""

    def __init__(self, world: World) -> None:
        self._time = world.time

    def now(self) -> float:
        """Return unix seconds."""
        return self._time.now

    def pause(self, seconds: float) -> None:
        """Let others go on for so long."""
        self._time.pause(seconds)


@dataclass(slots=True)
class ClusterPort:
    """`shared.model.ports.Cluster` of one scenario."""

    world: World
    name: str

    def _begin(self, method: str) -> SimCluster:
        """Take the time of a call and return the cluster that answers it."""
        self.world.faults.read(method, self.name)
        return self.world.find_answering(self.name)

    def get_pod(self, namespace: str, name: str) -> PodView | None:
        """Return one pod."""
        del namespace  # a scenario has one
        found = (pod.view for pod in self._begin("get_pod").pods.values() if pod.view.name == name)
        return next(found, None)

    def get_workload(self, kind: str, namespace: str, name: str) -> WorkloadView | None:
        """Return one workload."""
        del namespace
        made = self._begin("get_workload").workloads.get((kind, name))
        return made.view if made else None

    def get_parent(self, parent: Parent) -> Parent | None:
        """Return nothing: no workload of a scenario has a parent."""
        del parent
        return None

    def get_namespace(self, name: str) -> Namespace | None:
        """Return a namespace, which says of which cluster it is.

        The mode of the scenario is the label of the workloads' namespace, the stop that of ours.
        """
        truth = self._begin("get_namespace")
        mode = truth.stop_mode if name == OWN_NAMESPACE else self.world.scenario.mode
        return Namespace(
            uid=f"{name}-of-{truth.name.rpartition('/')[2]}", labels={labels.MODE: mode} if mode else {}
        )

    def find_disk(self, namespace: str, claim: str) -> Disk | None:
        """Return nothing: no pod of a scenario has claims."""
        del namespace, claim
        return None

    def read_ledger(self, namespace: str) -> Ledger:
        """Return the holds of a cluster."""
        return self._begin("read_ledger").ledgers.get(namespace, Ledger(version="", entries={}))

    def write_ledger(self, namespace: str, ledger: Ledger) -> Ledger:
        """Write the holds over the version that was read."""
        ledgers = self._begin("write_ledger").ledgers
        known = ledgers.get(namespace, Ledger(version="", entries={}))
        if ledger.version != known.version:
            raise StaleView("the ledger has changed")
        ledgers[namespace] = Ledger(version=f"{int(known.version or 0) + 1}", entries=dict(ledger.entries))
        return ledgers[namespace]

    def list_waiting_leaders(self, workload: WorkloadView | None = None) -> list[PodView]:
        """Return the accelerator leaders without a node."""
        waiting = self._begin("list_waiting_leaders").waiting.values()
        found = [pod for pod in waiting if pod.leads and pod.view.template.wants_accelerator]
        wanted = (workload.kind, workload.name) if workload else None
        named = ((each, (each.kind.name, each.kind.find_owner(each.view)) if each.kind else ()) for each in found)
        return [each.view for each, name in named if wanted in (None, name)]

    def list_waiting_followers(self) -> list[PodView]:
        """Return the other pods without a node."""
        waiting = self._begin("list_waiting_followers").waiting.values()
        return [pod.view for pod in waiting if not pod.leads]

    def list_waiting_pods(self, kind: str, namespace: str) -> list[PodView]:
        """Return the pods of a kind without a node."""
        del namespace
        waiting = self._begin("list_waiting_pods").waiting.values()
        return [pod.view for pod in waiting if pod.kind and pod.kind.name == kind]

    def list_workload_pods(self, workload: WorkloadView) -> list[PodView]:
        """Return the pods of a workload."""
        selector = select_pods_of(workload)
        pods = (pod.view for pod in self._begin("list_workload_pods").pods.values())
        return [pod for pod in pods if is_selected(selector, pod) and is_pod_of(workload, pod)]

    def list_pool_nodes(self, pool_name: str) -> list[NodeView]:
        """Return the nodes of a pool, and remember the look."""
        return [
            NodeView(name=node.name, ready=node.ready, units=node.units, created_at=node.created_at)
            for node in self._look_at_nodes("list_pool_nodes", pool_name)
        ]

    def _look_at_nodes(self, method: str, pool_name: str) -> list[Node]:
        nodes = self._begin(method).nodes.values()
        run: Invocation = self.world.time.get_owner()  # type: ignore[assignment]  # only invocations call ports
        run.node_looks[self.name, pool_name] = self.world.time.now
        return [node for node in nodes if node.pool.name == pool_name]

    def find_pools_of_nodes(self, pool_names: Sequence[str], *, some: bool = False) -> dict[str, str]:
        """Return the nodes of some pools, each with its pool."""
        del some
        truth = self._begin("find_pools_of_nodes")
        found = {node.name: node.pool.name for node in truth.nodes.values() if node.pool.name in pool_names}
        if DEFAULT_POOL in pool_names:
            found[f"{name_default_group(truth.name)}-x1y2"] = DEFAULT_POOL
        return found

    def list_pool_pods(self, pool_name: str) -> list[BoundPod]:
        """Return the pods on a pool, and remember the look."""
        truth = self._begin("list_pool_pods")
        run: Invocation = self.world.time.get_owner()  # type: ignore[assignment]  # only invocations call ports
        run.looks[self.name, pool_name] = self.world.time.now
        nodes = (node for node in truth.nodes.values() if node.pool.name == pool_name)
        return [self._view(pod) for node in nodes for pod in node.pods if not pod.view.finished]

    def list_scale_ups(self, pod: PodView) -> list[FillError]:
        """Return what the autoscaler told a pod, as long as API servers keep Events."""
        found = self._begin("list_scale_ups").scale_ups.get(pod.uid, {})
        oldest = self.world.time.now + self.world.scenario.skew_seconds - EVENT_SECONDS
        return [text for text in found.values() if text.at and text.at > oldest]

    def list_surplus_marks(self, pool_name: str) -> dict[str, SurplusMark | None]:
        """Return the marks of a pool's nodes, and remember the look."""
        return {node.name: node.mark for node in self._look_at_nodes("list_surplus_marks", pool_name)}

    def mark_surplus(self, node: str, since: float | None, *, closed: bool = False) -> None:
        """Set or remove the mark of a node."""
        with self.world.faults.changing("mark_surplus", self.name):
            truth = self.world.find_answering(self.name)
            found = truth.nodes.get(node)
            if found is not None:
                self.world.judge.see_change("mark_surplus", found.pool)
                found.mark = None if since is None else SurplusMark(float(int(since)), closed)
                self.world.note_change()
                truth.schedule_soon()

    def write_notice(self, notice: Notice) -> None:
        """Keep an Event."""
        with self.world.faults.changing("write_notice", self.name):
            self.world.judge.see_notice(self.name, notice)
            self.world.find_answering(self.name).write_event(notice)

    def _view(self, pod: SimPod) -> BoundPod:
        ending = pod.deleting_since
        return BoundPod(
            namespace=pod.view.namespace,
            name=pod.view.name,
            kind=pod.kind.name if pod.kind else "",
            workload=pod.kind.find_owner(pod.view) if pod.kind else "",
            chips=pod.units,
            deleting_since=None if ending is None else ending + self.world.scenario.skew_seconds,
            node=pod.view.node_name,
            created_at=pod.view.created_at,
        )
