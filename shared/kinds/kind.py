"""Defines one kind of workload: how its pods and slices are found, and when they are over.

An entry is one `Kind` in its own module. Exporter, functions and CLI use only the table. Pods that
need no slice share elastic pools: one per workload and shape, whose size follows the spec. The pod
template alone determines such a pool, so that every pod of a shape and the spec give the same name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.model import labels
from shared.model.errors import Rejected
from shared.model.workloads import PodTemplate, PodView, SliceGroup, WorkloadView
from shared.shapes.gpus import RACK_SCALE
from shared.shapes.slices import TPU_TAINT
from shared.shapes.tpus import find_shape

Json = Mapping[str, Any]
TemplateReader = Callable[[Json], PodTemplate]
"""Reads the JSON of a PodTemplateSpec; passed in by edges."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceOfPod:
    """One slice of a live workload."""

    name: str
    """Unique within its namespace and kind; the same for replaced pods; a valid label value."""
    group: SliceGroup


def find_controller_uid(find_owner: Callable[[PodView], str], pod: PodView) -> str:
    """Return the UID of the controller, for a kind that is the controller of its pods."""
    return pod.controller_uid if find_owner(pod) else ""


def _find_nothing(*_of: object) -> None:
    """Return None, where a kind has nothing of its own to find or to refuse."""


def _find_only_template(_pod: PodView, workload: WorkloadView) -> PodTemplate | None:
    return workload.templates.get("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """The API path of the objects of a kind."""

    name: str
    """The API's kind, as in ``kind:`` of a manifest."""
    api_version: str
    """Group and version, as in a manifest."""
    plural: str
    """As in the API's paths."""
    other_versions: tuple[str, ...] = ()
    """Further versions that the API serves, with the same fields."""

    @property
    def group(self) -> str:
        """Return the API group, without the version."""
        return self.api_version.rpartition("/")[0]

    @property
    def versions(self) -> tuple[str, ...]:
        """Return every version that the API serves, without the group."""
        return (self.api_version.rpartition("/")[2], *self.other_versions)

    @property
    def root(self) -> str:
        """Return the path of its API in its version."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"

    @property
    def path(self) -> str:
        """Return the path of the list of all namespaces."""
        return f"{self.root}/{self.plural}"

    def path_of(self, namespace: str, name: str) -> str:
        """Return the path of one object."""
        return f"{self.root}/namespaces/{namespace}/{self.plural}/{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Resource):
    """One kind of workload. Every function is pure and accepts any object that the API accepts."""

    pod_selector: str
    """Label selector, for the server, of the pods that may be leaders; see `table.select_pods`."""
    find_owner: Callable[[PodView], str]
    """Return the workload's name, by the pod; empty if the pod is not of this kind."""
    find_owner_uid: Callable[[PodView], str] = lambda _pod: ""
    """Return the workload's UID, by the pod; empty if the pod does not have it."""
    is_leader: Callable[[PodView], bool] = lambda _pod: True
    """Return whether the pod is the leader of its slice. If the pods do not show it, all are
    leaders."""
    is_whole: Callable[[PodView], bool] = lambda _pod: False
    """Return whether the pod is one of several that need their own pool (`SliceGroup.whole`)."""

    read: Callable[[Json, TemplateReader], WorkloadView]
    """Return a workload from the API's JSON; raises `shared.kinds.objects.UnexpectedValue`."""
    find_slice: Callable[[PodView, WorkloadView], SliceOfPod | None]
    """Return the slice of a pod; None if the live workload does not have it (a forged or stale
    pod). Raises `shared.model.errors.SliceUnknown` if the slice is not clear."""
    find_group: Callable[[PodView, WorkloadView], SliceGroup | None] = _find_nothing
    """Return the group of the spec that a pod belongs to, if groups of slices and of elastic pods
    may exist side by side; None for any other kind, and if the spec has no such group."""
    find_template: Callable[[PodView, WorkloadView], PodTemplate | None] = _find_only_template
    """Return the template of the spec for a pod, even one without accelerators; None if the spec
    has no such pods. The pod may be forged."""
    check_index: Callable[[PodView, WorkloadView], None] = _find_nothing
    """Accept a pod that may get a new pool. Raises `shared.model.errors.SliceUnknown` if its index
    is beyond the spec, for a kind whose `find_slice` also knows pods that run beyond it."""
    list_slices: Callable[[WorkloadView], Sequence[SliceOfPod]] = lambda _workload: ()
    """Return all slices of the spec; each group has the template that the pods of the slice will
    have. Raises `shared.model.errors.Rejected` as `find_slice` does."""
    name_label: str = ""
    """Label on all pods of a workload, whose value is its name; empty if no label has it."""
    pod_sets: Callable[[Json], list[tuple[str, Json]]] | None = None
    """Return the pod templates of an object by the names that Kueue gives its pod sets. None for a
    kind that gets no node pools before it has pods."""

    parents: tuple[Resource, ...] = ()
    """Kinds that create such workloads and may keep them; read for an Event, for no decision."""
    watched: bool = True
    """Whether the exporter watches the workloads too. For bare pods only the tick reads them."""
    whole: bool = False
    """All slices of a workload wait for each other."""
    groups_apart: bool = False
    """No group of a workload waits for another one."""
    mark: str = ""
    """Label on everything that the kind's controller creates, so that the lists of later kinds in
    the table leave it out."""
    pin_label: str = ""
    """Node label by which the kind's controller pins a slice's pods; its value is
    ``namespace_slice``."""
    pin_taint: str = ""
    """Taint on the nodes of a pinned slice, which its pods tolerate."""
    install: str = ""
    """Command that installs the kind, if every cluster needs it; else empty."""


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
        *template.other_resources,
        *(f"claim {each}" for each in template.volume_claims),
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


def find_slice(kind: Kind, pod: PodView, workload: WorkloadView) -> SliceOfPod | None:
    """Return the elastic pool of a pod, by the template of its spec, else as `Kind.find_slice`."""
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
    return _count_hosts(template) == 1


def is_mistaken(template: PodTemplate) -> bool:
    """Return whether the slice of TPU pods cannot be read.

    They are refused for that when the demand is read; how their workload makes them is no mistake.
    """
    return not template.gpus and _count_hosts(template) is None


def _count_hosts(template: PodTemplate) -> int | None:
    asks = template.chips or template.tolerates(TPU_TAINT)
    if template.unreadable_amounts or not asks:
        return None
    try:
        shape = find_shape(
            accelerator=template.find_selector(labels.ACCELERATOR),
            topology=template.topology,
            chips_per_pod=template.chips,
            machine_type=template.find_selector(labels.INSTANCE_TYPE),
        )
    except Rejected:
        return None
    return shape.node_count


def leave_out_elastic(workload: WorkloadView) -> WorkloadView:
    """Return the workload with only the groups that are slices."""
    slices = tuple(group for group in workload.groups if not is_elastic(group))
    return dataclasses.replace(workload, groups=slices)
