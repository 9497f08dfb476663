"""The scheduler: it binds pods to nodes, or writes why it cannot.

It keeps its own list of nodes and of the pods on them, which every change updates. It tries the
pending pods again after a change that could help one, and writes a condition only when it differs.
Source: https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/
"""

import time
from collections.abc import Iterable

from standins.cluster.controllers.feasibility import (
    NodeFacts,
    PodFacts,
    Rejection,
    Topology,
    node_rejection,
    pod_facts,
    unschedulable_message,
)
from standins.cluster.controllers.runner import Controller, Key
from standins.cluster.objects.conditions import set_condition
from standins.cluster.objects.shapes import NodeView, PodView
from standins.cluster.store.kinds import NODE, POD
from standins.cluster.store.stored import Change, Stored
from standins.cluster.writing.event_recorder import Recorder
from standins.cluster.writing.registry import Registry

NAME = "default-scheduler"
_ROUND: Key = ("round",)
_SLICE_SECONDS = 0.02


class Scheduler(Controller):
    """The default scheduler."""

    name = "scheduler"

    def __init__(self, registry: Registry, recorder: Recorder) -> None:
        super().__init__(registry, recorder)
        self._nodes: dict[str, NodeFacts] = {}
        self._placed: dict[str, str] = {}
        self._pending: dict[str, Stored] = {}
        self._untried: dict[str, None] = {}

    def keys_for(self, change: Change) -> Iterable[Key]:
        """Bring the picture up to date; ask for a round when a pod may be placed now."""
        if change.kind is NODE:
            self._see_node(change)
        elif change.kind is POD:
            self._see_pod(change)
        return (_ROUND,) if self._untried else ()

    def _retry_all(self) -> None:
        self._untried.update(dict.fromkeys(self._pending))

    def _see_node(self, change: Change) -> None:
        name = change.subject.name
        if change.new is None:
            gone = self._nodes.pop(name, None)
            for uid in gone.pods if gone is not None else ():
                self._placed.pop(uid, None)
            self._retry_all()
            return
        view = change.new.view(NodeView)
        known = self._nodes.get(name)
        if known is None:
            self._nodes[name] = NodeFacts(view)
            for stored in self.registry.store.objects(POD):
                pod = stored.view(PodView)
                if pod.spec.node_name == name and not pod.finished:
                    self._place(pod)
            self._retry_all()
            return
        if (known.node.spec, known.node.metadata.labels) != (view.spec, view.metadata.labels) or (
            known.node.status.allocatable != view.status.allocatable
        ):
            self._retry_all()
        known.node = view

    def _see_pod(self, change: Change) -> None:
        uid = change.subject.uid
        if change.new is None:
            self._forget(uid)
            return
        pod = change.new.view(PodView)
        if pod.finished:
            self._forget(uid)
        elif pod.spec.node_name:
            self._pending.pop(uid, None)
            self._untried.pop(uid, None)
            self._place(pod)
        elif _schedulable(pod):
            before = change.old.view(PodView) if change.old else None
            self._pending[uid] = change.new
            if before is None or (before.spec, before.metadata.labels) != (pod.spec, pod.metadata.labels):
                self._untried[uid] = None
        else:
            self._pending.pop(uid, None)
            self._untried.pop(uid, None)

    def _place(self, pod: PodView) -> None:
        uid, node = pod.metadata.uid, pod.spec.node_name
        if uid in self._placed:
            return
        if node in self._nodes:
            facts = pod_facts(pod)
            self._placed[uid] = node
            self._nodes[node].add(facts)
            self._retry_friends(facts)

    def _retry_friends(self, bound: PodFacts) -> None:
        """A bound pod can only help pods that want to be near it."""
        for uid, stored in self._pending.items():
            if any(term.matches(bound) for term in pod_facts(stored.view(PodView)).affinity):
                self._untried[uid] = None

    def _forget(self, uid: str) -> None:
        self._pending.pop(uid, None)
        self._untried.pop(uid, None)
        node = self._placed.pop(uid, None)
        if node is not None:
            if node in self._nodes:
                self._nodes[node].discard(uid)
            self._retry_all()

    def reconcile(self, key: Key) -> float | None:
        """Try the pods that were not tried since the last change, for a short time."""
        del key
        until = time.monotonic() + _SLICE_SECONDS
        while self._untried:
            uid = next(iter(self._untried))
            del self._untried[uid]
            stored = self._pending.get(uid)
            if stored is not None:
                self._try(stored)
            if time.monotonic() > until:
                break
        return 0.0 if self._untried else None

    def _try(self, stored: Stored) -> None:
        pod = stored.view(PodView)
        facts = pod_facts(pod)
        chosen, rejections = self._choose(pod, facts)
        if chosen is None:
            self._refuse(stored, unschedulable_message(len(self._nodes), rejections))
            return
        self.registry.bind(pod.metadata.namespace, pod.metadata.name, chosen.name)
        message = f"Successfully assigned {pod.metadata.namespace}/{pod.metadata.name} to {chosen.name}"
        self.recorder.record(NAME, stored, "Scheduled", message)

    def _choose(self, pod: PodView, facts: PodFacts) -> tuple[NodeFacts | None, list[Rejection]]:
        found = [(node, node_rejection(pod, facts, node)) for node in self._nodes.values()]
        if any(rejection is None for _, rejection in found):
            topology = Topology(facts, self._nodes.values())
            found = [(node, rejection or topology.rejection(node)) for node, rejection in found]
        candidates = [node for node, rejection in found if rejection is None]
        # The emptiest node, then by name: this spreads pods, and is the same in every run.
        chosen = min(candidates, key=lambda node: (len(node.pods), node.name), default=None)
        return chosen, [rejection for _, rejection in found if rejection is not None]

    def _refuse(self, stored: Stored, message: str) -> None:
        body = stored.body()
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        condition["observedGeneration"] = body["metadata"]["generation"]
        if set_condition(body["status"], condition, self.registry.clock.timestamp()):
            self.registry.write(POD, stored, body)
            self.recorder.record(NAME, stored, "FailedScheduling", message, warning=True)


def _schedulable(pod: PodView) -> bool:
    return (
        not pod.spec.scheduling_gates
        and pod.spec.scheduler_name == NAME
        and pod.metadata.deletion_timestamp is None
    )
