"""JobSet's pod controller: followers whose node selector no longer matches their leader's place are deleted.

Source: https://github.com/kubernetes-sigs/jobset (pkg/controllers/pod_controller.go,
main branch of August 2026, gates off).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from local.cluster.controllers.job_pods import JobPod, pods_of
from local.cluster.deletion import BACKGROUND, delete
from local.cluster.labels import COMPLETION_INDEX, EXCLUSIVE_TOPOLOGY, JOB_KEY, NODE_SELECTOR_STRATEGY
from local.cluster.registry import set_condition
from local.cluster.store.kinds import NODE, POD
from local.cluster.views import NodeView, PodView

if TYPE_CHECKING:
    from collections.abc import Iterable

    from local.cluster.controllers.runner import Key
    from local.cluster.registry import Registry
    from local.cluster.store.stored import Change

_VIOLATION = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "ExclusivePlacementViolation",
    "message": "Pod violated JobSet exclusive placement policy",
}


class PlacementController:
    """Keeps followers where their leader is."""

    name = "jobset-pods"

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def keys_for(self, change: Change) -> Iterable[Key]:
        """Look at a bound leader of an exclusively placed Job."""
        if change.kind is not POD or change.new is None:
            return ()
        pod = change.new.view(PodView)
        annotations = pod.metadata.annotations
        leads = annotations.get(COMPLETION_INDEX) == "0" and JOB_KEY in pod.metadata.labels
        exclusive = EXCLUSIVE_TOPOLOGY in annotations and NODE_SELECTOR_STRATEGY not in annotations
        going = pod.metadata.deletion_timestamp is not None
        return ((change.new.uid,),) if leads and exclusive and pod.spec.node_name and not going else ()

    def reconcile(self, key: Key) -> float | None:
        """Delete the followers of a leader when one of them points to another place."""
        stored = self._registry.store.by_uid(key[0])
        if stored is None:
            return None
        leader = stored.view(PodView)
        owner = leader.metadata.controller
        node = self._registry.store.get(NODE, "", leader.spec.node_name)
        if owner is None or node is None:
            return None
        topology_key = leader.metadata.annotations[EXCLUSIVE_TOPOLOGY]
        place = node.view(NodeView).metadata.labels.get(topology_key)
        followers = [pod for pod in pods_of(self._registry.store, owner.uid) if pod.index != 0]
        if place is not None and any(pod.view.spec.node_selector.get(topology_key) != place for pod in followers):
            for pod in followers:
                self._evict(pod)
        return None

    def _evict(self, pod: JobPod) -> None:
        body = pod.stored.body()
        stored = pod.stored
        if set_condition(body["status"], dict(_VIOLATION), self._registry.clock.timestamp()):
            stored = self._registry.write(POD, pod.stored, body)
        if pod.active:
            delete(self._registry, stored, BACKGROUND)
