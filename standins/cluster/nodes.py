"""The node controller: taints that follow conditions, and pods whose node has gone.

Source: https://kubernetes.io/docs/reference/node/node-status/ and
https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-garbage-collection
"""

from collections.abc import Iterable

from standins.cluster.deletion import BACKGROUND_NOW, delete
from standins.cluster.kinds import NODE, POD, Json
from standins.cluster.objects import NOT_READY_TAINT, UNSCHEDULABLE_TAINT, find_condition, set_condition
from standins.cluster.runner import Controller, Key
from standins.cluster.store import Change, Stored
from standins.cluster.writing import Registry
from standins.kit.fitting import is_finished

_QUARANTINE_SECONDS = 40.0


class NodeController(Controller):
    """Keeps nodes' taints in step, and removes pods of nodes that are gone."""

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self._gone_since: dict[str, float] = {}

    def keys_for(self, change: Change) -> Iterable[Key]:
        """Look at a node that changed, and at a pod bound to a node that is not there."""
        if change.kind is NODE:
            return ((change.subject.name,),)
        if change.kind is POD and change.new is not None:
            node = change.new.fields["spec.nodeName"]
            if node and self.registry.store.get(NODE, "", node) is None:
                return ((node,),)
        return ()

    def reconcile(self, key: Key) -> float | None:
        """Bring one node's taints in step, or remove the pods it left behind."""
        (name,) = key
        stored = self.registry.store.get(NODE, "", name)
        if stored is not None:
            self._gone_since.pop(name, None)
            self._set_taints(stored)
            return None
        left_behind = [pod for pod in self.registry.store.objects(POD) if pod.fields["spec.nodeName"] == name]
        if not left_behind:
            self._gone_since.pop(name, None)
            return None
        now = self.registry.clock.now()
        waited = now - self._gone_since.setdefault(name, now)
        if waited < _QUARANTINE_SECONDS:
            return _QUARANTINE_SECONDS - waited
        for pod in left_behind:
            self._remove(pod)
        return None

    def _set_taints(self, stored: Stored) -> None:
        spec = dict(stored.json["spec"])
        taints = {taint["key"]: taint for taint in spec.pop("taints", [])}
        ready = find_condition(stored.json, "Ready") is not None
        since = {"timeAdded": self.registry.clock.timestamp()}
        for taint, holds in ((NOT_READY_TAINT, not ready), (UNSCHEDULABLE_TAINT, spec.get("unschedulable"))):
            if holds:
                taints.setdefault(taint["key"], taint | since)
            else:
                taints.pop(taint["key"], None)
        if taints:
            spec["taints"] = list(taints.values())
        self.registry.change(stored, lambda body: body.update(spec=spec))

    def _remove(self, stored: Stored) -> None:
        if not is_finished(stored.json):
            stored = self.registry.change(stored, self._fail)
        delete(self.registry, stored, BACKGROUND_NOW)

    def _fail(self, body: Json) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "observedGeneration": body["metadata"]["generation"],
        }
        body["status"] |= {"phase": "Failed", "observedGeneration": body["metadata"]["generation"]}
        set_condition(body["status"], condition, self.registry.clock.timestamp())
