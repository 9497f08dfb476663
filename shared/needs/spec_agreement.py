"""Checks a live pod against its workload's spec, which decides what a slice may be.

A pod may add what the spec leaves open, because Kueue and webhooks do: the accelerator's type, a
topology with no more chips than the slice's pods have, the tier, the zone, selectors of a domain of
its own. It may not change or leave out what the spec says, and may not have other chips or GPUs.
So a forged pod gets what the spec describes or nothing, and a pod of an earlier template waits for
its rollout.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from shared.model import labels
from shared.model.errors import PodContradictsSpec, Rejected
from shared.model.workloads import AmbiguousSelector
from shared.needs.capacity import Tier, find_tier
from shared.needs.wanted_shapes import find_chips_of_peers, find_wanted_shape, names_topology

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.kinds.kind import SliceOfPod
    from shared.model.workloads import PodTemplate, WorkloadView
    from shared.settings import Settings
    from shared.shapes.room import Room
    from shared.shapes.shape import Shape

_ANNOTATIONS = (*sorted(labels.POD_KEYS), *labels.PROVISIONING_REQUESTS)
"""The annotations that change the nodes, or who provides them."""
_OF_TIER = frozenset(
    {
        *(
            labels.PROVISIONING,
            labels.PREEMPTIBLE,
            labels.SPOT,
            labels.FLEX_START,
            labels.MAX_RUN_DURATION,
        ),
        *(labels.RESERVATION_AFFINITY, labels.RESERVATION_NAME, labels.RESERVATION_PROJECT),
        *(labels.RESERVATION_BLOCKS, labels.RESERVATION_SUBBLOCKS),
    }
)
"""Without effect under the setting ``force_on_demand``."""
_OF_SIZE = (labels.INSTANCE_TYPE, labels.MACHINE_FAMILY, labels.ACCELERATOR_COUNT)
"""With these a pod may choose a machine that has more GPUs than it requests."""
_NONE = "none"


@dataclasses.dataclass(frozen=True, slots=True)
class _Difference:
    """One field in which a pod contradicts its spec."""

    field: str
    of_pod: str
    of_spec: str


def check_pod(
    pod: PodTemplate, spec: PodTemplate, workload: WorkloadView, settings: Settings
) -> None:
    """Accept a live pod that says what the template of its workload's spec says, and perhaps more.

    Raises:
        PodContradictsSpec: it contradicts the template, or requests accelerators that the template
            does not.
        CapacityConflict: the template or the pod selects several tiers, or a wrong one.
    """
    for difference in _list_differences(pod, spec, settings):
        raise _refuse(difference, workload)


def check_size(
    shape: Shape,
    found: SliceOfPod,
    pod: PodTemplate,
    spec: PodTemplate,
    workload: WorkloadView,
    room: Room,
) -> None:
    """Accept nodes for a live pod that have no more accelerators than the spec gives its slice.

    Only a topology, CPU, memory or a machine type that the pod adds can ask for more.

    Raises:
        PodContradictsSpec: they have more.
    """
    if shape.gpus:
        most = _count_gpus(found, pod, spec, workload, room)
        added = [key for key in _OF_SIZE if pod.selects(key) and not spec.selects(key)]
        field = added[0] if added else "the pod's CPU and memory"
    elif found.group.elastic or names_topology(spec) or pod.topology is None:
        return
    else:
        chips = spec.chips or find_chips_of_peers(pod, workload)
        most, field = max(found.group.hosts, found.group.pods, 1) * chips, labels.TOPOLOGY
    if shape.chips > most:
        unit = "GPUs" if shape.gpus else "chips"
        difference = _Difference(field, f"{shape.chips} {unit}", f"at most {most} for {found.name}")
        raise _refuse(difference, workload)


def _refuse(found: _Difference, workload: WorkloadView) -> PodContradictsSpec:
    return PodContradictsSpec(
        f"this pod contradicts the pod template of {workload}, so no node pool is created for it",
        field=found.field,
        value=found.of_pod,
        valid=f"{found.of_spec}, as in the spec; a rollout replaces a pod of an earlier template, else delete it",
    )


def _list_differences(
    pod: PodTemplate, spec: PodTemplate, settings: Settings
) -> Iterator[_Difference]:
    for resource, of_pod, of_spec in (
        (labels.TPU_RESOURCE, pod.chips, spec.chips),
        (labels.GPU_RESOURCE, pod.gpus, spec.gpus),
    ):
        if of_pod != of_spec:
            yield _Difference(
                f"resources.{resource} (sum over containers)", str(of_pod), str(of_spec)
            )
    if not spec.wants_accelerator:
        wanted = (labels.ACCELERATOR, labels.TOPOLOGY, labels.SLICE_TOPOLOGY)
        key = next(
            (each for each in wanted if pod.selects(each) or each in pod.annotations),
            labels.ACCELERATOR,
        )
        yield _Difference(key, _show(pod, key), _NONE)
    ignored = _OF_TIER if settings.force_on_demand else frozenset()
    for key in sorted({*spec.node_selector, *spec.node_affinity} - ignored):
        if not _agrees(pod, spec, key):
            yield _Difference(key, _show(pod, key), _show(spec, key))
    of_pod_zone, of_spec_zone = _list_zones(pod), _list_zones(spec)
    if of_spec_zone and not set(of_pod_zone) <= set(of_spec_zone):
        yield _Difference(labels.ZONE, " or ".join(of_pod_zone), " or ".join(of_spec_zone))
    if labels.SLICE_TOPOLOGY in spec.annotations and pod.topology != spec.topology:
        yield _Difference(labels.TOPOLOGY, pod.topology or _NONE, spec.topology or _NONE)
    yield from _list_annotations(pod, spec, settings)
    yield from () if settings.force_on_demand else _list_capacity(pod, spec)


def _list_annotations(
    pod: PodTemplate, spec: PodTemplate, settings: Settings
) -> Iterator[_Difference]:
    """Yield the annotations and the labels for nodes in which a pod differs from the spec."""
    for key in _ANNOTATIONS:
        if key in spec.annotations and pod.annotations.get(key) != spec.annotations[key]:
            yield _Difference(
                f"annotation {key}", pod.annotations.get(key, _NONE), spec.annotations[key]
            )
    key = labels.DISABLE_AUTOPROVISIONING
    if "true" in (spec.labels.get(key), spec.annotations.get(key)):
        yield _Difference(key, pod.labels.get(key, pod.annotations.get(key, _NONE)), "true")
    asked = pod.annotations.get(labels.COPY_LABELS, "").split(",")
    for key in (*settings.copy_labels, *(each.strip() for each in asked)):
        if key in spec.labels and pod.labels.get(key) != spec.labels[key]:
            yield _Difference(f"label {key}", pod.labels.get(key, _NONE), spec.labels[key])


def _list_capacity(pod: PodTemplate, spec: PodTemplate) -> Iterator[_Difference]:
    """Yield the tier, or the project of the reservation, if a pod changes that of the spec."""
    try:
        of_spec = find_tier(spec)
    except AmbiguousSelector:  # the spec leaves open which of several, and the pod may choose
        return
    of_pod = find_tier(pod)
    if of_spec is not None and of_pod != of_spec:
        yield _Difference("the tier of the capacity", str(of_pod), str(of_spec))
    key = labels.RESERVATION_PROJECT
    # Without a project the spec means a reservation of the cluster's own project.
    if of_spec == Tier.RESERVATION and pod.selects(key) and not spec.selects(key):
        yield _Difference(key, _show(pod, key), _NONE)


def _agrees(pod: PodTemplate, spec: PodTemplate, key: str) -> bool:
    """Return whether a pod selects a value that the spec's selector for a node label admits."""
    values, admitted = pod.list_values(key), spec.list_values(key)
    return pod.selects(key) and (not admitted or (bool(values) and set(values) <= set(admitted)))


def _list_zones(template: PodTemplate) -> tuple[str, ...]:
    return template.list_values(labels.ZONE) or template.list_values(labels.RESERVATION_ZONE)


def _show(template: PodTemplate, key: str) -> str:
    return " or ".join(template.list_values(key)) or template.annotations.get(key, _NONE)


def _count_gpus(
    found: SliceOfPod, pod: PodTemplate, spec: PodTemplate, workload: WorkloadView, room: Room
) -> int:
    """Return the GPUs of the nodes that a pod without CPU, memory and machine of its own gets."""
    own = found.group.template if found.group.elastic else spec
    added = {key for key in _OF_SIZE if not spec.selects(key)}
    named = dataclasses.replace(pod, cpu_millis=own.cpu_millis, memory_bytes=own.memory_bytes)
    alone = dataclasses.replace(
        named,
        node_selector={key: value for key, value in pod.node_selector.items() if key not in added},
        node_affinity={key: value for key, value in pod.node_affinity.items() if key not in added},
    )
    try:
        return find_wanted_shape(found, alone, workload, room).chips
    except Rejected:  # the machine needs to be named
        return find_wanted_shape(found, named, workload, room).chips
