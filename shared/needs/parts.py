"""Cuts the groups of a workload's spec into parts: slices whose pods ask the same.

A part is a group of the spec, with what the live pods of its slices add. Pods of one elastic group
that add something else are a part of their own, and so is each pinned slice.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared.kinds.kind import find_slice
from shared.kinds.table import get_kind
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import Rejected, UnsupportedSelector
from shared.needs.additions import NOTHING, Addition, check_pod, enlarge, find_excess, read_addition
from shared.needs.refusals import find_other_server

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

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
    unseen: bool = False
    """None of its pods is live."""


@dataclass(slots=True, kw_only=True)
class Seen:
    """One live pod with its place in the spec."""

    pod: PodView
    slice: str = ""
    group: str = ""
    """Empty for a pod that the spec has no slice for now."""
    pinned: bool = False
    elastic: bool = False
    addition: Addition = NOTHING
    sizes: bool = False
    """Its slice needs nodes that are large enough for it."""
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
    viewer = _Viewer(workload, settings, {name_group(each): each.group for each in slices})
    seen = [viewer.see(pod) for pod in pods]
    # The pods of one slice share its nodes, so what one of them adds is asked of all.
    adding = [each for each in seen if each.addition != NOTHING and not each.elastic]
    of_slice = {each.slice: each.addition for each in reversed(adding)}
    for each in seen:
        each.addition = of_slice.get(each.slice, each.addition)
    return seen


@dataclass(slots=True)
class _Viewer:
    """Finds the place of each pod of one workload."""

    workload: WorkloadView
    settings: Settings
    groups: Mapping[str, SliceGroup]
    tried: dict[tuple[str, Addition, int, int], Rejected | None] = field(default_factory=dict)
    """Why an addition with its CPU and memory is refused; None if it is not."""

    def see(self, pod: PodView) -> Seen:
        """Return one pod with its place, or with the reason why it has none."""
        seen = Seen(pod=pod)
        try:
            seen.refusal = self._place(seen)
        except Rejected as error:
            seen.refusal = Decision(Verdict.REFUSE, error.reason, str(error))
        return seen

    def _place(self, seen: Seen) -> Decision | None:
        pod, kind, is_free = seen.pod, get_kind(self.workload.kind), not seen.pod.node_name
        # A queue or a webhook may give a pod to another server than its spec does.
        other = find_other_server(pod.template) if is_free else None
        if other is not None:
            return Decision(Verdict.NOTHING, other.reason, other.message)
        template = kind.find_template(pod, self.workload)
        if template is not None and is_free:
            check_pod(pod.template, template, self.workload, self.settings)
        own = find_slice(kind, pod, self.workload)
        if own is None:
            controller = f"{pod.controller_kind or 'none'} {pod.controller_name}".rstrip()
            text = f"{self.workload} has no slice for this pod, whose controller is {controller}"
            return Decision(Verdict.NOTHING, Reason.IDENTITY_MISMATCH, text)
        if is_free:
            self._check_slice(pod, own)
        seen.slice, seen.group = own.name, name_group(own)
        seen.pinned, seen.elastic = own.group.pinned, own.group.elastic
        if template is not None and not pod.deleting:
            self._add(seen, template)
        return None

    def _check_slice(self, pod: PodView, own: SliceOfPod) -> None:
        """Accept a pod that may get a pool for its slice, and selects no other slice's nodes."""
        kind = get_kind(self.workload.kind)
        if not own.group.elastic:
            kind.check_index(pod, self.workload)
        values = pod.template.list_values(kind.pin_label) if own.group.pinned else ()
        pin = f"{self.workload.namespace}_{own.name}"
        if values not in ((), (pin,)):
            raise UnsupportedSelector(
                "the pod selects the nodes of another slice",
                field=f"spec.nodeSelector {kind.pin_label}",
                value=" or ".join(values),
                valid=pin,
            )

    def _add(self, seen: Seen, template: PodTemplate) -> None:
        """Read what a pod adds; what is too much is refused, or ignored once it runs."""
        group = self.groups.get(seen.group)
        if group is None:
            return
        pod, kind = seen.pod.template, get_kind(self.workload.kind)
        addition = read_addition(pod, template, kind.pin_label if seen.pinned else "")
        key = seen.group, addition, pod.cpu_millis, pod.memory_bytes
        if key not in self.tried:
            asked = enlarge(addition.apply(group.template), [pod] if pod.units else [])
            self.tried[key] = find_excess(group, asked, self.workload, self.settings.room)
        excess = self.tried[key]
        if excess is None:
            seen.addition, seen.sizes = addition, bool(pod.units)
        elif not seen.pod.node_name:
            raise excess


def name_group(own: SliceOfPod) -> str:
    """Return a text that is the same for all slices of one group."""
    return own.name if own.group.elastic else f"group {own.group.name}"


def list_parts(slices: Sequence[SliceOfPod], seen: Sequence[Seen]) -> dict[PartKey, Part]:
    """Return the parts of the groups whose pods want accelerators, in the order of the spec."""
    by_group: dict[str, list[SliceOfPod]] = {}
    for each in slices:
        if each.group.template.wants_accelerator:
            by_group.setdefault(name_group(each), []).append(each)
    seen_of: dict[str, list[Seen]] = {name: [] for name in by_group}
    for pod in seen:
        if pod.group in seen_of and pod.refusal is None:
            seen_of[pod.group].append(pod)
    cuts = [_Cut(name, members, seen_of[name]) for name, members in by_group.items()]
    return {key: part for cut in cuts for key, part in cut.list_parts()}


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
        asking = [each.pod.template for each in self.seen if each.sizes]
        self.group = dataclasses.replace(first, template=enlarge(self.spec, asking))

    def list_parts(self) -> Iterator[tuple[PartKey, Part]]:
        """Yield the parts of the group."""
        if self.group.pinned:
            yield from self._list_pinned()
            return
        live: Counter[Addition] = Counter()
        if self.group.elastic:
            live.update(each.addition for each in self.seen if not each.pod.deleting)
        else:
            live.update({each.slice: each.addition for each in self.seen}.values())
        most = self.group.replicas if self.group.elastic else len(self.slices) - self.group.over
        for addition, number in self._share(live, max(most, 0)).items():
            part = self._make(addition, number, unseen=not live[addition])
            yield (self.name, addition, ""), part

    def _share(self, live: Counter[Addition], most: int) -> Counter[Addition]:
        """Return how many slices, or pods of an elastic group, add the same."""
        shares, left = Counter[Addition](), most
        for addition, number in live.most_common():
            shares[addition] = min(number, left)
            left -= shares[addition]
        # Pods of an elastic group that do not exist yet will be like most of those that do.
        usual = next(iter(shares), NOTHING) if self.group.elastic else NOTHING
        if left or not shares:
            shares[usual] += left
        return shares

    def _make(self, addition: Addition, number: int, *, unseen: bool = False) -> Part:
        template = addition.apply(self.group.template)
        replicas = number if self.group.elastic else self.group.replicas
        return Part(
            group=dataclasses.replace(self.group, template=template, replicas=replicas),
            spec=addition.apply(self.spec),
            most=number,
            added=addition != NOTHING,
            unseen=unseen,
        )

    def _leave_out_ended(self, live: Collection[str]) -> list[SliceOfPod]:
        """Return the slices without those that have ended.

        The status says how many, and not which. They are those without a live pod if these are as
        many; in a restart more have none.
        """
        without = [each.name for each in self.slices if each.name not in live]
        ended = frozenset(without if len(without) == self.group.over else ())
        return [each for each in self.slices if each.name not in ended]

    def _list_pinned(self) -> Iterator[tuple[PartKey, Part]]:
        """Yield a part for each slice of a group whose slices are pinned."""
        additions = {each.slice: each.addition for each in self.seen}
        made: dict[Addition, Part] = {}
        for each in self._leave_out_ended({each.slice for each in self.seen}):
            addition = additions.get(each.name, NOTHING)
            if addition not in made:
                made[addition] = self._make(addition, 1)
            part = dataclasses.replace(made[addition], pin=each.name)
            yield (self.name, addition, each.name), part
