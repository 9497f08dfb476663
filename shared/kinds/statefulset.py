"""The StatefulSet, ``apps/v1``: single hosts, or one multi-host slice.

Pods with the topology of a single host share one pool (see `shared.kinds.elastic`). With a
topology of several hosts the whole set is one slice: it must have as many replicas as the slice has
hosts, and create all of them at once.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from shared.kinds.elastic import name_shape
from shared.kinds.hosts import is_one_host
from shared.kinds.kind import Kind, SliceOfPod
from shared.kinds.objects import read_identity, read_number, read_object, read_text
from shared.model.errors import SliceUnknown
from shared.model.workloads import PodView, SliceGroup, WorkloadView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.kinds.kind import Json, TemplateReader

NAME = "StatefulSet"
API_VERSION = "apps/v1"
POD_NAME = "statefulset.kubernetes.io/pod-name"
"""On every pod of a StatefulSet:
https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#pod-name-label."""
_PARALLEL = "Parallel"
_IN_TURN = 0
"""`SliceGroup.slots` of a slice whose pods are created one after another."""


def _find_owner(pod: PodView) -> str:
    is_of_set = (pod.controller_kind, pod.controller_api_version) == (NAME, API_VERSION)
    return pod.controller_name if is_of_set else ""


def _find_owner_uid(pod: PodView) -> str:
    return pod.controller_uid if _find_owner(pod) else ""


def _hint(pod: PodView) -> str:
    return name_shape(pod.template)


def _read(body: Json, read_template: TemplateReader) -> WorkloadView:
    template = read_template(read_object(body, "spec", "template"))
    replicas = max(read_number(body, "spec", "replicas", default=1), 0)
    if is_one_host(template) or template.gpus:
        group = SliceGroup(name="", replicas=replicas, hosts=1, template=template, elastic=True)
    else:
        at_once = read_text(body, "spec", "podManagementPolicy") == _PARALLEL
        slots = None if at_once or replicas <= 1 else _IN_TURN
        group = SliceGroup(
            name="", replicas=min(replicas, 1), slots=slots, hosts=replicas, template=template
        )
    return WorkloadView(
        **read_identity(NAME, body),
        groups=(group,) if template.wants_accelerator else (),
        templates={"": template},
    )


def _find_slice(pod: PodView, workload: WorkloadView) -> SliceOfPod | None:
    if _find_owner(pod) != workload.name:
        return None
    _refuse_in_turn(workload)
    for group in workload.groups:
        return SliceOfPod(name=workload.name, group=group) if group.replicas else None
    raise SliceUnknown(
        f"the pod needs other nodes than the pod template of {NAME} {workload.name}",
        field="spec.nodeSelector",
        value=", ".join(
            f"{key}={value}" for key, value in sorted(pod.template.node_selector.items())
        ),
        valid="the selectors of the template, with replicas above 0; delete pods of older revisions",
    )


def _refuse_in_turn(workload: WorkloadView) -> None:
    if any(group.slots == _IN_TURN for group in workload.groups):
        raise SliceUnknown(
            f"{NAME} {workload.name} creates its pods one after another, and a slice of several hosts needs "
            "all of them at once",
            field="spec.podManagementPolicy",
            value="OrderedReady",
            valid=f"{_PARALLEL}, with as many replicas as the slice has hosts; or the topology of a single host",
        )


def _list_slices(workload: WorkloadView) -> Sequence[SliceOfPod]:
    _refuse_in_turn(workload)
    return [
        SliceOfPod(name=workload.name, group=dataclasses.replace(group, replicas=1))
        for group in workload.groups
        if group.replicas
    ]


STATEFULSET = Kind(
    name=NAME,
    api_version=API_VERSION,
    plural="statefulsets",
    pod_selector=POD_NAME,
    mark=POD_NAME,
    find_owner=_find_owner,
    find_owner_uid=_find_owner_uid,
    slice_hint=_hint,
    read=_read,
    find_slice=_find_slice,
    list_slices=_list_slices,
)
