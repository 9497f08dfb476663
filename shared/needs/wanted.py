"""Lists what a workload needs, and to which need each of its live pods belongs.

The spec decides what a slice is, and live pods may only add to it. A group of the spec is cut into
parts: slices whose pods ask the same. Pods of one elastic group that add something else are a part
of their own. Parts of all groups whose pods ask the same are one need, and so is each pinned slice.
The key of a need is a hash of what the pods ask; it makes names, and never decides whether a pool
serves.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from shared.kinds.kind import merge_requests, name_slice
from shared.kinds.table import get_kind
from shared.model import labels
from shared.model.decisions import Decision
from shared.model.errors import Rejected
from shared.model.needs import Asks, Need, Pod
from shared.model.pools import PoolShape
from shared.model.workloads import PodView, SliceGroup, Toleration, WorkloadView
from shared.needs import templates
from shared.needs.nodepool import complete
from shared.needs.pods import KEY_CHARACTERS, Place, make_key, place_pods
from shared.needs.ways import Demand
from shared.settings import Settings
from shared.shapes.catalogue import Placement, Shape
from shared.shapes.slices import find_slice_shape

NO_NEED = "-"
"""In place of the key, for pods of the workload that belong to no need of its spec now."""
_ANY_FLAVOR = (Toleration(key=labels.SPOT, operator="Exists"),)
_NOWHERE = Asks(PoolShape(""))  # what no pool offers


class Wanted(Struct, frozen=True, kw_only=True):
    """The needs of one workload, and its pods in the words of the plan."""

    needs: tuple[Need, ...] = ()
    demands: Mapping[str, Demand] = {}
    """By the key of the need: what the body of a pool is built from."""
    pods: tuple[Pod, ...] = ()
    refusals: tuple[tuple[PodView, Decision], ...] = ()  # pods that belong to no need, and why
    left: tuple[tuple[Need, Decision], ...] = ()  # what somebody else serves, and why

    @property
    def refused(self) -> bool:
        """Return whether a need can never be served."""
        return any(need.never for need in self.needs)


def list_wanted(
    cluster: str,
    workload: WorkloadView,
    pods: Sequence[PodView],
    pools_of: Mapping[str, str],
    settings: Settings,
) -> Wanted:
    """Return what a workload needs; `pools_of` has the pool of each node that a pod may run on."""
    groups: Sequence[SliceGroup] = ()
    unclear: list[Decision] = []
    try:
        groups = get_kind(workload.kind).list_groups(workload)
    except Rejected as error:
        unclear.append(error.decision)
    places = place_pods(pods, groups, workload, settings)
    unclear += [each.refusal for each in places if each.refusal and each.lost]
    refused = [Need(key="unclear", asks=_NOWHERE, never=never) for never in unclear[:1]]
    answers = _answer_all(cluster, workload, list_parts(workload, groups, places), settings)
    views, refusals = _view_pods(places, answers, pools_of)
    return Wanted(
        needs=(*refused, *_merge(answers.values())),
        demands={answer.need.key: answer.demand for answer in answers.values() if answer.demand},
        pods=views,
        refusals=refusals,
        left=tuple((each.need, each.other) for each in answers.values() if each.other),
    )


class Part(Struct, frozen=True, kw_only=True):
    """Slices of one group, or pods of one elastic group, whose pods ask the same."""

    group: SliceGroup
    """With what live pods add; of an elastic group `replicas` are the pods of this part."""
    key: str  # of its need: a hash of what the spec and the live pods ask
    most: int  # slices that the workload's controller may hold now; of a pinned one each time 1
    pins: Sequence[str] = ()  # its slices, if each is pinned to nodes of its own
    added: bool = False  # live pods add something to the spec
    unseen: bool = False  # None of its pods is live


def list_parts(
    workload: WorkloadView, groups: Sequence[SliceGroup], places: Sequence[Place]
) -> list[Part]:
    """Return the parts of groups whose pods want accelerators, in the order of the spec."""
    live: dict[str, list[Place]] = {group.name: [] for group in groups}
    for place in places:
        if place.group is not None:
            live[place.group.name].append(place)
    parts = [part for group in groups for part in _cut(workload, group, live[group.name])]
    return [_join(part, parts) if part.group.elastic else part for part in parts]


def _join(part: Part, parts: Sequence[Part]) -> Part:
    """Let elastic groups share a pool if only the size of their pods differs: it fits the largest.

    A pool of smaller machines would count for the larger pods too, because fit ignores size.
    """
    shared = [each for each in parts if each.group.elastic and each.key == part.key]
    template = functools.reduce(merge_requests, [each.group.template for each in shared])
    pods = sum(each.group.replicas for each in shared)
    group = structs.replace(part.group, template=template, replicas=pods)
    return structs.replace(part, group=group, unseen=all(each.unseen for each in shared))


def _cut(workload: WorkloadView, group: SliceGroup, live: Sequence[Place]) -> Iterator[Part]:
    """Yield the parts of one group of the spec with its live pods."""
    own = make_key(group, group.template)
    asks = {own: group.template} | {each.key: each.asks for each in live}
    # A policy of the namespace or a webhook may add to live pods, for example for a sidecar.
    lasting = [each.pod for each in live if not each.pod.deleting]
    sizes = [pod.template for pod in lasting if pod.template.units]
    counts = _count_askers(group, live)
    pins = _list_pins(workload, group, live, own)
    shares = dict.fromkeys(pins, 1) if group.pinned else _share(counts, group, own)
    for key, number in shares.items():
        yield Part(
            group=structs.replace(
                group,
                template=asks[key].enlarge(sizes),
                replicas=number if group.elastic else group.replicas,
            ),
            key=key,
            most=number,
            pins=pins.get(key, ()),
            added=key != own,
            unseen=not counts[key],
        )


def _count_askers(group: SliceGroup, live: Sequence[Place]) -> Counter[str]:
    """Return how many live slices, or live pods of an elastic group, ask the same."""
    if group.elastic:
        return Counter(each.key for each in live if not each.pod.deleting)
    return Counter({each.slice: each.key for each in live}.values())


def _share(counts: Counter[str], group: SliceGroup, own: str) -> dict[str, int]:
    """Return how many slices, or pods of an elastic group, ask the same by the spec."""
    left = max(group.replicas - (0 if group.elastic else group.over), 0)
    shares: Counter[str] = Counter()
    for key, number in counts.most_common():
        shares[key] = min(number, left)
        left -= shares[key]
    # Pods of an elastic group that do not exist yet will be like most of those that do.
    usual = next(iter(shares), own) if group.elastic else own
    if left or not shares:
        shares[usual] += left
    return shares


def _list_pins(
    workload: WorkloadView, group: SliceGroup, live: Sequence[Place], own: str
) -> dict[str, list[str]]:
    """Return the slices of a pinned group that have not ended, by what their live pods ask.

    The status says how many have ended, and not which. They are those without a live pod if these
    are as many; in a restart more have none.
    """
    pins: dict[str, list[str]] = {}
    if not group.pinned:
        return pins
    keys = {each.slice: each.key for each in live}
    slices = [name_slice(workload, group, str(index)) for index in range(group.replicas)]
    without = [each for each in slices if each not in keys]
    ended = frozenset(without if len(without) == group.over else ())
    for each in slices:
        if each not in ended:
            pins.setdefault(keys.get(each, own), []).append(each)
    return pins


class Answer(Struct, frozen=True):
    """What a part of a workload needs, or why it is not ours to serve."""

    need: Need
    demand: Demand | None = None
    other: Decision | None = None  # somebody else serves its pods


Answers = dict[tuple[str, str, str], Answer]  # by `Place.part`


def _answer_all(
    cluster: str, workload: WorkloadView, parts: Sequence[Part], settings: Settings
) -> Answers:
    """Return what each part needs. Pinned slices differ by their pin alone."""
    answers: Answers = {}
    for part in parts:
        answer, name = _answer(cluster, workload, part, settings), part.group.name
        for pin in part.pins or ("",):
            answers[name, part.key, pin] = _pin(answer, workload, pin) if pin else answer
    return answers


def _answer(cluster: str, workload: WorkloadView, part: Part, settings: Settings) -> Answer:
    """Return what a part needs.

    What a setting forbids is still a need: another setting of `collect` must delete nothing.
    """
    group, template, kind = part.group, part.group.template, get_kind(workload.kind)
    apart = kind.groups_apart or (part.added and not kind.whole)
    need = Need(key=part.key, asks=_NOWHERE, most=part.most, apart=apart)
    other = templates.find_other_server(template) or templates.find_other_owner(workload, template)
    if other is not None:
        return Answer(need, other=other)
    try:
        if not template.units:
            templates.check_resources(template, settings)  # it may be a misspelt accelerator
        shape = find_slice_shape(group, template, workload, settings.room)
        need = _shape(need, part, shape, templates.list_required(template, settings))
        demand = complete(Demand(cluster, workload, group, settings, shape, need))
    except Rejected as error:
        return Answer(structs.replace(need, never=error.decision, of_flavor=part.added))
    return Answer(demand.need, demand)


def _pin(answer: Answer, workload: WorkloadView, pin: str) -> Answer:
    """Return the answer for one slice whose pods select nodes with the label of their slice."""
    kind, need, demand = get_kind(workload.kind), answer.need, answer.demand
    own = {kind.pin_label: f"{workload.namespace}_{pin}"}
    asks = Asks(
        need.asks.shape,
        need.asks.labels | frozenset(own.items()),
        (*need.asks.tolerations, Toleration(key=kind.pin_taint, operator="Exists")),
    )
    key = labels.hash_words((need.key, pin), KEY_CHARACTERS)
    need = structs.replace(need, key=key, asks=asks, pin=pin)
    if demand is not None:
        demand = structs.replace(demand, need=need, node_labels=demand.node_labels | own)
    return Answer(need, demand, answer.other)


def _shape(need: Need, part: Part, shape: Shape, required: frozenset[tuple[str, str]]) -> Need:
    """Return a need with what fits it, and how many nodes it wants."""
    group, template = part.group, part.group.template
    elastic, tied = group.elastic, group.whole or group.pinned or template.node_pool_affinity
    # Slices without live pods may be of any flavor, so their pools may be on spot machines.
    tolerated = template.tolerations + (_ANY_FLAVOR if part.unseen else ())
    return structs.replace(
        need,
        asks=Asks(_read_shape(shape, elastic=elastic), required, tolerated),
        hosts=1 if elastic else shape.node_count,
        nodes=shape.node_count * (group.replicas > 0) if elastic else None,
        loose=shape.node_count > 1 and not (tied or elastic),
    )


def _read_shape(shape: Shape, *, elastic: bool) -> PoolShape:
    """Return what the machines of a pool of a shape offer."""
    gpus, sharing = shape.gpus, ""
    if gpus and (gpus.partition or gpus.strategy):
        sharing = f"{gpus.partition}/{gpus.strategy}/{gpus.clients}"
    return PoolShape(
        accelerator=shape.family.accelerator if gpus else shape.machine.name,
        topology=shape.topology if shape.placement == Placement.COMPACT else "",
        hosts=0 if elastic else shape.node_count,
        units=shape.machine.chips,
        sharing=sharing,
    )


def _merge(answers: Iterable[Answer]) -> list[Need]:
    """Return one need for all groups that are ours to serve and whose pods ask the same."""
    needs: dict[str, Need] = {}
    for answer in answers:
        need = answer.need
        if answer.other is None:
            first = needs.get(need.key, need)
            most = need.most + (first.most if need.key in needs else 0)
            # They may differ in who else runs on their nodes, which may be refused.
            kept = need if need.never and not first.never else first
            needs[need.key] = structs.replace(kept, most=most)
    # Slices of one need, or of two that ask the same, fit each other's pools.
    alike = Counter(need.asks for need in needs.values() for _ in range(need.most))
    return [
        structs.replace(need, loose=need.loose and alike[need.asks] > 1) for need in needs.values()
    ]


def _view_pods(
    places: Iterable[Place], answers: Answers, pools_of: Mapping[str, str]
) -> tuple[tuple[Pod, ...], tuple[tuple[PodView, Decision], ...]]:
    """Return the pods in the words of the plan, and those that wait for what no need gives."""
    usual = {group: answer for (group, _, _), answer in reversed(list(answers.items()))}
    views: list[Pod] = []
    refusals: list[tuple[PodView, Decision]] = []
    for each in places:
        # A pod beyond the spec, for example of an index that a running Job has left.
        answer = answers.get(each.part) or usual.get(each.part[0])
        refusal = each.refusal or (answer.other if answer else None)
        if refusal is not None and not each.pod.node_name:
            refusals.append((each.pod, refusal))
        need = answer.need if answer and refusal is None else None
        pool = pools_of.get(each.pod.node_name, each.pod.node_name)
        views.append(view_pod(each.pod, pool, need, key=NO_NEED, own_slice=each.slice))
    return tuple(views), tuple(refusals)


def view_pod(
    pod: PodView, pool: str, need: Need | None = None, *, key: str = "", own_slice: str = ""
) -> Pod:
    """Return a live pod in the words of the plan, by default one of another workload.

    One that belongs to no need holds its pool until it ends.
    """
    name = pod.uid
    if need is not None:
        key, name = need.key, "" if need.elastic else own_slice
    return Pod(
        need=key,
        slice=name,
        pool=pool,
        created_at=pod.created_at or 0.0,
        waits=need is not None and pod.waits,
        terminating=pod.deleting,
        ends_by=pod.ends_by,
    )
