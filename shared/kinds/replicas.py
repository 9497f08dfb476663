"""The Deployment and the StatefulSet, ``apps/v1``: replicas of one pod template.

Each pod of a Deployment can run on any host of its shape. Its pods name a ReplicaSet, whose name is
that of the Deployment and the hash of the pod template, so no chain of owners is read. Pods of a
StatefulSet with the topology of a single host are alike too. One pool is for all of them,
and its size follows the spec. With a topology of several hosts a whole
StatefulSet is one slice: it must have as many replicas as the slice has hosts, and create all of
them at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from shared.kinds import read
from shared.kinds.kind import Json, Kind, is_mistaken, is_one_host
from shared.model.errors import refuse
from shared.model.workloads import PodTemplate, PodView, SliceGroup, WorkloadView

_APPS = "apps/v1"
TEMPLATE_HASH = "pod-template-hash"
"""On every pod of a Deployment, and at the end of its ReplicaSet's name:
https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#pod-template-hash-label."""
POD_NAME = "statefulset.kubernetes.io/pod-name"
"""On every pod of a StatefulSet:
https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#pod-name-label."""
_IN_TURN = 0  # `SliceGroup.slots` of a slice whose pods are created one after another


class Deployment(Kind):
    """The Deployment."""

    name = "Deployment"
    api_version = _APPS
    plural = "deployments"
    pod_selector = mark = TEMPLATE_HASH

    def find_owner(self, pod: PodView) -> str:
        """Return the name of the pod's ReplicaSet without the hash of its template."""
        suffix = f"-{pod.template.labels.get(TEMPLATE_HASH, '')}"
        is_of_set = (pod.controller_kind, pod.controller_api_version) == ("ReplicaSet", _APPS)
        if not is_of_set or suffix == "-" or not pod.controller_name.endswith(suffix):
            return ""
        return pod.controller_name.removesuffix(suffix)

    def read_groups(self, body: Json, templates: Mapping[str, PodTemplate]) -> list[SliceGroup]:
        """Return all pods as one elastic group."""
        (template,) = templates.values()
        return [_share_pool(template, _count_pods(body))]


DEPLOYMENT = Deployment()


def _share_pool(template: PodTemplate, pods: int) -> SliceGroup:
    return SliceGroup(name="", replicas=pods, hosts=1, template=template, elastic=True)


def _read_replicas(body: Json) -> int:
    return max(read.number(body, "spec", "replicas", default=1), 0)


def _count_pods(body: Json) -> int:
    """Return the number of pods: the spec's, and in a rollout the status's, up to maxSurge more."""
    replicas = _read_replicas(body)
    if replicas <= 0 or read.text(body, "spec", "strategy", "type") == "Recreate":
        return replicas
    shown = read.number(body, "status", "replicas")
    path = ("spec", "strategy", "rollingUpdate")
    surge = read.surge(body, *path, replicas=replicas, default="25%")
    return max(replicas, min(shown, replicas + surge))


class StatefulSet(Kind):
    """The StatefulSet."""

    name = "StatefulSet"
    api_version = _APPS
    plural = "statefulsets"
    pod_selector = mark = POD_NAME

    def read_groups(self, body: Json, templates: Mapping[str, PodTemplate]) -> list[SliceGroup]:
        """Return all pods as one elastic group, or as one slice of several hosts."""
        (template,), replicas = templates.values(), _read_replicas(body)
        if template.gpus or is_one_host(template) or is_mistaken(template):
            return [_share_pool(template, replicas)]
        at_once = read.text(body, "spec", "podManagementPolicy") == "Parallel"
        slots = None if at_once or replicas <= 1 else _IN_TURN
        slices = min(replicas, 1)
        return [
            SliceGroup(name="", replicas=slices, slots=slots, hosts=replicas, template=template)
        ]

    def check_spec(self, workload: WorkloadView) -> None:
        """Refuse a slice whose pods are created one after another."""
        if any(group.slots == _IN_TURN for group in workload.groups):
            raise refuse("pods_in_turn", "OrderedReady", workload=workload)


STATEFULSET = StatefulSet()
