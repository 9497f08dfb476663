"""Pools for pods that need no slice: one per workload and shape, whose size follows what the spec wants.

Which pods share such a pool, and its name, are read from the pod template alone, so that every pod of a shape, and
the live workload's spec, come to the same name. How large it shall be is `shared.core.sizes`' question.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
from typing import TYPE_CHECKING

from shared.core import labels
from shared.core.errors import SliceUnknown
from shared.core.kinds.kind import SliceOfPod

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.kinds.kind import Kind
    from shared.core.workloads import PodTemplate, PodView, SliceGroup, WorkloadView

RACK_SCALE = frozenset({"nvidia-gb200", "nvidia-gb300"})
"""GPUs that are joined across hosts, so that several hosts are one slice:
https://cloud.google.com/kubernetes-engine/docs/how-to/ai-hypercomputer-gke-a4x."""
_MARK = "any"
_DIGEST_CHARACTERS = 6
_NAME = re.compile(rf".+-{_MARK}-[a-z2-7]{{{_DIGEST_CHARACTERS}}}")
_READABLE_CHARACTERS = 63 - len(_MARK) - _DIGEST_CHARACTERS - 2
_ANNOTATIONS = (
    labels.ADDITIONAL_NODE_NETWORKS,
    labels.COPY_LABELS,
    labels.NODE_SERVICE_ACCOUNT,
    labels.SLICE_TOPOLOGY,
)
"""Of a pod's annotations, those that shape its nodes."""


def is_free(template: PodTemplate) -> bool:
    """Return whether a pod may stand on any node of its shape, by what the pod says itself: GPUs, and no more."""
    if not template.gpus or template.chips or template.node_pool_affinity:
        return False
    return not RACK_SCALE.intersection(_list_values(template, labels.GPU_ACCELERATOR))


def is_elastic(group: SliceGroup) -> bool:
    """Return whether the pods of a group share one elastic pool: their kind says so, or nothing binds them."""
    return group.elastic or (is_free(group.template) and not (group.whole or group.pinned))


def name_shape(template: PodTemplate) -> str:
    """Return what is the same for all pods that could stand on one another's nodes: a few letters and digits.

    CPU and memory are left out, for the cluster may add to them after the spec was written.
    """
    asked = [
        f"{template.chips}/{template.gpus}",
        *(f"{key}={template.node_selector[key]}" for key in sorted(template.node_selector)),
        *(f"{key} in {','.join(sorted(template.node_affinity[key]))}" for key in sorted(template.node_affinity)),
        *(f"{key}:{template.annotations[key]}" for key in _ANNOTATIONS if key in template.annotations),
    ]
    copied = (key.strip() for key in template.annotations.get(labels.COPY_LABELS, "").split(","))
    asked += [f"{key}~{template.labels[key]}" for key in sorted(set(copied)) if key in template.labels]
    text = "".join(f"{len(part)}:{part}" for part in asked)
    digest = hashlib.sha256(text.encode()).digest()
    return base64.b32encode(digest).decode().lower()[:_DIGEST_CHARACTERS]


def name_elastic(workload_name: str, template: PodTemplate) -> str:
    """Return the slice name of the elastic pool of one shape: ``<workload>-any-<shape>``, a legal label value."""
    return f"{workload_name[:_READABLE_CHARACTERS].rstrip('-._')}-{_MARK}-{name_shape(template)}"


def is_elastic_name(slice_name: str) -> bool:
    """Return whether a slice name is one that `name_elastic` makes."""
    return bool(_NAME.fullmatch(slice_name))


def list_elastic(workload: WorkloadView) -> list[SliceOfPod]:
    """Return the elastic pools that a workload's spec wants now, each with a group of so many pods.

    Groups of one shape share a pool; its template asks for as much CPU and memory as the greediest of them.
    """
    found: dict[str, SliceGroup] = {}
    for group in workload.groups:
        pods = 0 if group.idle else group.replicas * (group.pods or max(group.hosts, 1))
        if pods <= 0 or not is_elastic(group):
            continue
        name = name_elastic(workload.name, group.template)
        known = found.get(name)
        template = merge_requests(known.template, group.template) if known else group.template
        pods += known.replicas if known else 0
        found[name] = dataclasses.replace(
            group, replicas=pods, pods=1, hosts=0, slots=None, template=template, elastic=True
        )
    return [SliceOfPod(name=name, group=group) for name, group in found.items()]


def merge_requests(one: PodTemplate, other: PodTemplate) -> PodTemplate:
    """Return a template with the larger CPU and the larger memory of two."""
    return dataclasses.replace(
        one,
        cpu_millis=max(one.cpu_millis, other.cpu_millis),
        memory_bytes=max(one.memory_bytes, other.memory_bytes),
    )


def leave_out_elastic(workload: WorkloadView) -> WorkloadView:
    """Return the workload with only the groups that are slices, for its kind to tell apart."""
    return dataclasses.replace(workload, groups=tuple(group for group in workload.groups if not is_elastic(group)))


def find_slice(kind: Kind, pod: PodView, workload: WorkloadView) -> SliceOfPod | None:
    """Return what a pod's pool is made for: the elastic pool of its shape, else its slice as its kind knows it.

    Raises:
        SliceUnknown: it needs no slice, and the spec has no pods of its shape; or as `Kind.find_slice`.
    """
    name = name_elastic(workload.name, pod.template)
    wanted = list_elastic(workload)
    for each in wanted:
        if each.name == name:
            template = merge_requests(each.group.template, pod.template)
            return SliceOfPod(name=name, group=dataclasses.replace(each.group, template=template))
    if wanted and is_free(pod.template) and kind.find_owner(pod) == workload.name:
        raise SliceUnknown(
            "the pod asks for other nodes than any pod in its workload's spec, so its pool cannot be told",
            field="spec.nodeSelector",
            value=", ".join(f"{key}={value}" for key, value in sorted(pod.template.node_selector.items())),
            valid="the selectors of the workload's pod template; what changes the pods must change that",
        )
    return kind.find_slice(pod, leave_out_elastic(workload))


def has_slice(kind: Kind, workload: WorkloadView, slice_name: str, pods: Sequence[PodView] | None) -> bool:
    """Return whether what a pool was made for is still wanted by the live workload; see `Kind.has_slice`."""
    if is_elastic_name(slice_name):
        return any(each.name == slice_name for each in list_elastic(workload))
    return kind.has_slice(leave_out_elastic(workload), slice_name, pods)


def speaks(kind: Kind, pod: PodView) -> bool:
    """Return whether a pod speaks for its pool: any one does for an elastic pool, else see `Kind.speaks`."""
    return kind.speaks(pod) or (is_free(pod.template) and not kind.is_whole(pod))


def hint_slice(kind: Kind, pod: PodView) -> str:
    """Return what the pod alone says of its pool, so that one of many pods is spoken of; see `Kind.slice_hint`."""
    if is_free(pod.template) and not kind.is_whole(pod):
        return f"{_MARK}/{name_shape(pod.template)}"
    return kind.slice_hint(pod)


def _list_values(template: PodTemplate, key: str) -> tuple[str, ...]:
    if key in template.node_selector:
        return (template.node_selector[key],)
    return template.node_affinity.get(key, ())
