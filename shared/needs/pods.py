"""Finds the place of each live pod in its workload's spec, and reads what the pod adds to it.

Kueue and webhooks add the accelerator's type, a topology, the tier, the zone, selectors of a
domain of their own, CPU and memory. A pod may not change or leave out what the spec selects, and
may not have other chips or GPUs. So a forged pod gets what the spec describes or nothing, and a pod
of an earlier template waits for its rollout. Annotations are the spec's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field, structs

from shared.kinds.table import get_kind
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import Rejected, refuse
from shared.model.workloads import PodTemplate, PodView, SliceGroup, WorkloadView
from shared.needs import templates
from shared.settings import Settings

KEY_CHARACTERS = 13
_KEYS = (labels.POD_KEYS | {labels.SLICE_TOPOLOGY}) - {labels.CAPACITY}
"""Annotations of pods that change what serves them."""
_OF_EVERY_POD = ("node.kubernetes.io/", labels.TPU_RESOURCE, labels.GPU_RESOURCE)
"""Tolerations that Kubernetes and GKE add to pods by themselves."""
_OF_PLACED = (labels.NODE_POOL, labels.HOSTNAME)
"""By these a controller sends a pod to nodes that it has chosen, for example to those of a leader
that runs."""
NO_GROUP = "-"  # in place of the name of a group, for pods that the spec has no slice for now


class Place(Struct, kw_only=True):
    """One live pod with its place in the spec."""

    pod: PodView
    slice: str = ""
    """Empty for a pod that the spec has no slice for now; of an elastic group one for all pods."""
    group: SliceGroup | None = None  # None for pods that need no nodes by the spec
    asks: PodTemplate = field(default_factory=PodTemplate)
    """The template of its group with what the pods of its slice add."""
    key: str = ""  # of the need: the hash of that
    refusal: Decision | None = None
    lost: bool = False
    """Its slice is not clear, and the pods of others would wait for it in vain."""

    @property
    def part(self) -> tuple[str, str, str]:
        """Return its group, its key, and its slice if that is pinned."""
        if self.group is None:
            return NO_GROUP, "", ""
        return self.group.name, self.key, self.slice if self.group.pinned else ""

    @property
    def adds_for_slice(self) -> bool:
        """Return whether the pod adds something to its spec that all pods of its slice share."""
        if self.group is None or self.group.elastic:
            return False
        return self.asks is not self.group.template


def place_pods(
    pods: Iterable[PodView],
    groups: Iterable[SliceGroup],
    workload: WorkloadView,
    settings: Settings,
) -> list[Place]:
    """Return the live pods of a workload, each with its slice and what the slice's pods add."""
    by_name = {each.name: each for each in groups}
    keys = {name: make_key(group, group.template) for name, group in by_name.items()}
    places = [_find_place(pod, by_name, workload, settings) for pod in pods]
    # The pods of one slice share its nodes, so what one of them adds is asked of all.
    adding = {each.slice: each.asks for each in reversed(places) if each.adds_for_slice}
    for each in places:
        if each.group is not None:
            each.asks = adding.get(each.slice, each.asks)
            plain = each.asks is each.group.template
            each.key = keys[each.group.name] if plain else make_key(each.group, each.asks)
    return places


def _find_place(
    pod: PodView, groups: Mapping[str, SliceGroup], workload: WorkloadView, settings: Settings
) -> Place:
    """Return one pod with its place, or with the reason why it has none."""
    kind, lost = get_kind(workload.kind), False
    spec = kind.find_template(pod, workload)
    try:
        other = None if pod.node_name else _find_other(pod.template, spec, workload, settings)
        if other is not None:
            return Place(pod=pod, refusal=other)
        lost = not kind.groups_apart
        own = kind.find_slice(pod, workload)
    except Rejected as error:
        return Place(pod=pod, refusal=error.decision, lost=lost)
    if own is None:
        controller = f"{pod.controller_kind or 'none'} {pod.controller_name}".rstrip()
        text = f"{workload} has no slice for this pod, whose controller is {controller}"
        stray = Decision(Verdict.NOTHING, Reason.IDENTITY_MISMATCH, text)
        return Place(pod=pod, refusal=stray)
    place = Place(pod=pod, slice=own.name, group=groups.get(own.group.name))
    if place.group is not None:
        place.asks = place.group.template
        if spec is not None and not pod.deleting:
            pin_label = kind.pin_label * place.group.pinned
            place.asks = add(place.asks, pod.template, spec, pin_label)
    return place


def _find_other(
    pod: PodTemplate, spec: PodTemplate | None, workload: WorkloadView, settings: Settings
) -> Decision | None:
    """Return who else serves a pod: a queue or a webhook may choose another than its spec does.

    A controller adds to leaders the label by which a workload keeps its slices together.
    """
    other = templates.find_other_server(pod)
    if other is None and spec is not None:
        check_pod(pod, spec, workload, settings)
        templates.check_affinity(pod, spec)
    return other


def add(template: PodTemplate, pod: PodTemplate, spec: PodTemplate, pin_label: str) -> PodTemplate:
    """Return a template of a group with what a live pod selects and tolerates beside its spec.

    The label that pins it to its own slice is left out. It is the same object if nothing is added.
    """
    own, of_spec = pod.selected, spec.selected
    # Where the spec has several values, or any, the pod may choose one of them.
    selection = {
        key: values
        for key, values in own.items()
        if key not in (pin_label, *_OF_PLACED)
        and len(of_spec.get(key, ())) != 1
        and of_spec.get(key) != values
    }
    terms = template.node_terms if pod.node_terms in ((), spec.node_terms) else pod.node_terms
    tolerations = tuple(
        each
        for each in pod.tolerations
        if not each.key.startswith(_OF_EVERY_POD) and each not in spec.tolerations
    )
    if (selection, terms, tolerations) == ({}, template.node_terms, ()):
        return template
    return structs.replace(
        template,
        selection=template.selection | selection,
        node_terms=terms,
        tolerations=tuple(dict.fromkeys((*template.tolerations, *tolerations))),
    )


def make_key(group: SliceGroup, pod: PodTemplate) -> str:
    """Return a hash of what the pods of a part ask, by the spec and by what live pods add.

    Nothing that we derive or that an operator sets is in it. An elastic pool is for any size.
    """
    numbers = (pod.cpu_millis, pod.memory_bytes, pod.storage_bytes, group.hosts, group.pods)
    sizes = () if group.elastic else numbers
    sets = (
        [str(group.elastic), f"{pod.chips}/{pod.gpus}", *map(str, sizes)],
        *_list_words(pod),
        [f"{key}:{pod.annotations[key]}" for key in _KEYS & pod.annotations.keys()],
        [f"{key}~{value}" for key, value in templates.list_copied_labels(pod).items()],
        list(pod.volume_claims),
        [*pod.other_resources, *pod.unreadable_amounts],
    )
    # Each set has its length before it.
    words = [word for asked_set in sets for word in (str(len(asked_set)), *sorted(asked_set))]
    return labels.hash_words(words, KEY_CHARACTERS)


def _list_words(pod: PodTemplate) -> Iterator[list[str]]:
    """Yield what pods ask of the labels, the topology and the taints of their nodes."""
    yield [f"{key} in {','.join(values)}" for key, values in pod.selection.items()]
    yield [f"{number} {each}" for number, term in enumerate(pod.node_terms) for each in term]
    yield [f"{each.kind} {each.key}" for each in pod.topology_terms]
    yield [f"{each.key} {each.operator} {each.value} {each.effect}" for each in pod.tolerations]


def check_pod(
    pod: PodTemplate, spec: PodTemplate, workload: WorkloadView, settings: Settings
) -> None:
    """Accept a live pod that says what the template of its workload's spec says, perhaps more."""
    own, base = pod.selected, spec.selected
    amounts = "accelerators (sum over containers)"
    own[amounts], base[amounts] = (
        (f"{each.chips} chips, {each.gpus} GPUs",) for each in (pod, spec)
    )
    of_tier = templates.OF_TIER if settings.force_on_demand else frozenset()
    for key in sorted(base.keys() - of_tier):
        values, admitted = own.get(key), set(base[key])
        # Where the spec admits any value, a pod has to select the label all the same.
        if values is None or (admitted and not (values and admitted.issuperset(values))):
            value, spec_value = (" or ".join(each.get(key, ())) or "none" for each in (own, base))
            raise refuse("pod_contradicts", value, field=key, workload=workload, of_spec=spec_value)
