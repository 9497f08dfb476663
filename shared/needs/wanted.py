"""Lists what the groups of a workload need, and to which need each of its live pods belongs.

The spec decides what a slice is, and a live pod may only add selectors. Groups whose pods ask the
same are one need. A need's key is a hash of what the pods ask; it makes names, and never decides
whether a pool serves.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.kinds.elastic import find_slice
from shared.kinds.table import get_kind, list_slices
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import Rejected
from shared.model.needs import Asks, Need, Obstacle, Pod, Way
from shared.model.pools import PoolShape
from shared.model.workloads import Toleration
from shared.needs.demand import Demand
from shared.needs.demands import decide_planned_demand
from shared.needs.spec_agreement import check_pod
from shared.shapes.shape import Placement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from shared.kinds.kind import Kind, SliceOfPod
    from shared.model.workloads import PodTemplate, PodView, WorkloadView
    from shared.needs.candidates import Candidate
    from shared.settings import Settings

_KEY_CHARACTERS = 13
NO_NEED = "-"
"""In place of the key, for pods of the workload that its spec does not have any more."""
_OF_SHAPE = frozenset(
    {
        labels.ACCELERATOR,
        labels.TOPOLOGY,
        labels.GPU_ACCELERATOR,
        labels.ACCELERATOR_COUNT,
        labels.NODE_POOL,
    }
)
"""Selectors that the shape of a pool answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRefusal:
    """One live pod that belongs to no need, with the reason for its owner."""

    pod: PodView
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The needs of one workload, and its pods in the words of the plan."""

    needs: tuple[Need, ...] = ()
    demands: Mapping[str, Demand] = dataclasses.field(default_factory=dict)
    """By the key of the need: what the body of a pool is built from."""
    pods: tuple[Pod, ...] = ()
    refusals: tuple[PodRefusal, ...] = ()


@dataclass(slots=True)
class _Group:
    """Slices of the spec that ask the same."""

    need: Need
    demand: Demand | None
    slices: list[SliceOfPod]


def list_wanted(
    cluster: str,
    workload: WorkloadView,
    pods: Sequence[PodView],
    pools_of: Mapping[str, str],
    settings: Settings,
) -> Wanted:
    """Return what a workload needs.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        workload: as it is now.
        pods: its live pods.
        pools_of: the pool of each node that a pod may run on, by the node's name.
        settings: the operator's.
    """
    groups, refusals = _list_groups(cluster, workload, settings), list[PodRefusal]()
    by_slice = {each.name: group for group in groups for each in group.slices}
    seen = []
    for pod in pods:
        pool = pools_of.get(pod.node_name, pod.node_name)
        try:
            slice_name, group = _place(pod, workload, by_slice, settings)
        except Rejected as error:
            slice_name, group = "", None
            refusals.append(PodRefusal(pod=pod, decision=_refuse(error)))
        if group is None:
            seen.append(_view_stray(pod, pool))
        else:
            seen.append(view_pod(pod, group.need, slice_name, pool))
    merged = _merge(groups)
    demands = {group.need.key: group.demand for group in groups if group.demand}
    return Wanted(needs=tuple(merged), demands=demands, pods=tuple(seen), refusals=tuple(refusals))


def view_pod(pod: PodView, need: Need, slice_name: str, pool: str) -> Pod:
    """Return a live pod in the words of the plan."""
    waits = pod.unschedulable and not (
        pod.node_name or pod.gates or pod.nominated_node or pod.deleting
    )
    own = _list_selectors(pod.template) - need.asks.labels
    return Pod(
        need=need.key,
        slice="" if need.elastic else slice_name,
        pool=pool,
        created_at=pod.created_at or 0.0,
        waits=waits,
        terminating=pod.deleting,
        asks=Asks(need.asks.shape, own, pod.template.tolerations),
    )


def _view_stray(pod: PodView, pool: str) -> Pod:
    """Return a pod of the workload that is of no slice now; it holds its pool until it ends."""
    asks = Asks(PoolShape(""))
    return Pod(
        need=NO_NEED,
        slice=pod.uid,
        pool=pool,
        created_at=pod.created_at or 0.0,
        terminating=pod.deleting,
        asks=asks,
    )


def _place(
    pod: PodView, workload: WorkloadView, by_slice: Mapping[str, _Group], settings: Settings
) -> tuple[str, _Group | None]:
    """Return the slice of a live pod and the group that needs it; None if the spec has neither.

    Raises:
        Rejected: the pod contradicts the spec, or it is not clear which slice it belongs to.
    """
    kind = get_kind(workload.kind)
    spec = kind.find_template(pod, workload)
    if spec is not None and not pod.node_name:
        check_pod(pod.template, spec, workload, settings)
    slice_of_pod = find_slice(kind, pod, workload)
    if slice_of_pod is None:
        return "", None
    known = by_slice.get(slice_of_pod.name)
    # A pod beyond the spec, for example of an index that a running Job has left, keeps its slice.
    alike = (
        group
        for group in by_slice.values()
        if group.slices[0].group.name == slice_of_pod.group.name
    )
    return slice_of_pod.name, known or next(alike, None)


def _list_groups(cluster: str, workload: WorkloadView, settings: Settings) -> list[_Group]:
    """Return the groups of the spec, each with its demand, or with the reason why it has none."""
    try:
        slices = list_slices(workload)
    except Rejected as error:
        never = Obstacle(Reason(error.reason), str(error))
        return [_Group(Need(key="none", asks=Asks(PoolShape("")), never=never), None, [])]
    groups: dict[str, list[SliceOfPod]] = {}
    for each in slices:
        own_group = each.group.pinned or each.group.elastic
        groups.setdefault(each.name if own_group else f"group {each.group.name}", []).append(each)
    return [_build_group(cluster, workload, alike, settings) for alike in groups.values()]


def _build_group(
    cluster: str, workload: WorkloadView, slices: list[SliceOfPod], settings: Settings
) -> _Group:
    first = slices[0]
    demand = decide_planned_demand(cluster, workload, first, settings)
    if isinstance(demand, Decision):
        asks = Asks(PoolShape(accelerator="", units=first.group.template.units))
        never = Obstacle(demand.reason, demand.message)
        return _Group(Need(key=_make_key(asks, first), asks=asks, never=never), None, slices)
    return _Group(_build_need(workload, demand, slices), demand, slices)


def _build_need(workload: WorkloadView, demand: Demand, slices: list[SliceOfPod]) -> Need:
    first, shape, kind = slices[0], demand.shape, get_kind(workload.kind)
    asks = _read_asks(kind, demand, first)
    ended = len(first.group.ended)
    candidates = demand.candidates or ()
    ways = tuple(_view_way(each) for each in candidates)
    return Need(
        key=_make_key(asks, first),
        asks=asks,
        most=max(0, len(slices) - (ended if kind.name == "Job" else 0)),
        hosts=1 if demand.elastic else shape.node_count,
        ways=ways or (Way(demand.capacity.tier, demand.zone, demand.capacity.reservation_path),),
        pin=first.name if demand.pinned else "",
        nodes=shape.node_count if demand.elastic else None,
        part=demand.part,
        warm_seconds=demand.idle_seconds,
    )


def _read_asks(kind: Kind, demand: Demand, first: SliceOfPod) -> Asks:
    """Return what the pods of a slice ask; of a pinned one, with what its controller adds."""
    template = first.group.template
    selectors, tolerations = _list_selectors(template), template.tolerations
    if demand.pinned:
        selectors |= {(kind.pin_label, demand.node_labels[kind.pin_label])}
        tolerations = (*tolerations, Toleration(key=kind.pin_taint, operator="Exists"))
    return Asks(read_shape(demand), selectors, tolerations)


def read_shape(demand: Demand) -> PoolShape:
    """Return what the machines of a demand's pool offer."""
    shape, gpus = demand.shape, demand.shape.gpus
    return PoolShape(
        accelerator=shape.accelerator if gpus else shape.machine_type,
        topology=shape.topology if shape.placement == Placement.COMPACT else "",
        hosts=0 if demand.elastic else shape.node_count,
        units=shape.chips_per_host,
        sharing=f"{gpus.partition}/{gpus.strategy}/{gpus.clients}"
        if gpus and (gpus.partition or gpus.strategy)
        else "",
    )


def _view_way(candidate: Candidate) -> Way:
    return Way(candidate.capacity.tier, candidate.zone, candidate.capacity.reservation_path)


def _list_selectors(template: PodTemplate) -> frozenset[tuple[str, str]]:
    """Return the node labels that a pod asks for by one value each."""
    single = {key: values[0] for key, values in template.node_affinity.items() if len(values) == 1}
    asked = {**single, **template.node_selector}
    return frozenset((key, value) for key, value in asked.items() if key not in _OF_SHAPE)


def _make_key(asks: Asks, first: SliceOfPod) -> str:
    shape = asks.shape
    parts = [shape.accelerator, shape.topology, str(shape.hosts), str(shape.units), shape.sharing]
    parts += sorted(f"{key}={value}" for key, value in asks.labels)
    parts += [first.name] if first.group.pinned else []
    return labels.hash_text("".join(f"{len(part)}:{part}" for part in parts), _KEY_CHARACTERS)


def _merge(groups: Iterable[_Group]) -> list[Need]:
    """Return one need for all groups whose pods ask the same."""
    most, needs = Counter[str](), dict[str, Need]()
    for group in groups:
        most[group.need.key] += group.need.most
        needs.setdefault(group.need.key, group.need)
    return [dataclasses.replace(need, most=most[key]) for key, need in needs.items()]


def _refuse(error: Rejected) -> Decision:
    return Decision(Verdict.REFUSE, Reason(error.reason), str(error))
