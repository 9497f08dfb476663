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
from shared.shapes.slices import count_hosts, find_chips_of_peers, find_slice_shape
from shared.shapes.tpus import TOPOLOGY_FORM, count_chips

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shared.model.topology_terms import Requirement
    from shared.model.workloads import PodTemplate, SliceGroup, Toleration, WorkloadView
    from shared.settings import Settings
    from shared.shapes.room import Room

_OF_SIZE = frozenset({labels.INSTANCE_TYPE, labels.MACHINE_FAMILY, labels.ACCELERATOR_COUNT})
"""With these a pod may choose a machine that has more GPUs than it requests."""
_OF_EVERY_POD = ("node.kubernetes.io/", labels.TPU_RESOURCE, labels.GPU_RESOURCE)
"""Tolerations that Kubernetes and GKE add to pods by themselves."""
_NONE = "none"


@dataclass(frozen=True, slots=True)
class Addition:
    """What a live pod selects beside its spec."""

    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[tuple[str, tuple[str, ...]], ...] = ()
    terms: tuple[tuple[Requirement, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    def apply(self, template: PodTemplate) -> PodTemplate:
        """Return a template with the addition."""
        return dataclasses.replace(
            template,
            node_selector=template.node_selector | dict(self.selector),
            node_affinity=template.node_affinity | dict(self.affinity),
            node_terms=self.terms or template.node_terms,
            tolerations=tuple(dict.fromkeys((*template.tolerations, *self.tolerations))),
        )


NOTHING = Addition()


def read_addition(pod: PodTemplate, spec: PodTemplate, pin_label: str = "") -> Addition:
    """Return what a live pod adds to the template of its spec.

    Args:
        pod: as it is.
        spec: of the same role.
        pin_label: the key by which the kind's controller pins the pod to its own slice.
    """
    # Where the spec has several values, or any, the pod may choose one of them.
    asked = {*spec.node_selector, pin_label}
    asked |= {key for key, values in spec.node_affinity.items() if len(values) == 1}
    selector = {key: value for key, value in pod.node_selector.items() if key not in asked}
    topology = pod.annotations.get(labels.SLICE_TOPOLOGY)
    if topology and not (
        spec.selects(labels.TOPOLOGY) or labels.SLICE_TOPOLOGY in spec.annotations
    ):
        selector.setdefault(labels.TOPOLOGY, topology)
    return Addition(
        selector=tuple(sorted(selector.items())),
        affinity=tuple(
            (key, values)
            for key, values in sorted(pod.node_affinity.items())
            if key not in asked and values != spec.node_affinity.get(key)
        ),
        terms=() if pod.node_terms == spec.node_terms else pod.node_terms,
        tolerations=tuple(
            each
            for each in pod.tolerations
            if not each.key.startswith(_OF_EVERY_POD) and each not in spec.tolerations
        ),
    )


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
    """Accept a live pod that says what the template of its workload's spec says, and perhaps more.

    Raises:
        PodContradictsSpec: it contradicts the template.
    """
    for field, of_pod, of_spec in _list_differences(pod, spec, settings):
        raise _refuse(field, of_pod, of_spec, workload)


def check_size(
    group: SliceGroup, template: PodTemplate, workload: WorkloadView, room: Room
) -> None:
    """Accept what live pods add if it gives a slice no more accelerators than the spec does.

    Only a topology, CPU, memory or a machine that the pods add can ask for more.

    Args:
        group: of the spec.
        template: the spec's, with what the pods add.
        workload: whose they are.
        room: what the operator sets.

    Raises:
        PodContradictsSpec: it gives more.
        Rejected: no pool can satisfy the pods.
    """
    spec, topology = group.template, template.topology or ""
    whose = group.name or workload.name
    named = spec.list_values(labels.TOPOLOGY) or labels.SLICE_TOPOLOGY in spec.annotations
    if not named and TOPOLOGY_FORM.fullmatch(topology):
        chips = template.chips or find_chips_of_peers(template, workload)
        most, asked = max(count_hosts(group), 1) * chips, count_chips(topology)
        if asked > most:
            raise _refuse(
                labels.TOPOLOGY, f"{asked} chips", f"at most {most} for {whose}", workload
            )
    if template.gpus:
        asked = find_slice_shape(group, template, workload, room).chips
        most = _count_gpus(group, template, workload, room)
        added = [key for key in sorted(_OF_SIZE) if template.selects(key) and not spec.selects(key)]
        if asked > most:
            field = added[0] if added else "the pod's CPU and memory"
            raise _refuse(field, f"{asked} GPUs", f"at most {most} for {whose}", workload)


def _count_gpus(
    group: SliceGroup, template: PodTemplate, workload: WorkloadView, room: Room
) -> int:
    """Return the GPUs of the nodes that pods without CPU, memory and machine of their own get."""
    spec = group.template
    own = dataclasses.replace(template, cpu_millis=spec.cpu_millis, memory_bytes=spec.memory_bytes)
    added = {key for key in _OF_SIZE if not spec.selects(key)}
    unsized = dataclasses.replace(
        own,
        node_selector={key: value for key, value in own.node_selector.items() if key not in added},
        node_affinity={key: value for key, value in own.node_affinity.items() if key not in added},
    )
    try:
        return find_slice_shape(group, unsized, workload, room).chips
    except Rejected:  # the machine needs to be named
        return find_slice_shape(group, own, workload, room).chips


def _refuse(field: str, of_pod: str, of_spec: str, workload: WorkloadView) -> PodContradictsSpec:
    return PodContradictsSpec(
        f"this pod contradicts the pod template of {workload}, so no node pool is created for it",
        field=field,
        value=of_pod,
        valid=f"{of_spec}, as in the spec; a rollout replaces a pod of an earlier template, "
        "else delete it",
    )


def _list_differences(
    pod: PodTemplate, spec: PodTemplate, settings: Settings
) -> Iterator[tuple[str, str, str]]:
    """Yield each field in which a pod contradicts its spec, with the words of both."""
    for resource, of_pod, of_spec in (
        (labels.TPU_RESOURCE, pod.chips, spec.chips),
        (labels.GPU_RESOURCE, pod.gpus, spec.gpus),
    ):
        if of_pod != of_spec:
            yield f"resources.{resource} (sum over containers)", str(of_pod), str(of_spec)
    if pod.wants_accelerator and not spec.wants_accelerator:
        wanted = (labels.ACCELERATOR, labels.TOPOLOGY, labels.SLICE_TOPOLOGY)
        key = next((each for each in wanted if pod.selects(each)), labels.ACCELERATOR)
        yield key, _show(pod, key), _NONE
    ignored = OF_TIER if settings.force_on_demand else frozenset()
    for key in sorted((spec.node_selector.keys() | spec.node_affinity.keys()) - ignored):
        values, admitted = set(pod.list_values(key)), set(spec.list_values(key))
        agrees = pod.selects(key) and (not admitted or (values and values <= admitted))
        if not agrees:
            yield key, _show(pod, key), _show(spec, key)
    if labels.SLICE_TOPOLOGY in spec.annotations and pod.topology != spec.topology:
        yield labels.TOPOLOGY, pod.topology or _NONE, spec.topology or _NONE


def _show(template: PodTemplate, key: str) -> str:
    return " or ".join(template.list_values(key)) or _NONE
