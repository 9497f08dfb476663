"""Pools for pods that need no slice: one per workload and shape, whose size follows the spec.

The pod template alone determines the pool and its name, so that every pod of a shape and the live
workload's spec give the same name.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from shared.kinds.kind import SliceOfPod
from shared.model import labels
from shared.model.errors import Rejected
from shared.shapes.gpus import RACK_SCALE
from shared.shapes.tpus import TOPOLOGY_FORM, count_chips

if TYPE_CHECKING:
    from shared.kinds.kind import Kind
    from shared.model.workloads import PodTemplate, PodView, SliceGroup, WorkloadView

_MARK = "any"
_DIGEST_CHARACTERS = 6
_READABLE_CHARACTERS = 63 - len(_MARK) - _DIGEST_CHARACTERS - 2
_ANNOTATIONS = (
    labels.ADDITIONAL_NODE_NETWORKS,
    labels.CAPACITY,
    labels.COPY_LABELS,
    labels.NODE_SERVICE_ACCOUNT,
    labels.SLICE_TOPOLOGY,
)
"""The annotations of a pod that change its nodes."""


def is_free(template: PodTemplate) -> bool:
    """Return whether a pod, by its own template, can run on any node of its shape (GPUs only)."""
    if not template.gpus or template.chips or template.node_pool_affinity:
        return False
    return not RACK_SCALE.intersection(template.list_values(labels.GPU_ACCELERATOR))


def is_elastic(group: SliceGroup) -> bool:
    """Return whether the pods of a group share one elastic pool."""
    return group.elastic or (is_free(group.template) and not (group.whole or group.pinned))


def name_shape(template: PodTemplate) -> str:
    """Return a short text that is the same for all pods that can run on each other's nodes.

    CPU, memory and GKE's number of chips are left out, because the cluster may add to them.
    """
    selected = sorted(template.node_selector.keys() - {labels.ACCELERATOR_COUNT})
    asked = [
        f"{template.chips}/{template.gpus}",
        *(f"{key}={template.node_selector[key]}" for key in selected),
        *(
            f"{key} in {','.join(sorted(template.node_affinity[key]))}"
            for key in sorted(template.node_affinity)
        ),
        *(
            f"{key}:{template.annotations[key]}"
            for key in _ANNOTATIONS
            if key in template.annotations
        ),
    ]
    copied = (key.strip() for key in template.annotations.get(labels.COPY_LABELS, "").split(","))
    asked += [
        f"{key}~{template.labels[key]}" for key in sorted(set(copied)) if key in template.labels
    ]
    return labels.hash_text("".join(f"{len(part)}:{part}" for part in asked), _DIGEST_CHARACTERS)


def name_elastic(workload_name: str, template: PodTemplate) -> str:
    """Return the slice name of an elastic pool, ``<workload>-any-<shape>``: a valid label value."""
    readable = workload_name[:_READABLE_CHARACTERS].rstrip("-._")
    return f"{readable}-{_MARK}-{name_shape(template)}"


def list_elastic(workload: WorkloadView) -> list[SliceOfPod]:
    """Return the elastic pools of a workload's spec, each with the number of pods it needs now.

    Groups of one shape share a pool. Its template has the largest CPU and memory of these groups.
    One without pods now may have some again.
    """
    pools: dict[str, SliceGroup] = {}
    for group in filter(is_elastic, workload.groups):
        pods = 0 if group.idle else max(group.replicas, 0) * (group.pods or max(group.hosts, 1))
        name = name_elastic(workload.name, group.template)
        pool = dataclasses.replace(
            group, replicas=pods, pods=1, hosts=0, slots=None, elastic=True, idle=False
        )
        if other := pools.get(name):
            template = merge_requests(other.template, group.template)
            pool = dataclasses.replace(other, replicas=other.replicas + pods, template=template)
        pools[name] = pool
    return [SliceOfPod(name=name, group=group) for name, group in pools.items()]


def merge_requests(one: PodTemplate, other: PodTemplate) -> PodTemplate:
    """Return a template with the larger requests of two, and with what both tolerate."""
    return dataclasses.replace(
        one,
        cpu_millis=max(one.cpu_millis, other.cpu_millis),
        memory_bytes=max(one.memory_bytes, other.memory_bytes),
        storage_bytes=max(one.storage_bytes, other.storage_bytes),
        tolerations=tuple(each for each in one.tolerations if each in other.tolerations),
    )


def leave_out_elastic(workload: WorkloadView) -> WorkloadView:
    """Return the workload with only the groups that are slices."""
    slices = tuple(group for group in workload.groups if not is_elastic(group))
    return (
        workload
        if len(slices) == len(workload.groups)
        else dataclasses.replace(workload, groups=slices)
    )


def find_slice(kind: Kind, pod: PodView, workload: WorkloadView) -> SliceOfPod | None:
    """Return the elastic pool of a pod, by the template of its spec, else its slice.

    None as `Kind.find_slice`.

    Raises:
        SliceUnknown: as `Kind.find_slice`.
    """
    template, group = kind.find_template(pod, workload), kind.find_group(pod, workload)
    shares = group is None or is_elastic(group)
    if shares and template is not None and kind.find_owner(pod) == workload.name:
        name = name_elastic(workload.name, template)
        for each in list_elastic(workload):
            if each.name == name and each.group.replicas:
                return each
    return kind.find_slice(pod, leave_out_elastic(workload))


def is_leader(kind: Kind, pod: PodView) -> bool:
    """Return whether a pod is a leader: any pod of an elastic pool, else see `Kind.is_leader`."""
    return kind.is_leader(pod) or (is_free(pod.template) and not kind.is_whole(pod))


def is_one_host(template: PodTemplate) -> bool:
    """Return whether one pod uses the whole slice; no topology means a single host in GKE."""
    try:
        topology = template.topology
    except Rejected:  # an ambiguous selector is refused later, when the demand is read
        return False
    if not template.chips:
        return False
    if topology is None:
        return True
    return TOPOLOGY_FORM.fullmatch(topology) is not None and count_chips(topology) == template.chips
