"""GKE's autoscaler of one cluster: the stand-in's model decides, and this reads and acts.

It runs in the loops of 10 s before which something has changed, or in which a time is over, because
nothing else could make it act.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from shared.model import labels
from standins.autoscaler import model, picture
from standins.kit import fitting
from tests.simulation.sim_pool_bodies import RESTING, Pool
from tests.simulation.sim_pools import EXHAUSTED

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Node, SimCluster, SimPod
    from tests.simulation.sim_world import World

TIMES = model.Times(repeat=0)
_KEY = "key of a pool"
"""Stands for the labels by which pods of one slice keep others off their pool."""
_CLOSED, _PINNED = "closed", "pinned"


class _Silent(model.Autoscaler):
    """The model without the reasons in its Events: no story reads them, and they take long."""

    def _list_reasons(self, *_of_pod: object) -> str:
        return ""


class Autoscaler:
    """Adds and removes the nodes of the autoscaled pools of one cluster."""

    def __init__(self, world: World, cluster: SimCluster) -> None:
        self._world, self._cluster = world, cluster
        self._rng = Random(f"{world.scenario.seed} autoscaler of {cluster.name}")
        self._model = _Silent(TIMES)
        self._due = math.inf

    def wake(self, at: float = 0.0) -> None:
        """Look in the next loop, or in the first one from a moment on."""
        time = self._world.time
        due = TIMES.loop * max(time.now // TIMES.loop + 1, math.ceil(at / TIMES.loop))
        if due < self._due and any(pool.autoscaled for pool in self._pools.values()):
            self._due = due
            time.at(due, self._look)

    @property
    def _pools(self) -> dict[str, Pool]:
        return self._world.gke.pools[self._cluster.name]

    def _look(self) -> None:
        now = self._world.time.now
        if now < self._due:
            return  # an earlier loop has looked meanwhile
        self._due = math.inf
        pods = tuple(map(draw_pod, (pod for pod in self._cluster.pods.values() if not pod.view.finished)))
        groups = [found for pool in self._pools.values() if (found := self._draw_group(pool))]
        self._rng.shuffle(groups)
        nodes = tuple(map(draw_node, self._cluster.nodes.values()))
        for action in self._model.look(now, picture.Seen(pods, nodes, tuple(groups))):
            self._act(action)
        if (following := self._model.find_next(now)) < math.inf:
            self.wake(following)

    def _draw_group(self, pool: Pool) -> picture.Group | None:
        """Return the group of a pool, None if it has none that works now."""
        nodes = self._cluster.list_nodes(pool)
        leaves = any(not node.view.ready for node in nodes)
        if not pool.autoscaled or pool.off or leaves or pool.status not in RESTING:
            return None
        error = picture.InstanceError("ZONE_RESOURCE_POOL_EXHAUSTED") if pool.refused else None
        target = max(pool.asked, len(nodes))
        missing = (f"{pool.name}-missing{index}" for index in range(target - len(nodes)))
        return picture.Group(
            id=pool.name,
            pool=pool.name,
            zone=pool.zone,
            largest=pool.size,
            smallest=pool.smallest,
            target=target,
            all_or_none=pool.whole,
            template=draw_node(self._cluster.build_node(pool, "")),
            instances=(
                *(picture.Instance(node.name) for node in nodes),
                *(picture.Instance(name, creating=True, error=error) for name in missing),
            ),
        )

    def _act(self, action: picture.Action) -> None:
        if isinstance(action, picture.Event):
            return
        pool = self._pools[action.group.pool]
        if isinstance(action, picture.Resize):
            self._ask(pool, action.size)
        elif isinstance(action, picture.GiveUp):
            self._give_up(pool)
        else:
            self._remove(pool, action.nodes)
        self._world.note_change()

    def _ask(self, pool: Pool, size: int) -> None:
        """Ask the group for nodes; without machines it says so in seconds."""
        gke, time = self._world.gke, self._world.time
        pool.asked, wanted = size, size - pool.granted
        pool.note_machines(time.now, made=pool.granted, coming=wanted)
        machines = gke.find_machines(pool, wanted)
        if machines:
            self._world.tell(f"the autoscaler adds {machines} nodes to {pool.name}")
            pool.granted += machines
            started = 10 + 15 * self._rng.random()
            time.after(started, lambda: pool.note_machines(time.now, made=pool.granted))
            time.after(started + 25 + 60 * self._rng.random(), lambda: self._finish(pool))
        if machines < wanted:
            time.after(3 + 17 * self._rng.random(), lambda: self._refuse(pool))

    def _finish(self, pool: Pool) -> None:
        if self._world.gke.is_there(pool):
            self._world.gke.fill(pool)

    def _refuse(self, pool: Pool) -> None:
        if not self._world.gke.is_there(pool):
            return
        pool.refused, pool.refused_at = True, self._world.time.now
        pool.note_machines(self._world.time.now, made=pool.granted, error=EXHAUSTED.format(zone=pool.zone))
        self._world.tell(f"the autoscaler finds no machines for {pool.name}")
        self._world.note_change()

    def _give_up(self, pool: Pool) -> None:
        """Ask no more for machines that do not come."""
        pool.asked, pool.refused = len(self._cluster.list_nodes(pool)), False
        pool.note_machines(self._world.time.now, made=pool.granted)

    def _remove(self, pool: Pool, names: Sequence[str]) -> None:
        """Remove nodes that nobody needs."""
        self._world.tell(f"the autoscaler removes {len(names)} nodes of {pool.name}")
        for name in names:
            if name in self._cluster.nodes:
                self._cluster.drain_node(name)
        self._world.time.after(5 + 40 * self._rng.random(), lambda: self._end(pool, names))

    def _end(self, pool: Pool, names: Sequence[str]) -> None:
        for name in names:
            if name in self._cluster.nodes:
                self._world.gke.lose_node(pool, name)
        pool.asked = min(pool.asked, pool.granted)
        pool.note_machines(self._world.time.now, made=pool.granted)
        self._world.note_change()


def draw_pod(pod: SimPod) -> fitting.Pod:
    """Return a pod as scheduler and autoscaler see it, anew only if it has changed."""
    if pod.drawn is None or pod.drawn[0] is not pod.view:
        pod.drawn = pod.view, _draw_pod_anew(pod)
    return pod.drawn[1]


def _draw_pod_anew(pod: SimPod) -> fitting.Pod:
    key, view = pod.plan.pool_key, pod.view
    held = [_PINNED] if key and pod.workload.kind == "JobSet" else []
    held += [labels.SPOT] if pod.workload.tolerates and pod.workload.spot else []
    return fitting.Pod(
        namespace=view.namespace,
        name=view.name,
        uid=view.uid,
        node=view.node_name if pod.node else "",
        unschedulable=pod.live and view.unschedulable,
        labels={_KEY: key} if key else {},
        requests={labels.GPU_RESOURCE if pod.workload.shape.gpu else labels.TPU_RESOURCE: pod.units},
        selector={key: value for key, (value,) in view.template.selection.items()},
        tolerations=tuple(fitting.Toleration(each, "Exists") for each in held),
        affinity=_share("In", key),
        anti_affinity=_share("NotIn", key),
    )


def _share(operator: str, key: str) -> tuple[fitting.Term, ...]:
    if not key:
        return ()
    has = fitting.Requirement(_KEY, "Exists"), fitting.Requirement(_KEY, operator, (key,))
    return (fitting.Term(labels.NODE_POOL, has, None),)


def draw_node(node: Node) -> fitting.Node:
    """Return a node as scheduler and autoscaler see it, anew only if it or its pool has changed."""
    if node.drawn is None or node.drawn[0] is not node.view or node.drawn[1] is not node.pool.listed:
        node.drawn = node.view, node.pool.listed, _draw_node_anew(node)
    return node.drawn[2]


def _draw_node_anew(node: Node) -> fitting.Node:
    taints = ((node.pool.listed.spot, labels.SPOT), (node.pool.pinned, _PINNED), (node.view.closed, _CLOSED))
    return fitting.Node(
        name=node.name,
        labels=node.labels,
        taints=tuple(fitting.Taint(key, "", "NoSchedule") for has, key in taints if has),
        allocatable={labels.GPU_RESOURCE if node.pool.listed.gpus_per_node else labels.TPU_RESOURCE: node.units},
        ready=node.view.ready,
    )
