"""Computes what a manifest would get before it is applied, by the rules that the functions use."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shared.core.decide.limits import Usage
from shared.core.decide.provision import decide_provision

from cli.access.cli_settings import ANY_REGION, ANY_ZONE, ZONE
from cli.planning.live_facts import Disks, Namespaces
from cli.planning.pool_details import describe_disk, find_mixed, list_labels, list_pool_needs, list_taints
from cli.planning.zones import tell_unlisted
from cli.prices import HOURS_PER_MONTH, find_price
from cli.printing import count
from shared.kinds.table import SLICES_MAX, list_slices
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import LabelBudgetExceeded, Rejected
from shared.model.priorities import NodeSource
from shared.needs.demand import claim_slice
from shared.needs.demands import decide_namespace, decide_planned_demand, refuse_rejected
from shared.needs.node_pool_body import build_labels, build_node_pool, describe_placement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cli.planning.manifests import Manifest, Place
    from shared.kinds.kind import SliceOfPod
    from shared.model.workloads import WorkloadView
    from shared.needs.demand import Demand
    from shared.settings import Settings

PLANNED_UID = "00000000-0000-0000-0000-000000000000"
"""Kubernetes gives the UID when the workload is applied; names of pools hash it, so they are not
known before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSlice:
    """One slice and what would become of it."""

    kind: str
    namespace: str
    workload: str
    group: str
    slice: str
    decision: Decision
    demand: Demand | None = None
    settings: Settings
    where: Place | None = None
    later: int = 0
    """More slices like this one that an autoscaler may ask for; there is none of them now."""
    needs: tuple[str, ...] = ()
    """What must be there besides the pool."""
    notes: tuple[str, ...] = ()

    @property
    def creates(self) -> bool:
        """Return whether the slice would get a pool."""
        return self.decision.verdict == Verdict.CREATE

    @property
    def price(self) -> float | None:
        """Return the list price of the pool in US dollars an hour; None if it is unknown."""
        return find_price(self.demand) if self.demand else None

    @property
    def node_pool(self) -> dict[str, Any] | None:
        """Return the pool as it would be sent; None if there is none."""
        if self.demand is None or not self.creates:
            return None
        return build_node_pool(self.demand, attempt=0, created_at=0, settings=self.settings)

    @property
    def refused(self) -> bool:
        """Return whether the slice would be refused."""
        return self.decision.verdict == Verdict.REFUSE

    def as_data(self, *, prices: bool = True) -> dict[str, Any]:
        """Return it for programs: the pool as it would be sent, without name, claim and time."""
        demand, pool, price = self.demand, self.node_pool, self.price if prices else None
        return {
            "namespace": self.namespace,
            "workload": self.workload,
            "kind": self.kind,
            "group": self.group,
            "slice": self.slice,
            "decision": str(self.decision.verdict),
            "reason": str(self.decision.reason),
            "message": self.decision.message,
            "machine_type": demand.shape.machine_type if demand else None,
            "topology": demand.shape.topology if demand else None,
            "node_count": demand.shape.node_count if demand else None,
            "chips": demand.shape.chips if demand else None,
            "tier": str(demand.capacity.tier) if demand else None,
            "zone": demand.zone if demand else None,
            "candidates": [str(each) for each in demand.candidates] if demand else [],
            "placement": describe_placement(demand, self.settings) or None if demand else None,
            "up_to_more": self.later,
            "disk": describe_disk(pool) if pool else None,
            "taints": list_taints(pool) if pool else [],
            "labels": list_labels(pool) if pool else {},
            "needs": list(self.needs),
            "dollars_per_hour": price,
            "dollars_per_month": None if price is None else round(price * HOURS_PER_MONTH, 2),
            "notes": list(self.notes),
            "node_pool": pool,
        }


def plan(
    manifests: Sequence[Manifest],
    cluster: str,
    settings: Settings,
    namespaces: Namespaces | None = None,
    disks: Disks | None = None,
) -> list[PlannedSlice]:
    """Return every slice of some workloads, in their order. Limits count the slices before it.

    Args:
        manifests: from `cli.planning.manifests`.
        cluster: ``projects/P/locations/L/clusters/C``, one of the settings.
        settings: the operator's.
        namespaces: the labels of the cluster's namespaces; None if they are not known.
        disks: the disks of the cluster; None if they are not known.
    """
    planned: list[PlannedSlice] = []
    made, disks = _Made(namespaces or Namespaces()), disks or Disks()
    for manifest in manifests:
        workload = disks.add_to(dataclasses.replace(manifest.workload, uid=PLANNED_UID))
        here, local = _place(workload, cluster, settings)
        awake, read = dataclasses.replace(workload, suspended=False), _read_notes(workload)
        try:
            wanted = list_slices(awake)
            more = _list_growth(awake, wanted)
        except Rejected as error:
            planned.append(_refuse(manifest, refuse_rejected(error), local))
            continue
        notes, needs = (*manifest.notes, *read), _find_needs(wanted, awake, manifest)
        before, alike = len(planned), _Alike(here, awake, local)
        for each, later in [*((each, 0) for each in wanted), *more]:
            found = _plan_slice(each, alike, made, later=later)
            if found.decision.reason != Reason.NOT_AN_ACCELERATOR_DEMAND:
                remarks = (*notes, *_list_idle(found, each), *_list_candidates(found), *_list_unlisted(found))
                own = list_pool_needs(found.demand) if found.demand and found.creates else ()
                place, asked = manifest.where, (*needs, *own)
                planned.append(dataclasses.replace(found, notes=remarks, where=place, needs=asked, later=later))
        planned[before:] = _tell_cut(planned[before:])
    return planned


def _tell_cut(planned: list[PlannedSlice]) -> list[PlannedSlice]:
    """Return the slices of a workload with a note if a limit allows only some of its pools."""
    now = [each for each in planned if not each.later]
    made = sum(each.creates for each in now)
    cut = sum(each.decision.reason == Reason.LIMIT_REACHED for each in now)
    if not (made and cut):
        return planned
    note = f"a limit allows only {made} of its {count(made + cut, 'pool')}"
    return [dataclasses.replace(each, notes=(*each.notes, note)) for each in planned]


def _list_growth(workload: WorkloadView, wanted: Sequence[SliceOfPod]) -> list[tuple[SliceOfPod, int]]:
    """Return one slice of each group that may grow, with the number of slices that may come."""
    grown = [
        dataclasses.replace(each, replicas=max(each.replicas, min(each.grows, SLICES_MAX)))
        for each in workload.groups
    ]
    if tuple(grown) == workload.groups:
        return []
    known = {each.name for each in wanted}
    found: dict[str, tuple[SliceOfPod, int]] = {}
    for each in list_slices(dataclasses.replace(workload, groups=tuple(grown))):
        if each.name not in known:
            first, number = found.get(each.group.name, (each, 0))
            found[each.group.name] = first, number + 1
    return list(found.values())


def _find_needs(wanted: Sequence[SliceOfPod], workload: WorkloadView, manifest: Manifest) -> tuple[str, ...]:
    """Return what must be there for a workload besides its pools."""
    firsts = {each.group.name: each for each in reversed(wanted) if each.group.whole}
    kept_apart = (find_mixed(each, workload) for each in firsts.values())
    return (*manifest.needs, *filter(None, kept_apart))


@dataclass(slots=True)
class _Made:
    """What the plan makes so far; limits count it."""

    namespaces: Namespaces
    chips: Counter[str] = field(default_factory=Counter)
    """By namespace."""
    all_chips: int = 0
    slices: int = 0

    def measure(self, namespace: str) -> Usage:
        """Return the usage that one more pool of a namespace is added to."""
        return Usage(chips=self.all_chips, chips_in_namespace=self.chips[namespace], slices=self.slices)

    def add(self, demand: Demand) -> None:
        """Count a pool."""
        self.chips[demand.claim.namespace] += demand.shape.chips
        self.all_chips += demand.shape.chips
        self.slices += 1


def _refuse(manifest: Manifest, decision: Decision, settings: Settings) -> PlannedSlice:
    """Return one refusal for all slices of a workload."""
    workload = manifest.workload
    return PlannedSlice(
        kind=workload.kind,
        namespace=workload.namespace,
        workload=workload.name,
        group="",
        slice=workload.name,
        decision=decision,
        settings=settings,
        where=manifest.where,
        needs=manifest.needs,
    )


@dataclass(slots=True)
class _Alike:
    """Decides what the slices of one workload need: two of a group show what all of them do.

    They differ only in what their controller makes of their index.
    """

    cluster: str
    workload: WorkloadView
    settings: Settings
    firsts: dict[str, Demand | Decision] = field(default_factory=dict)
    """What the first slice of each group needs."""
    shown: dict[str, bool] = field(default_factory=dict)
    """Whether the second slice of a group needs the same."""

    def find(self, each: SliceOfPod) -> Demand | Decision:
        """Return the demand of a slice, or why it has none."""
        group, first = each.group.name, self.firsts.get(each.group.name)
        if first is not None and self.shown.get(group):
            return self._claim(first, each)
        found = decide_planned_demand(self.cluster, self.workload, each, self.settings)
        if first is None:
            self.firsts[group] = found
        elif group not in self.shown:
            named = [known.name for known in self.workload.groups].count(group)
            self.shown[group] = named == 1 and self._claim(first, each) == found
        return found

    def _claim(self, found: Demand | Decision, each: SliceOfPod) -> Demand | Decision:
        if isinstance(found, Decision):
            return found
        return dataclasses.replace(found, claim=claim_slice(self.cluster, self.workload, each))


def _plan_slice(each: SliceOfPod, alike: _Alike, made: _Made, *, later: int) -> PlannedSlice:
    found, workload = alike.find(each), alike.workload
    demand = None if isinstance(found, Decision) else found
    decision = found if isinstance(found, Decision) else _decide_pool(found, alike.settings, made, later=later)
    return PlannedSlice(
        kind=workload.kind,
        namespace=workload.namespace,
        workload=workload.name,
        group=each.group.name,
        slice=each.name,
        decision=decision,
        demand=demand,
        settings=alike.settings,
    )


def _decide_pool(demand: Demand, settings: Settings, made: _Made, *, later: int) -> Decision:
    """Return the decision for a demand that has no pool; count the pool if it is created now."""
    stopped = decide_namespace(demand, made.namespaces.find_labels(demand.claim.namespace))
    if stopped:
        return stopped
    usage = made.measure(demand.claim.namespace) if settings.limited else None
    decision = decide_provision(demand, None, now=0.0, settings=settings, usage=usage)
    if decision.verdict != Verdict.CREATE:
        return decision
    try:
        build_labels(demand, attempt=0, created_at=0, cluster_uid="")
    except LabelBudgetExceeded as error:
        return refuse_rejected(error)
    if not later:
        made.add(demand)
    return decision


def _read_notes(workload: WorkloadView) -> tuple[str, ...]:
    """Return what to know of a workload."""
    notes = []
    if workload.suspended:
        notes.append("it starts suspended (a queue admits it); its pools are created when it is resumed")
    if workload.managed_elsewhere:
        notes.append("spec.managedBy names another controller; nothing is created in this cluster")
    return tuple(notes)


def _list_idle(planned: PlannedSlice, of_spec: SliceOfPod) -> tuple[str, ...]:
    group, shape = of_spec.group, planned.demand.shape if planned.demand else None
    pods = group.hosts or group.pods
    if shape is None or not pods or not group.template.chips or group.elastic:
        return ()
    idle = max(shape.node_count - pods, 0)
    return (f"{count(idle, 'host')} of each slice of {of_spec.group.name} will have no pod",) if idle else ()


def _list_candidates(planned: PlannedSlice) -> tuple[str, ...]:
    candidates = planned.demand.candidates if planned.demand else ()
    listed = "; ".join(f"{number} {each}" for number, each in enumerate(candidates, start=1))
    filled = [str(at) for at, each in enumerate(candidates, 1) if each.nodes_from == NodeSource.AUTOSCALER]
    by = f"; GKE's autoscaler makes the nodes of {', '.join(filled)}" if filled else ""
    return (f"candidates, tried in this order: {listed}{by}",) if len(candidates) > 1 else ()


def _list_unlisted(planned: PlannedSlice) -> tuple[str, ...]:
    """Return a warning for each zone that is not known to have the machines."""
    if planned.demand is None:
        return ()
    accelerator = planned.demand.shape.accelerator
    zones = dict.fromkeys((planned.demand.zone, *(each.zone for each in planned.demand.candidates)))
    warnings = (tell_unlisted(accelerator, zone) for zone in zones if not zone.endswith(ANY_ZONE))
    return tuple(f"warning: {each}; GKE may refuse the pool" for each in warnings if each)


def _place(workload: WorkloadView, cluster: str, settings: Settings) -> tuple[str, Settings]:
    """Return a cluster and its settings; one in any region moves to where a workload asks to be."""
    zones: list[str] = []
    for each in (group.template for group in workload.groups):
        zones += (*each.list_values(labels.ZONE), *each.list_values(labels.RESERVATION_ZONE))
        zones += (zone for item in each.priorities for zone in item.zones)
        zones += (region + ANY_ZONE for region in each.list_values(labels.REGION))
    region = next((zone.rpartition("-")[0] for zone in zones if ZONE.accepts(zone)), ANY_REGION)
    name, there = cluster.replace(ANY_REGION, region), settings.clusters[cluster]
    moved = dataclasses.replace(there, zone=there.zone.replace(ANY_REGION, region))
    return name, dataclasses.replace(settings, clusters={name: moved})


def summarize(planned: Sequence[PlannedSlice]) -> str:
    """Return one sentence: how many pools, nodes and chips, and how many slices get none."""
    later = sum(each.later for each in planned if each.creates)
    planned = [each for each in planned if not each.later]
    made = [each for each in planned if each.demand and each.creates]
    shapes = [each.demand.shape for each in made if each.demand]
    nodes, chips = sum(shape.node_count for shape in shapes), sum(shape.chips for shape in shapes)
    refused = sum(each.refused for each in planned)
    left = len(planned) - len(made) - refused
    tail = f"; {refused} refused" * bool(refused) + f"; {left} not for this provisioner" * bool(left)
    tail += f"; up to {count(later, 'more pool')} by growth" * bool(later)
    if not (planned or later):
        return "no workload needs accelerators"
    return f"{count(len(made), 'pool')} with {count(nodes, 'node')} and {count(chips, 'chip')}{tail}"
