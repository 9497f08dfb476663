"""Reads what a live pod adds to its workload's spec, which decides what a slice may be.

Kueue and webhooks add the accelerator's type, a topology, the tier, the zone, selectors of a
domain of their own, CPU and memory. A pod may not change or leave out what the spec selects, and
may not have other chips or GPUs. So a forged pod gets what the spec describes or nothing, and a pod
of an earlier template waits for its rollout. Annotations are the spec's.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.model import labels
from shared.model.errors import PodContradictsSpec, Rejected
from shared.needs.selectors import OF_TIER
from shared.shapes.slices import find_slice_shape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.model.topology_terms import Requirement
    from shared.model.workloads import PodTemplate, SliceGroup, Toleration, WorkloadView
    from shared.settings import Settings
    from shared.shapes.shape import Room

_OF_SIZE = frozenset({labels.INSTANCE_TYPE, labels.MACHINE_FAMILY, labels.ACCELERATOR_COUNT})
"""With these a pod may choose a machine that has more GPUs than it requests."""
_OF_EVERY_POD = ("node.kubernetes.io/", labels.TPU_RESOURCE, labels.GPU_RESOURCE)
"""Tolerations that Kubernetes and GKE add to pods by themselves."""
_OF_PLACED = (labels.NODE_POOL, labels.HOSTNAME)
"""By these a controller sends a pod to nodes that it has chosen, for example to those of a leader
that runs."""
_NONE = "none"


@dataclass(frozen=True, slots=True)
class Addition:
    """What a live pod selects beside its spec."""

    selection: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Node labels with their values; none for any value."""
    terms: tuple[tuple[Requirement, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    def apply(self, template: PodTemplate) -> PodTemplate:
        """Return a template with the addition."""
        if self == NOTHING:
            return template
        single = {key: values[0] for key, values in self.selection if len(values) == 1}
        several = {key: values for key, values in self.selection if len(values) != 1}
        return dataclasses.replace(
            template,
            node_selector=template.node_selector | single,
            node_affinity=template.node_affinity | several,
            node_terms=self.terms or template.node_terms,
            tolerations=tuple(dict.fromkeys((*template.tolerations, *self.tolerations))),
        )


NOTHING = Addition()


def read_addition(pod: PodTemplate, spec: PodTemplate, pin_label: str) -> Addition:
    """Return what a live pod adds to its spec, but for the label that pins it to its own slice."""
    own, of_spec = _read_selection(pod), _read_selection(spec)
    for key in (pin_label, *_OF_PLACED):
        own.pop(key, None)
    # Where the spec has several values, or any, the pod may choose one of them.
    added = {key: values for key, values in own.items() if len(of_spec.get(key, ())) != 1}
    tolerations = [each for each in pod.tolerations if not each.key.startswith(_OF_EVERY_POD)]
    return Addition(
        selection=tuple(sorted(added.items() - of_spec.items())),
        terms=() if pod.node_terms == spec.node_terms else pod.node_terms,
        tolerations=tuple(each for each in tolerations if each not in spec.tolerations),
    )


def _read_selection(template: PodTemplate) -> dict[str, tuple[str, ...]]:
    """Return the node labels that a template selects, with the topology of its annotation."""
    topology = template.annotations.get(labels.SLICE_TOPOLOGY)
    annotated = {labels.TOPOLOGY: (topology,)} if topology else {}
    single = {key: (value,) for key, value in template.node_selector.items()}
    return annotated | template.node_affinity | single


def enlarge(template: PodTemplate, pods: Iterable[PodTemplate]) -> PodTemplate:
    """Return a template with the largest CPU, memory and storage of some live pods and of its own.

    A policy of the namespace or a webhook may add them, for example for a sidecar.
    """
    sizes = [template, *pods]
    others = dict.fromkeys(name for each in sizes for name in each.other_resources)
    return dataclasses.replace(
        template,
        cpu_millis=max(each.cpu_millis for each in sizes),
        memory_bytes=max(each.memory_bytes for each in sizes),
        storage_bytes=max(each.storage_bytes for each in sizes),
        other_resources=tuple(others),
    )


def check_pod(
    pod: PodTemplate, spec: PodTemplate, workload: WorkloadView, settings: Settings
) -> None:
    """Accept a live pod that says what the template of its workload's spec says, perhaps more."""
    for resource, of_pod, of_spec in (
        (labels.TPU_RESOURCE, pod.chips, spec.chips),
        (labels.GPU_RESOURCE, pod.gpus, spec.gpus),
    ):
        if of_pod != of_spec:
            field = f"resources.{resource} (sum over containers)"
            raise _refuse(field, str(of_pod), str(of_spec), workload)
    own, asked = _read_selection(pod), _read_selection(spec)
    if pod.wants_accelerator and not spec.wants_accelerator:
        key = next((key for key in (labels.ACCELERATOR, labels.TOPOLOGY) if key in own), "spec")
        raise _refuse(key, _show(own.get(key)), _NONE, workload)
    for key in sorted(asked.keys() - (OF_TIER if settings.force_on_demand else frozenset())):
        if not _agrees(own.get(key), asked[key]):
            raise _refuse(key, _show(own.get(key)), _show(asked[key]), workload)


def _agrees(values: tuple[str, ...] | None, admitted: tuple[str, ...]) -> bool:
    """Return whether a pod selects values that the spec's selector for a node label admits."""
    if values is None:
        return False
    return not admitted or (bool(values) and set(values) <= set(admitted))


def find_excess(
    group: SliceGroup, template: PodTemplate, workload: WorkloadView, room: Room
) -> Rejected | None:
    """Return why live pods contradict the spec that want more GPUs for a slice; None if they do not.

    CPU, memory or a machine that they add can ask for more. That nothing fits them is told as the
    reason of the whole need.
    """
    # A topology that is too large has too many hosts.
    if not template.gpus or template == group.template:
        return None
    try:
        asked = find_slice_shape(group, template, workload, room).chips
        most = _count_gpus(group, template, workload, room)
    except Rejected:
        return None
    if asked <= most:
        return None
    added = _OF_SIZE & (template.node_selector.keys() - group.template.node_selector.keys())
    field, whose = [*sorted(added), "the pod's CPU and memory"][0], group.name or workload.name
    return _refuse(field, f"{asked} GPUs", f"at most {most} for {whose}", workload)


def _count_gpus(
    group: SliceGroup, template: PodTemplate, workload: WorkloadView, room: Room
) -> int:
    """Return the GPUs of the nodes that pods without CPU, memory and machine of their own get."""
    spec = group.template
    own = dataclasses.replace(template, cpu_millis=spec.cpu_millis, memory_bytes=spec.memory_bytes)
    added = _OF_SIZE - _read_selection(spec).keys()
    unsized = dataclasses.replace(
        own,
        node_selector={key: value for key, value in own.node_selector.items() if key not in added},
        node_affinity={key: value for key, value in own.node_affinity.items() if key not in added},
    )
    try:
        return find_slice_shape(group, unsized, workload, room).chips
    except Rejected:  # the machine needs to be named
        return find_slice_shape(group, own, workload, room).chips


def _refuse(field: str, of_pod: str, of_spec: str, workload: WorkloadView) -> Rejected:
    return PodContradictsSpec(
        f"this pod contradicts the pod template of {workload}, so no node pool is created for it",
        field=field,
        value=of_pod,
        valid=f"{of_spec}, as in the spec; a rollout replaces a pod of an earlier template, "
        "else delete it",
    )


def _show(values: tuple[str, ...] | None) -> str:
    return " or ".join(values or ()) or _NONE
