"""One cluster of a scenario: its workloads, pods and nodes, and the scheduler between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from shared.edges.pods import Pod, view_pod
from shared.kinds.kind import Kind
from shared.kinds.table import find_kind_of_pod
from shared.model import labels
from shared.model.pools import NodePool, PoolNode
from shared.model.times import format_time
from shared.model.workloads import Notice, PodView
from standins.kit import fitting
from tests.simulation.sim_autoscaler import Autoscaler, draw_node, draw_pod
from tests.simulation.sim_kueue import Kueue
from tests.simulation.sim_pool_bodies import Pool
from tests.simulation.sim_scenarios import DRAIN_SECONDS
from tests.simulation.sim_workloads import NAMESPACE, SINGLE_HOSTS, Json, PodPlan, Workload

if TYPE_CHECKING:
    from tests.simulation.sim_world import World

FIXED_NAMES = ("StatefulSet", "LeaderWorkerSet", "Pod")
"""Kinds whose next pod has the name of the one before."""


@dataclass(slots=True, eq=False)
class Node:
    view: PoolNode  # what the API says of it
    pool: Pool
    labels: dict[str, str]
    units: int
    created_at: float
    pods: list[SimPod] = field(default_factory=list)
    drawn: tuple[PoolNode, NodePool, fitting.Node] | None = None  # how it was seen last, and for what

    @property
    def name(self) -> str:
        return self.view.name

    def leave(self, pod: SimPod, now: float) -> None:
        """Let a pod be on it no more."""
        self.pods.remove(pod)
        self.pool.left_at = now

    def stop(self) -> None:
        self.view = replace(self.view, ready=False, ready_at=None)


@dataclass(slots=True, eq=False)
class SimPod:
    plan: PodPlan
    workload: Workload
    body: Json  # as the API had it first
    view: PodView
    kind: Kind | None
    made_at: float
    node: Node | None = None
    bound_at: float = 0.0
    deleting_since: float | None = None
    drawn: tuple[PodView, fitting.Pod] | None = None  # how scheduler and autoscaler saw it last

    @property
    def units(self) -> int:
        return self.view.template.units

    @property
    def live(self) -> bool:
        """Return whether it runs or waits, and nothing ends it."""
        return self.deleting_since is None and not self.view.finished


class SimCluster:
    """The truth about one cluster."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.workloads: dict[tuple[str, str], Workload] = {}
        self.gone_at: dict[str, float] = {}
        """By the UID of each workload that was removed."""
        self.pods: dict[str, SimPod] = {}
        """By UID."""
        self.waiting: dict[str, SimPod] = {}
        self.nodes: dict[str, Node] = {}
        self.events: dict[str, dict[tuple[str, str], float]] = {}
        """By the object's UID: reason and text of each Event, with the time of the last."""
        self.autoscaler = Autoscaler(world, self)
        self.kueue = Kueue(world, self)
        self.stop_mode, self.stopped_at = "", 0.0
        """The emergency stop: the mode of the label on our own namespace, and since when."""
        self._pass_due = False
        self._reconciling: set[str] = set()

    def read_clock(self) -> float:
        """Return what the clock of Kubernetes says, in whole seconds; it may be ahead."""
        return float(int(self.world.time.now + self.world.scenario.skew_seconds))

    # --- workloads --------------------------------------------------------------------------------

    def add_workload(self, made: Workload) -> None:
        self.workloads[made.kind, made.name] = made
        self.note_workload(made)

    def note_workload(self, made: Workload) -> None:
        """Tell the exporter of a change, and let the controller work."""
        made.touch()
        self.world.note_change()
        self.kueue.note_end(made)
        self._show(made)
        self._reconcile_soon(made)

    def edit(self, made: Workload, **changes: object) -> None:
        """Write something else into the spec of a workload."""
        for name, value in changes.items():
            setattr(made, name, value)
        made.generation, made.changed_at = made.generation + 1, self.world.time.now
        self.note_workload(made)

    def _show(self, made: Workload) -> None:
        """Show a workload to the exporter, unless it is gone."""
        if self.workloads.get((made.kind, made.name)) is made:
            self.world.exporters[self.name].see_workload(made)

    def suspend(self, made: Workload, *, says: bool = True) -> None:
        """Suspend a workload; its controller says since when a moment later, or never."""

        def say() -> None:
            if made.suspended:
                made.suspended_since = self.read_clock()
                self.note_workload(made)

        self.edit(made, suspended=True, suspended_at=self.world.time.now)
        if says:
            self.world.time.after(1.0, say)

    def resume(self, made: Workload) -> None:
        self.edit(made, suspended=False, suspended_since=None)

    def remove_workload(self, made: Workload) -> None:
        if self.workloads.get((made.kind, made.name)) is made:
            del self.workloads[made.kind, made.name]
        self.gone_at[made.uid] = self.world.time.now
        made.deleting_since = made.deleting_since or self.world.time.now
        made.touch()
        self.world.note_change()
        self.kueue.note_end(made)
        self.world.exporters[self.name].lose_workload(made)
        self._reconcile(made)

    def find_workload(self, name: str) -> Workload | None:
        return next((made for (_, each), made in self.workloads.items() if each == name), None)

    def find_owner(self, pool: Pool) -> Workload | None:
        """Return the live workload that a pool is of."""
        owner = pool.owner
        made = self.workloads.get((owner.kind, owner.name)) if owner else None
        return made if made and pool.is_of(made) else None

    def list_pods_of(self, made: Workload) -> list[SimPod]:
        """Return the pods that a workload has, those that end included."""
        return [pod for pod in self.pods.values() if pod.workload is made]

    def count_pools_needed(self, made: Workload, *, surges: bool) -> int:
        """Return how many pools a workload needs beside those of others on which it runs."""
        wanted = made.list_wanted()
        if not made.elastic:
            slices = made.count_slices() if surges else len({plan.slice_name for plan in wanted})
            return slices - self.count_elsewhere(made)
        nodes = made.count_nodes() if surges else len(wanted)
        return int(nodes > len(self._list_elsewhere(made)))

    def count_elsewhere(self, made: Workload) -> int:
        """Return how many slices of a workload have a pod that runs on a pool of others."""
        return len({pod.plan.slice_name for pod in self._list_elsewhere(made)})

    def _list_elsewhere(self, made: Workload) -> list[SimPod]:
        return [pod for pod in self.list_pods_of(made) if pod.node and not pod.node.pool.is_of(made)]

    def _reconcile_soon(self, made: Workload) -> None:
        if made.uid not in self._reconciling:
            self._reconciling.add(made.uid)
            self.world.time.after(0.5 + self.world.rng.random(), lambda: self._reconcile(made))

    def _reconcile(self, made: Workload) -> None:
        """Make the pods that a workload wants, and end the others."""
        self._reconciling.discard(made.uid)
        plans = {plan.key: plan for plan in made.list_pods()}
        names = set()
        for pod in self.list_pods_of(made):
            if pod.live and plans.pop(pod.plan.key, None) is None:
                self.end_pod(pod, self.world.draw_termination())
            names.add(pod.view.name)
        for plan in plans.values():
            if made.kind not in FIXED_NAMES or plan.name not in names:
                self._add_pod(made, plan)
        active = sum(not pod.view.finished for pod in self.list_pods_of(made))
        if active != made.active:  # the status that shows how much still runs
            made.active = active
            made.touch()
            self._show(made)

    # --- pods -------------------------------------------------------------------------------------

    def _add_pod(self, made: Workload, plan: PodPlan) -> None:
        world = self.world
        uid = made.uid if made.kind == "Pod" else world.make_uid("pod")
        name = plan.name if made.kind in FIXED_NAMES else f"{plan.name}-{uid[4:]}"
        own = {"namespace": NAMESPACE, "name": name, "uid": uid}
        created = {"creationTimestamp": format_time(self.read_clock())}
        body = plan.body | {"metadata": plan.body["metadata"] | own | created}
        view = view_pod(msgspec.convert(body, Pod))
        pod = SimPod(plan, made, body, view, find_kind_of_pod(view), world.time.now)
        self.pods[uid] = self.waiting[uid] = pod
        world.note_change()
        self.schedule_soon()

    def end_pod(self, pod: SimPod, seconds: float) -> None:
        """Begin to end a pod; it is gone after its grace."""
        if pod.deleting_since is not None or pod.view.uid not in self.pods:
            return
        pod.deleting_since = self.world.time.now
        pod.view = replace(pod.view, deleting=True)
        self.world.note_change()
        if pod.node is None:
            self.remove_pod(pod)
        else:
            self.world.time.after(seconds, lambda: self.remove_pod(pod))

    def finish_pod(self, pod: SimPod, phase: str) -> None:
        """Let a pod end by itself; it stays as an object. What has ended does not end again."""
        if pod.view.finished:
            return
        if pod.node is not None:
            pod.node.leave(pod, self.world.time.now)
            self.schedule_soon()
        self.waiting.pop(pod.view.uid, None)
        pod.view = replace(pod.view, phase=phase, unschedulable=False)
        self.world.exporters[self.name].lose_pod(pod)
        self.world.note_change()

    def remove_pod(self, pod: SimPod) -> None:
        if self.pods.pop(pod.view.uid, None) is None:
            return
        if self.waiting.pop(pod.view.uid, None) is not None:
            self.world.exporters[self.name].lose_pod(pod)
        if pod.node is not None and pod in pod.node.pods:
            pod.node.leave(pod, self.world.time.now)
        made = pod.workload
        if made.kind == "Pod" and self.workloads.get(("Pod", made.name)) is made:
            self.remove_workload(made)
        else:
            self._reconcile_soon(made)
        self.world.note_change()
        self.schedule_soon()

    # --- nodes ------------------------------------------------------------------------------------

    def add_node(self, pool: Pool, name: str) -> None:
        self.nodes[name] = self.build_node(pool, name)
        self.world.note_change()
        self.schedule_soon()

    def mark(self, node: Node, since: float | None, *, closed: bool) -> None:
        """Set the taint of a warm pool on a node, or take it off."""
        node.view = replace(node.view, idle_since=None if since is None else float(int(since)), closed=closed)
        self.world.note_change()
        self.schedule_soon()

    def build_node(self, pool: Pool, name: str) -> Node:
        listed, now = pool.listed, self.world.time.now
        marks = listed.node_labels | SINGLE_HOSTS[listed.machine_type].selectors
        if listed.topology:
            marks[labels.TOPOLOGY] = listed.topology
        view = PoolNode(name=name, pool=pool.name, ready=True, ready_at=now)
        return Node(view, pool, marks, listed.units, now)

    def drain_node(self, name: str) -> None:
        """End the pods of a node, which takes no more."""
        node = self.nodes[name]
        node.stop()
        for pod in list(node.pods):
            self.end_pod(pod, 20.0)

    def remove_node(self, name: str) -> None:
        """Take a node away at once, with its pods."""
        node = self.nodes.pop(name, None)
        if node is None:
            return
        node.stop()
        for pod in [each for each in self.pods.values() if each.node is node]:
            self.remove_pod(pod)
        self.world.gke.note_nodes(node.pool)
        self.world.note_change()

    def list_nodes(self, pool: Pool) -> list[Node]:
        """Return the nodes of this very pool, and of none before it of its name."""
        return [node for node in self.nodes.values() if node.pool is pool]

    def list_users(self, pool: Pool) -> list[SimPod]:
        """Return the pods with accelerators on a pool; those that have ended left it."""
        return [pod for node in self.list_nodes(pool) for pod in node.pods if pod.units]

    def list_holders(self, pool: Pool) -> list[SimPod]:
        """Return the pods that hold a pool; one that ends does so for some minutes."""
        since = self.world.time.now - DRAIN_SECONDS
        users = self.list_users(pool)
        return [pod for pod in users if pod.deleting_since is None or pod.deleting_since >= since]

    # --- the scheduler ----------------------------------------------------------------------------

    def schedule_soon(self) -> None:
        """Let the scheduler look at the waiting pods in a moment."""
        if not self._pass_due and self.waiting:
            self._pass_due = True
            self.world.time.after(0.3 + self.world.rng.random(), self._schedule)

    def _schedule(self) -> None:
        self._pass_due = False
        unfinished = (pod for pod in self.pods.values() if not pod.view.finished)
        placing = fitting.Placing(map(draw_node, self.nodes.values()), map(draw_pod, unfinished))
        ready = [row for name, row in placing.rows.items() if self.nodes[name].view.ready]
        for pod in list(self.waiting.values()):
            if not pod.live:
                continue
            row = placing.place(draw_pod(pod), ready)
            if row is not None:
                self._bind(pod, self.nodes[row.name])
            elif not pod.view.unschedulable:
                pod.view = replace(pod.view, unschedulable=True, unschedulable_since=self.read_clock())
                self.world.exporters[self.name].see_pod(pod)
                self.world.note_change()

    def _bind(self, pod: SimPod, node: Node) -> None:
        now = self.world.time.now
        self.world.tell(f"pod {pod.view.name} is bound to {node.name}")
        pod.node, pod.bound_at, node.pool.bound_at = node, now, now
        node.pods.append(pod)
        owner = self.find_owner(node.pool)
        if owner is not None and owner is not pod.workload:
            owner.lent = True
        pod.view = replace(
            pod.view, node_name=node.name, phase="Running", unschedulable=False, unschedulable_since=None
        )
        del self.waiting[pod.view.uid]
        self.world.exporters[self.name].lose_pod(pod)
        self.world.note_change()

    # --- Events -----------------------------------------------------------------------------------

    def write_event(self, notice: Notice) -> None:
        """Keep an Event; the same one again is only refreshed."""
        self.events.setdefault(notice.subject.uid, {})[notice.reason, notice.message] = self.world.time.now
