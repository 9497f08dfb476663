"""Finds the place of each live pod in its workload's spec, and reads what the pod adds to it.

Kueue and webhooks add the accelerator's type, a topology, the tier, the zone, selectors of a
domain of their own, CPU and memory. A pod may not change or leave out what the spec selects, and
may not have other chips or GPUs. So a forged pod gets what the spec describes or nothing, and a pod
of an earlier template waits for its rollout. Annotations are the spec's.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared.kinds.table import get_kind
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import PodContradictsSpec, Rejected, UnsupportedSelector
from shared.needs.refusals import find_other_server
from shared.needs.selectors import OF_TIER
from shared.shapes.slices import find_slice_shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shared.kinds.kind import Kind, SliceOfPod
    from shared.model.workloads import (
        PodTemplate,
        PodView,
        Requirement,
        SliceGroup,
        Toleration,
        WorkloadView,
    )
    from shared.settings import Settings

_OF_SIZE = frozenset({labels.INSTANCE_TYPE, labels.MACHINE_FAMILY, labels.ACCELERATOR_COUNT})
"""With these a pod may choose a machine that has more GPUs than it requests."""
_OF_EVERY_POD = ("node.kubernetes.io/", labels.TPU_RESOURCE, labels.GPU_RESOURCE)
"""Tolerations that Kubernetes and GKE add to pods by themselves."""
_OF_PLACED = (labels.NODE_POOL, labels.HOSTNAME)
"""By these a controller sends a pod to nodes that it has chosen, for example to those of a leader
that runs."""
NO_GROUP = "-"
"""In place of the name of a group, for pods that the spec has no slice for now."""


@dataclass(frozen=True, slots=True)
class Addition:
    """What a live pod selects beside its spec."""

    selection: tuple[tuple[str, tuple[str, ...]], ...] = ()
    terms: tuple[tuple[Requirement, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    def apply(self, template: PodTemplate) -> PodTemplate:
        """Return a template with the addition."""
        if self == NOTHING:
            return template
        return dataclasses.replace(
            template,
            selection=template.selection | dict(self.selection),
            node_terms=self.terms or template.node_terms,
            tolerations=tuple(dict.fromkeys((*template.tolerations, *self.tolerations))),
        )


NOTHING = Addition()


@dataclass(slots=True, kw_only=True)
class Place:
    """One live pod with its place in the spec."""

    pod: PodView
    slice: str = ""
    """Empty for a pod that the spec has no slice for now; of an elastic group one for all pods."""
    group: str = NO_GROUP
    pin: str = ""
    """The name of its slice if that is pinned."""
    elastic: bool = False
    addition: Addition = NOTHING
    sizes: bool = False
    """Its slice needs nodes that are large enough for it."""
    refusal: Decision | None = None
    lost: Decision | None = None
    """Why its slice is not clear, so that the pods of others would wait for it in vain."""


def place_pods(
    pods: Iterable[PodView],
    groups: Iterable[SliceGroup],
    workload: WorkloadView,
    settings: Settings,
) -> list[Place]:
    """Return the live pods of a workload, each with its slice and what the slice's pods add."""
    by_name = {each.name: each for each in groups}
    finder = _Finder(get_kind(workload.kind), workload, settings, by_name)
    places = [finder.find(pod) for pod in pods]
    # The pods of one slice share its nodes, so what one of them adds is asked of all.
    adding = [each for each in places if each.slice and not each.elastic]
    of_slice = {each.slice: each.addition for each in reversed(adding) if each.addition != NOTHING}
    for each in places:
        each.addition = of_slice.get(each.slice, each.addition)
    return places


@dataclass(slots=True)
class _Finder:
    """Finds the place of each pod of one workload."""

    kind: Kind
    workload: WorkloadView
    settings: Settings
    groups: Mapping[str, SliceGroup]
    tried: dict[tuple[str, Addition, int, int], Rejected | None] = field(default_factory=dict)
    """Why an addition with its CPU and memory is refused; None if it is not."""

    def find(self, pod: PodView) -> Place:
        """Return one pod with its place, or with the reason why it has none."""
        place = Place(pod=pod)
        try:
            place.refusal = self._find_slice(place)
        except Rejected as error:
            place.refusal = error.decision
        return place

    def _find_slice(self, place: Place) -> Decision | None:
        pod, is_free = place.pod, not place.pod.node_name
        # A queue or a webhook may give a pod to another server than its spec does.
        other = find_other_server(pod.template) if is_free else None
        if other is not None:
            return other
        spec = self.kind.find_template(pod, self.workload)
        if spec is not None and is_free:
            check_pod(pod.template, spec, self.workload, self.settings)
        own = self._find_own(place)
        if own is None:
            controller = f"{pod.controller_kind or 'none'} {pod.controller_name}".rstrip()
            text = f"{self.workload} has no slice for this pod, whose controller is {controller}"
            return Decision(Verdict.NOTHING, Reason.IDENTITY_MISMATCH, text)
        if is_free:
            self._check_slice(pod, own)
        if spec is not None and not pod.deleting:
            self._add(place, spec)
        return None

    def _find_own(self, place: Place) -> SliceOfPod | None:
        try:
            own = self.kind.find_slice(place.pod, self.workload)
        except Rejected as error:
            if not self.kind.groups_apart:
                place.lost = error.decision
            raise
        if own is not None:
            place.slice, place.group, place.elastic = own.name, own.group.name, own.group.elastic
            place.pin = own.name if own.group.pinned else ""
        return own

    def _check_slice(self, pod: PodView, own: SliceOfPod) -> None:
        """Accept a pod that may get a pool for its slice, and selects no other slice's nodes."""
        values = pod.template.list_values(self.kind.pin_label) if own.group.pinned else ()
        pin = f"{self.workload.namespace}_{own.name}"
        if values not in ((), (pin,)):
            raise UnsupportedSelector(
                "the pod selects the nodes of another slice",
                field=f"spec.nodeSelector {self.kind.pin_label}",
                value=" or ".join(values),
                valid=pin,
            )

    def _add(self, place: Place, spec: PodTemplate) -> None:
        """Read what a pod adds; what is too much is refused, or ignored once it runs."""
        group = self.groups.get(place.group)
        if group is None:
            return
        pod = place.pod.template
        addition = read_addition(pod, spec, self.kind.pin_label if place.pin else "")
        key = place.group, addition, pod.cpu_millis, pod.memory_bytes
        if key not in self.tried:
            template = enlarge(addition.apply(group.template), [pod] if pod.units else [])
            self.tried[key] = _find_excess(group, template, self.workload, self.settings)
        excess = self.tried[key]
        if excess is None:
            place.addition, place.sizes = addition, bool(pod.units)
        elif not place.pod.node_name:
            raise excess


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
    """Return the values that a template selects of node labels, with its annotated topology."""
    topology = template.annotations.get(labels.SLICE_TOPOLOGY)
    annotated = {labels.TOPOLOGY: (topology,)} if topology else {}
    return annotated | template.selection


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
    own, base = _read_selection(pod), _read_selection(spec)
    if pod.wants_accelerator and not spec.wants_accelerator:
        key = next((key for key in (labels.ACCELERATOR, labels.TOPOLOGY) if key in own), "spec")
        raise _refuse(key, _show(own.get(key)), _show(None), workload)
    for key in sorted(base.keys() - (OF_TIER if settings.force_on_demand else frozenset())):
        if not _agrees(own.get(key), base[key]):
            raise _refuse(key, _show(own.get(key)), _show(base[key]), workload)


def _agrees(values: tuple[str, ...] | None, admitted: tuple[str, ...]) -> bool:
    """Return whether a pod selects values that the spec's selector for a node label admits."""
    if values is None:
        return False
    return not admitted or (bool(values) and set(values) <= set(admitted))


def _find_excess(
    group: SliceGroup, template: PodTemplate, workload: WorkloadView, settings: Settings
) -> Rejected | None:
    """Return why pods contradict their spec, if they want more GPUs for a slice than it gives.

    CPU, memory or a machine that they add can ask for more. That nothing fits them is told as the
    reason of the whole need.
    """
    # A topology that is too large has too many hosts.
    if not template.gpus or template == group.template:
        return None
    added = _OF_SIZE & (template.selection.keys() - group.template.selection.keys())
    try:
        chips = find_slice_shape(group, template, workload, settings.room).chips
        most = _count_gpus(group, template, workload, settings)
    except Rejected:
        return None
    if chips <= most:
        return None
    field, whose = [*sorted(added), "the pod's CPU and memory"][0], group.name or workload.name
    return _refuse(field, f"{chips} GPUs", f"at most {most} for {whose}", workload)


def _count_gpus(
    group: SliceGroup, template: PodTemplate, workload: WorkloadView, settings: Settings
) -> int:
    """Return the GPUs of the nodes that pods without CPU, memory and machine of their own get."""
    spec = group.template
    own = dataclasses.replace(template, cpu_millis=spec.cpu_millis, memory_bytes=spec.memory_bytes)
    added = _OF_SIZE - _read_selection(spec).keys()
    unsized = dataclasses.replace(
        own, selection={key: values for key, values in own.selection.items() if key not in added}
    )
    try:
        return find_slice_shape(group, unsized, workload, settings.room).chips
    except Rejected:  # the machine needs to be named
        return find_slice_shape(group, own, workload, settings.room).chips


def _refuse(field: str, of_pod: str, of_spec: str, workload: WorkloadView) -> Rejected:
    return PodContradictsSpec(
        f"this pod contradicts the pod template of {workload}, so no node pool is created for it",
        field=field,
        value=of_pod,
        valid=f"{of_spec}, as in the spec; a rollout replaces a pod of an earlier template, "
        "else delete it",
    )


def _show(values: tuple[str, ...] | None) -> str:
    return " or ".join(values or ()) or "none"
