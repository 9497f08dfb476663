"""The node controller: taints that follow conditions, and pods whose node has gone.

Source: https://kubernetes.io/docs/reference/node/node-status/ and
https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-garbage-collection
"""

from collections.abc import Iterable
from typing import Any

from standins.cluster.controllers.runner import Controller, Key
from standins.cluster.objects.conditions import set_condition
from standins.cluster.objects.label_names import NOT_READY_TAINT, UNSCHEDULABLE_TAINT
from standins.cluster.objects.shapes import NodeView, PodView
from standins.cluster.store.kinds import NODE, POD
from standins.cluster.store.stored import Change, Stored
from standins.cluster.writing.deletion import BACKGROUND_NOW, delete
from standins.cluster.writing.event_recorder import Recorder
from standins.cluster.writing.registry import Registry

Json = dict[str, Any]

_QUARANTINE_SECONDS = 40.0


class NodeController(Controller):
    """Keeps nodes' taints in step, and removes pods of nodes that are gone."""

    name = "nodes"

    def __init__(self, registry: Registry, recorder: Recorder) -> None:
        super().__init__(registry, recorder)
        self._gone_since: dict[str, float] = {}

    def keys_for(self, change: Change) -> Iterable[Key]:
        """Look at a node that changed, and at a pod bound to a node that is not there."""
        if change.kind is NODE:
            return (("node", change.subject.name),)
        if change.kind is POD and change.new is not None:
            node = change.new.fields["spec.nodeName"]
            if node and self.registry.store.get(NODE, "", node) is None:
                return (("node", node),)
        return ()

    def reconcile(self, key: Key) -> float | None:
        """Bring one node's taints in step, or remove the pods it left behind."""
        name = key[1]
        stored = self.registry.store.get(NODE, "", name)
        if stored is not None:
            self._gone_since.pop(name, None)
            self._set_taints(stored)
            return None
        left_behind = [pod for pod in self.registry.store.objects(POD) if pod.fields["spec.nodeName"] == name]
        if not left_behind:
            self._gone_since.pop(name, None)
            return None
        clock = self.registry.clock
        gone = self._gone_since.setdefault(name, clock.monotonic())
        waited = (clock.monotonic() - gone) * clock.speed
        if waited < _QUARANTINE_SECONDS:
            return _QUARANTINE_SECONDS - waited
        for pod in left_behind:
            self._remove(pod)
        return None

    def _set_taints(self, stored: Stored) -> None:
        node = stored.view(NodeView)
        body = stored.body()
        before: list[Json] = body["spec"].get("taints", [])
        own = ((NOT_READY_TAINT, not node.ready), (UNSCHEDULABLE_TAINT, node.spec.unschedulable))
        over = {taint["key"] for taint, holds in own if not holds}
        present = {taint["key"] for taint in before}
        after = [taint for taint in before if taint["key"] not in over]
        since = {"timeAdded": self.registry.clock.timestamp()}
        after += [taint | since for taint, holds in own if holds and taint["key"] not in present]
        body["spec"]["taints"] = after
        if not after:
            del body["spec"]["taints"]
        self.registry.write(NODE, stored, body)

    def _remove(self, stored: Stored) -> None:
        body = stored.body()
        if not stored.view(PodView).finished:
            body["status"]["phase"] = "Failed"
            condition = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists",
                "observedGeneration": body["metadata"]["generation"],
            }
            body["status"]["observedGeneration"] = body["metadata"]["generation"]
            set_condition(body["status"], condition, self.registry.clock.timestamp())
            stored = self.registry.write(POD, stored, body)
        delete(self.registry, stored, BACKGROUND_NOW)
