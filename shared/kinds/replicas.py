"""The Deployment and the StatefulSet, ``apps/v1``: replicas of one pod template.

Each pod of a Deployment can run on any host of its shape. Its pods name a ReplicaSet, whose name is
that of the Deployment and the hash of the pod template, so no chain of owners is read. Pods of a
StatefulSet with the topology of a single host are alike too. One pool is for all pods of a shape,
and its size follows the spec (see `shared.kinds.kind`). With a topology of several hosts a whole
StatefulSet is one slice: it must have as many replicas as the slice has hosts, and create all of
them at once.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING

from shared.kinds.kind import Kind, SliceOfPod, find_controller_uid, is_mistaken, is_one_host
from shared.kinds.objects import UnexpectedValue, read_identity, read_number, read_object, read_text
from shared.model.counts import bound_count, take_percent
from shared.model.errors import Rejected, SliceUnknown
from shared.model.workloads import PodView, SliceGroup, WorkloadView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.kinds.kind import Json, TemplateReader

DEPLOYMENT_NAME, STATEFULSET_NAME = "Deployment", "StatefulSet"
API_VERSION = "apps/v1"
TEMPLATE_HASH = "pod-template-hash"
"""On every pod of a Deployment, and at the end of its ReplicaSet's name:
https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#pod-template-hash-label."""
POD_NAME = "statefulset.kubernetes.io/pod-name"
"""On every pod of a StatefulSet:
https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#pod-name-label."""
_SURGE_DEFAULT = "25%"
_PARALLEL = "Parallel"
_IN_TURN = 0
"""`SliceGroup.slots` of a slice whose pods are created one after another."""


def _view(kind: str, body: Json, group: SliceGroup) -> WorkloadView:
    template = group.template
    return WorkloadView(
        **read_identity(kind, body),
        groups=(group,) if template.wants_accelerator else (),
        templates={"": template},
    )


def _refuse(pod: PodView, workload: WorkloadView) -> Rejected:
    return SliceUnknown(
        f"the pod needs other nodes than the pod template of {workload.kind} {workload.name}",
        field="spec.nodeSelector",
        value=", ".join(
            f"{key}={value}" for key, value in sorted(pod.template.node_selector.items())
        ),
        valid="the selectors of the template, with replicas above 0; a rollout replaces older pods",
    )


# --- Deployment -----------------------------------------------------------------------------------


def _find_deployment(pod: PodView) -> str:
    suffix = f"-{pod.template.labels.get(TEMPLATE_HASH, '')}"
    is_of_set = (pod.controller_kind, pod.controller_api_version) == ("ReplicaSet", API_VERSION)
    if not is_of_set or suffix == "-" or not pod.controller_name.endswith(suffix):
        return ""
    return pod.controller_name.removesuffix(suffix)


def _read_deployment(body: Json, read_template: TemplateReader) -> WorkloadView:
    template = read_template(read_object(body, "spec", "template"))
    replicas = _count_pods(body, read_number(body, "spec", "replicas", default=1))
    group = SliceGroup(name="", replicas=replicas, hosts=1, template=template, elastic=True)
    return _view(DEPLOYMENT_NAME, body, group)


def _count_pods(body: Json, replicas: int) -> int:
    """Return the number of pods: the spec's, and in a rollout the status's, up to maxSurge more."""
    if replicas <= 0 or read_text(body, "spec", "strategy", "type") == "Recreate":
        return max(replicas, 0)
    shown = read_number(body, "status", "replicas")
    return max(replicas, min(shown, replicas + _read_surge(body, replicas)))


def _read_surge(body: Json, replicas: int) -> int:
    """Return maxSurge, the additional pods of a rollout; a percentage is rounded up."""
    given = read_object(body, "spec", "strategy", "rollingUpdate").get("maxSurge", _SURGE_DEFAULT)
    if isinstance(given, int) and not isinstance(given, bool):
        return max(bound_count(given), 0)
    surge = take_percent(replicas, given) if isinstance(given, str) else None
    if surge is None:
        raise UnexpectedValue(
            "spec.strategy.rollingUpdate.maxSurge", given, "a whole number or a percentage"
        )
    return surge


def _find_pool(pod: PodView, workload: WorkloadView) -> SliceOfPod | None:
    """Refuse the pod: pods of a template of the spec are found before this is called."""
    if _find_deployment(pod) != workload.name:
        return None
    raise _refuse(pod, workload)


DEPLOYMENT = Kind(
    name=DEPLOYMENT_NAME,
    api_version=API_VERSION,
    plural="deployments",
    pod_selector=TEMPLATE_HASH,
    mark=TEMPLATE_HASH,
    find_owner=_find_deployment,
    read=_read_deployment,
    find_slice=_find_pool,
)

# --- StatefulSet ----------------------------------------------------------------------------------


def _find_set(pod: PodView) -> str:
    own = (STATEFULSET_NAME, API_VERSION)
    is_of_set = (pod.controller_kind, pod.controller_api_version) == own
    return pod.controller_name if is_of_set else ""


def _read_set(body: Json, read_template: TemplateReader) -> WorkloadView:
    template = read_template(read_object(body, "spec", "template"))
    replicas = max(read_number(body, "spec", "replicas", default=1), 0)
    if template.gpus or is_one_host(template) or is_mistaken(template):
        group = SliceGroup(name="", replicas=replicas, hosts=1, template=template, elastic=True)
    else:
        at_once = read_text(body, "spec", "podManagementPolicy") == _PARALLEL
        slots = None if at_once or replicas <= 1 else _IN_TURN
        group = SliceGroup(
            name="", replicas=min(replicas, 1), slots=slots, hosts=replicas, template=template
        )
    return _view(STATEFULSET_NAME, body, group)


def _find_slice(pod: PodView, workload: WorkloadView) -> SliceOfPod | None:
    if _find_set(pod) != workload.name:
        return None
    _refuse_in_turn(workload)
    for group in workload.groups:
        return SliceOfPod(name=workload.name, group=group) if group.replicas else None
    raise _refuse(pod, workload)


def _refuse_in_turn(workload: WorkloadView) -> None:
    if any(group.slots == _IN_TURN for group in workload.groups):
        raise SliceUnknown(
            f"{workload.kind} {workload.name} creates its pods one after another, and a slice of "
            "several hosts needs all of them at once",
            field="spec.podManagementPolicy",
            value="OrderedReady",
            valid=f"{_PARALLEL}, with as many replicas as the slice has hosts; or the topology of "
            "a single host",
        )


def _list_slices(workload: WorkloadView) -> Sequence[SliceOfPod]:
    _refuse_in_turn(workload)
    return [
        SliceOfPod(name=workload.name, group=dataclasses.replace(group, replicas=1))
        for group in workload.groups
        if group.replicas
    ]


STATEFULSET = Kind(
    name=STATEFULSET_NAME,
    api_version=API_VERSION,
    plural="statefulsets",
    pod_selector=POD_NAME,
    mark=POD_NAME,
    find_owner=_find_set,
    find_owner_uid=partial(find_controller_uid, _find_set),
    read=_read_set,
    find_slice=_find_slice,
    list_slices=_list_slices,
)
