"""Computes what a manifest would get before it is applied, by the rules that the functions use."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cli.printing import count, print_columns, print_line, styled
from shared.core import labels
from shared.core.decide.demands import decide_planned_demand, refuse_rejected
from shared.core.decide.limits import Usage
from shared.core.decide.provision import decide_provision
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.errors import LabelBudgetExceeded, Rejected
from shared.core.kinds.table import list_slices
from shared.core.nodepool import build_labels, build_node_pool, describe_placement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from cli.manifests import Manifest
    from shared.core.demand.demand import Demand
    from shared.core.kinds.kind import SliceOfPod
    from shared.core.settings import Settings
    from shared.core.shapes.shape import Shape
    from shared.core.workloads import WorkloadView

PLANNED_UID = "00000000-0000-0000-0000-000000000000"
"""Kubernetes gives the UID when the workload is applied; names of pools hash it, so they are not
known before."""
QUIET = frozenset({Reason.NOT_AN_ACCELERATOR_DEMAND})
"""A plan does not show Jobs that need no accelerator."""


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
    notes: tuple[str, ...] = ()

    @property
    def creates(self) -> bool:
        """Return whether the slice would get a pool."""
        return self.decision.verdict == Verdict.CREATE

    @property
    def node_pool(self) -> dict[str, Any] | None:
        """Return the pool as it would be sent; None if there is none."""
        if self.demand is None or not self.creates:
            return None
        return build_node_pool(self.demand, attempt=0, created_at=0, settings=self.settings)

    @property
    def placement(self) -> str:
        """Return the placement in words; empty without a demand."""
        return describe_placement(self.demand, self.settings) if self.demand else ""

    @property
    def refused(self) -> bool:
        """Return whether the slice would be refused."""
        return self.decision.verdict == Verdict.REFUSE

    def as_data(self) -> dict[str, Any]:
        """Return it for programs: the pool as it would be sent, without name, claim and time."""
        demand = self.demand
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
            "placement": self.placement or None,
            "notes": list(self.notes),
            "node_pool": self.node_pool,
        }


def plan(manifests: Sequence[Manifest], cluster: str, settings: Settings) -> list[PlannedSlice]:
    """Return every slice of some workloads, in their order. Limits count the slices before it.

    Args:
        manifests: from `cli.manifests`.
        cluster: ``projects/P/locations/L/clusters/C``, one of the settings.
        settings: the operator's.
    """
    planned: list[PlannedSlice] = []
    made = _Made()
    for manifest in manifests:
        workload = dataclasses.replace(manifest.workload, uid=PLANNED_UID)
        notes = (*manifest.notes, *_read_notes(workload))
        awake = dataclasses.replace(workload, suspended=False)
        try:
            wanted = list_slices(awake)
        except Rejected as error:
            planned.append(_refuse(awake, error, settings))
            continue
        for each in wanted:
            found = _plan_slice(each, awake, cluster, settings, made)
            if found.decision.reason not in QUIET:
                planned.append(dataclasses.replace(found, notes=(*notes, *_list_candidates(found))))
    return planned


@dataclass(slots=True)
class _Made:
    """What the plan makes so far; limits count it."""

    chips: Counter[str] = field(default_factory=Counter)
    """By namespace."""
    all_chips: int = 0
    slices: int = 0

    def measure(self, namespace: str) -> Usage:
        """Return the usage that one more pool of a namespace is added to."""
        return Usage(chips=self.all_chips, chips_in_namespace=self.chips[namespace], slices=self.slices)

    def add(self, namespace: str, chips: int) -> None:
        """Count a pool."""
        self.chips[namespace] += chips
        self.all_chips += chips
        self.slices += 1


def _refuse(workload: WorkloadView, error: Rejected, settings: Settings) -> PlannedSlice:
    """Return one refusal for all slices of a workload whose slices are unknown."""
    return PlannedSlice(
        kind=workload.kind,
        namespace=workload.namespace,
        workload=workload.name,
        group="",
        slice=workload.name,
        decision=refuse_rejected(error),
        settings=settings,
    )


def _plan_slice(
    each: SliceOfPod, workload: WorkloadView, cluster: str, settings: Settings, made: _Made
) -> PlannedSlice:
    found = decide_planned_demand(cluster, workload, each, settings)
    demand = None if isinstance(found, Decision) else found
    decision = found if isinstance(found, Decision) else _decide_pool(found, settings, made)
    return PlannedSlice(
        kind=workload.kind,
        namespace=workload.namespace,
        workload=workload.name,
        group=each.group.name,
        slice=each.name,
        decision=decision,
        demand=demand,
        settings=settings,
    )


def _decide_pool(demand: Demand, settings: Settings, made: _Made) -> Decision:
    """Return the decision for a demand that has no pool; count the pool if it is created."""
    namespace = demand.claim.namespace
    usage = made.measure(namespace) if settings.limited else None
    decision = decide_provision(demand, None, now=0.0, settings=settings, usage=usage)
    if decision.verdict != Verdict.CREATE:
        return decision
    try:
        build_labels(demand, attempt=0, created_at=0, cluster_uid="")
    except LabelBudgetExceeded as error:
        return refuse_rejected(error)
    made.add(namespace, demand.shape.chips)
    return decision


def _read_notes(workload: WorkloadView) -> tuple[str, ...]:
    notes = []
    if workload.suspended:
        notes.append("it starts suspended (a queue admits it); its pools are created when it is resumed")
    if workload.managed_elsewhere:
        notes.append("spec.managedBy names another controller; nothing is created in this cluster")
    return tuple(notes)


def _list_candidates(planned: PlannedSlice) -> tuple[str, ...]:
    candidates = planned.demand.candidates if planned.demand else ()
    listed = "; ".join(f"{number} {each}" for number, each in enumerate(candidates, start=1))
    return (f"candidates, tried in this order: {listed}",) if len(candidates) > 1 else ()


def find_zone(manifests: Sequence[Manifest]) -> str:
    """Return the first zone that some workload selects; empty when none does."""
    for manifest in manifests:
        for group in manifest.workload.groups:
            zone = group.template.node_selector.get(labels.ZONE)
            if zone:
                return zone
    return ""


@dataclass(slots=True)
class _Group:
    """Equal slices of one group: one line of the table."""

    first: PlannedSlice
    count: int = 1


def _group(planned: Sequence[PlannedSlice]) -> list[_Group]:
    groups: list[_Group] = []
    for each in planned:
        if groups and _identity(groups[-1].first) == _identity(each):
            groups[-1].count += 1
        else:
            groups.append(_Group(each))
    return groups


def _identity(each: PlannedSlice) -> tuple[str, ...]:
    shape = each.demand.shape if each.demand else None
    decision = each.decision
    return (each.kind, each.namespace, each.workload, each.group, decision.verdict, decision.reason, str(shape))


def print_plan(console: Console, planned: Sequence[PlannedSlice], others: Sequence[str]) -> None:
    """Print a plan for people: one line for each kind of slice, all refusals, and the sum."""
    groups = _group(planned)
    headings = ["JOB", "POOLS", "NODES", "MACHINE", "TOPOLOGY", "TIER", "ZONE", "DECISION"]
    if groups:
        print_columns(console, headings, [_cells(group) for group in groups])
        print_line(console)
    for group in groups:
        each = group.first
        if each.decision.verdict != Verdict.CREATE:
            look = "bad" if each.refused else "warn"
            where = f"{each.namespace}/{each.slice}"
            print_line(console, styled(f"{where}: {each.decision.message} [{each.decision.reason}]", look))
    for name, note in dict.fromkeys(
        (f"{each.namespace}/{each.workload}", note) for each in planned for note in each.notes
    ):
        print_line(console, f"{name}: {note}")
    if others:
        print_line(console, f"not planned: {', '.join(others)}")
    print_line(console, summarize(planned))


def summarize(planned: Sequence[PlannedSlice]) -> str:
    """Return one sentence: how many pools, nodes and chips, and how many slices get none."""
    made = [each for each in planned if each.demand and each.decision.verdict == Verdict.CREATE]
    shapes = [each.demand.shape for each in made if each.demand]
    nodes, chips = sum(shape.node_count for shape in shapes), sum(shape.chips for shape in shapes)
    refused = sum(each.refused for each in planned)
    left = len(planned) - len(made) - refused
    tail = f"; {refused} refused" * bool(refused) + f"; {left} not for this provisioner" * bool(left)
    if not planned:
        return "no workload needs accelerators"
    return f"{count(len(made), 'pool')} with {count(nodes, 'node')} and {count(chips, 'chip')}{tail}"


def _name_topology(shape: Shape) -> str:
    return f"{shape.chips_per_host} {shape.accelerator}" if shape.gpus else shape.topology


def _cells(group: _Group) -> list[Any]:
    each, demand = group.first, group.first.demand
    creates = each.decision.verdict == Verdict.CREATE
    shown = [
        "/".join(part for part in (each.namespace, each.workload, each.group) if part),
        str(group.count if creates else 0),
        str(demand.shape.node_count) if demand else "-",
        demand.shape.machine_type if demand else "-",
        _name_topology(demand.shape) if demand else "-",
        str(demand.capacity.tier) if demand else "-",
        demand.zone if demand else "-",
    ]
    look = "ok" if creates else "bad" if each.refused else "warn"
    said = str(each.decision.verdict) if creates else f"{each.decision.verdict}: {each.decision.reason}"
    return [*shown, styled(said, look)]
