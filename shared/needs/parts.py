"""Cuts the groups of a workload's spec into parts: slices whose pods ask the same.

A part is a group of the spec, with what the live pods of its slices add. Pods of one elastic group
that add something else are a part of their own, and so is each pinned slice.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared.kinds.elastic import find_slice
from shared.kinds.table import get_kind
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import PodContradictsSpec, Rejected
from shared.needs.additions import NOTHING, Addition, check_pod, check_size, enlarge, read_addition
from shared.needs.refusals import find_other_server
from shared.needs.selectors import UnsupportedSelector

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from shared.kinds.kind import SliceOfPod
    from shared.model.workloads import PodTemplate, PodView, SliceGroup, WorkloadView
    from shared.settings import Settings

PartKey = tuple[str, Addition, str]
"""The group, what the live pods add, and the slice if it is pinned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Slices of one group, or pods of one elastic group, whose pods ask the same."""

    group: SliceGroup
    """With what live pods add; of an elastic group `replicas` are the pods of this part."""
    spec: PodTemplate
    """What the spec alone says, for the size of the pods."""
    most: int
    """Slices that the workload's controller may hold now."""
    pin: str = ""
    """The only slice."""
    added: bool = False
    """Live pods add something to the spec."""


@dataclass(slots=True, kw_only=True)
class Seen:
    """One live pod with its place in the spec."""

    pod: PodView
    slice: str = ""
    group: str = ""
    """Empty for a pod that the spec has no slice for now."""
    pinned: bool = False
    elastic: bool = False
    template: PodTemplate | None = None
    """Of its role in the spec."""
    addition: Addition = NOTHING
    refusal: Decision | None = None

    @property
    def key(self) -> PartKey:
        """Return the key of its part."""
        return self.group, self.addition, self.slice if self.pinned else ""


def see_pods(
    pods: Sequence[PodView],
    slices: Sequence[SliceOfPod],
    workload: WorkloadView,
    settings: Settings,
) -> list[Seen]:
    """Return the live pods of a workload, each with its slice and what the slice's pods add."""
    by_group = {name_group(each): each.group for each in slices}
    accepted: dict[tuple[str, Addition, int, int], Decision | None] = {}
    seen = [_see(pod, workload, settings) for pod in pods]
    of_slice: dict[str, Addition] = {}
    for each in seen:
        group = by_group.get(each.group)
        if group is None or each.template is None or each.pod.deleting:
            continue
        pin_label = get_kind(workload.kind).pin_label if group.pinned else ""
        addition = read_addition(each.pod.template, each.template, pin_label)
        template = each.pod.template
        tried = each.group, addition, template.cpu_millis, template.memory_bytes
        if tried not in accepted:
            asked = enlarge(addition.apply(group.template), [template] if template.units else [])
            accepted[tried] = _find_excess(group, asked, workload, settings)
        each.refusal = each.refusal or accepted[tried]
        if each.refusal is None:
            each.addition = addition
            if addition != NOTHING and not each.elastic:
                of_slice.setdefault(each.slice, addition)
    for each in seen:
        each.addition = of_slice.get(each.slice, each.addition)
    return seen


def _see(pod: PodView, workload: WorkloadView, settings: Settings) -> Seen:
    kind = get_kind(workload.kind)
    seen = Seen(pod=pod, template=kind.find_template(pod, workload))
    # A queue or a webhook may give a pod to another server than its spec does.
    other = None if pod.node_name else find_other_server(pod.template)
    if other is not None:
        seen.refusal = Decision(Verdict.NOTHING, other.reason, other.message)
        return seen
    try:
        if seen.template is not None and not pod.node_name:
            check_pod(pod.template, seen.template, workload, settings)
        own = find_slice(kind, pod, workload)
        if own is not None and not pod.node_name and not own.group.elastic:
            kind.check_index(pod, workload)
            _check_pin(pod, own, workload)
    except Rejected as error:
        seen.refusal = Decision(Verdict.REFUSE, Reason(error.reason), str(error))
        return seen
    if own is None:
        controller = f"{pod.controller_kind or 'none'} {pod.controller_name}".rstrip()
        text = f"{workload} has no slice for this pod, whose controller is {controller}"
        seen.refusal = Decision(Verdict.NOTHING, Reason.IDENTITY_MISMATCH, text)
        return seen
    seen.slice, seen.group = own.name, name_group(own)
    seen.pinned, seen.elastic = own.group.pinned, own.group.elastic
    return seen


def _check_pin(pod: PodView, own: SliceOfPod, workload: WorkloadView) -> None:
    """Accept a pod that selects the nodes of its own slice, if it selects those of a slice at all.

    Raises:
        UnsupportedSelector: they are another slice's.
    """
    key = get_kind(workload.kind).pin_label
    values, pin = pod.template.list_values(key), f"{workload.namespace}_{own.name}"
    if own.group.pinned and values not in ((), (pin,)):
        raise UnsupportedSelector(
            "the pod selects the nodes of another slice",
            field=f"spec.nodeSelector {key}",
            value=" or ".join(values),
            valid=pin,
        )


def name_group(own: SliceOfPod) -> str:
    """Return a text that is the same for all slices of one group."""
    return own.name if own.group.elastic else f"group {own.group.name}"


def _find_excess(
    group: SliceGroup, template: PodTemplate, workload: WorkloadView, settings: Settings
) -> Decision | None:
    """Return why what a pod adds contradicts the spec; None if it does not, or nothing fits it."""
    if template == group.template:
        return None
    try:
        check_size(group, template, workload, settings.room)
    except PodContradictsSpec as error:
        return Decision(Verdict.REFUSE, Reason(error.reason), str(error))
    except Rejected:  # told as the reason of the whole need
        return None
    return None


def list_parts(
    slices: Sequence[SliceOfPod], seen: Sequence[Seen], workload: WorkloadView
) -> dict[PartKey, Part]:
    """Return the parts of the groups whose pods want accelerators, in the order of the spec."""
    by_group: dict[str, list[SliceOfPod]] = {}
    for each in slices:
        if each.group.template.wants_accelerator:
            by_group.setdefault(name_group(each), []).append(each)
    seen_of: dict[str, list[Seen]] = {}
    for pod in seen:
        if pod.refusal is None:
            seen_of.setdefault(pod.group, []).append(pod)
    pin_label = get_kind(workload.kind).pin_label
    parts: dict[PartKey, Part] = {}
    for name, members in by_group.items():
        cut = _Cut(name, members, seen_of.get(name, []))
        parts |= dict(cut.list_parts(pin_label))
    return parts


@dataclass(slots=True)
class _Cut:
    """One group of the spec with its live pods."""

    name: str
    slices: list[SliceOfPod]
    seen: list[Seen]
    group: SliceGroup = field(init=False)
    spec: PodTemplate = field(init=False)

    def __post_init__(self) -> None:
        first, last = self.slices[0].group, self.slices[-1].group
        # A label or selector that differs between its slices says nothing of their pools.
        common = {
            key: value
            for key, value in first.template.labels.items()
            if last.template.labels.get(key) == value
        }
        self.spec = dataclasses.replace(first.template, labels=common)
        asking = [each.pod.template for each in self.seen if each.pod.template.units]
        self.group = dataclasses.replace(first, template=enlarge(self.spec, asking))

    def list_parts(self, pin_label: str) -> Iterator[tuple[PartKey, Part]]:
        """Yield the parts of the group."""
        if self.group.pinned:
            yield from self._list_pinned(pin_label)
            return
        live: Counter[Addition] = Counter()
        if self.group.elastic:
            live.update(each.addition for each in self.seen if not each.pod.deleting)
        else:
            live.update({each.slice: each.addition for each in self.seen}.values())
        left = self.group.replicas if self.group.elastic else len(self.slices) - self.group.over
        counts = Counter[Addition]()
        for addition, number in live.most_common():
            counts[addition] = max(0, min(number, left))
            left -= counts[addition]
        # Pods of an elastic group that do not exist yet will be like most of those that do.
        usual = next(iter(counts), NOTHING) if self.group.elastic else NOTHING
        if left > 0 or not counts:
            counts[usual] += max(0, left)
        for addition, number in counts.items():
            yield (self.name, addition, ""), self._make(addition, number)

    def _make(self, addition: Addition, number: int) -> Part:
        template = addition.apply(self.group.template)
        replicas = number if self.group.elastic else self.group.replicas
        group = dataclasses.replace(self.group, template=template, replicas=replicas)
        added = addition != NOTHING
        return Part(group=group, spec=addition.apply(self.spec), most=number, added=added)

    def _list_pinned(self, pin_label: str) -> Iterator[tuple[PartKey, Part]]:
        """Yield a part for each slice of a group whose slices are pinned."""
        additions = {each.slice: each.addition for each in self.seen}
        self.group = dataclasses.replace(
            self.group, template=_leave_out(self.group.template, pin_label)
        )
        self.spec = _leave_out(self.spec, pin_label)
        made: dict[Addition, Part] = {}
        for each in self.slices:
            addition = additions.get(each.name, NOTHING)
            if addition not in made:
                made[addition] = self._make(addition, 1)
            part = dataclasses.replace(made[addition], pin=each.name)
            yield (self.name, addition, each.name), part


def _leave_out(template: PodTemplate, key: str) -> PodTemplate:
    selector: Mapping[str, str] = template.node_selector
    return dataclasses.replace(
        template, node_selector={each: value for each, value in selector.items() if each != key}
    )
