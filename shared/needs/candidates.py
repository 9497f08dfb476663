"""Reads the candidates of a demand: the ways to get its capacity, the best first.

The pods' annotation lists them, else the operator's policy. What the pods select stays as it is:
a candidate of the annotation that the pods could not run on is refused, and one of the operator's
policy is left out, because a policy is for many workloads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from shared.model import labels
from shared.model.errors import Rejected
from shared.model.priorities import NodeSource
from shared.model.workloads import SPOT_TAINT
from shared.needs.capacity import (
    Capacity,
    CapacityConflict,
    Tier,
    check_flex_start,
    check_names,
    check_reservation,
    find_tier,
    read_capacity,
)
from shared.needs.disks import check_zone, list_disks, list_older, reaches
from shared.needs.node_selectors import ZONE, check_nodes, find_region, read_zone
from shared.settings import is_allowed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from shared.model.priorities import Priority, ReservationRef
    from shared.model.workloads import Disk, PodTemplate, WorkloadView
    from shared.settings import Settings
    from shared.shapes.shape import Shape

CANDIDATES_MAX = 16
"""A round of them takes hours when each one needs 35 minutes to fail."""
_FIELD = f"annotation {labels.CAPACITY}"
_DIGEST_CHARACTERS = 8


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to get the capacity of a slice."""

    capacity: Capacity
    zone: str
    nodes_from: NodeSource | None = field(default=None, compare=False)
    """As the list says, and for a demand as it is; no other way to get the capacity."""

    def __str__(self) -> str:
        path = self.capacity.reservation_path
        return f"{self.capacity.tier}{' ' * bool(path)}{path} in {self.zone}"

    @property
    def hash(self) -> str:
        """Return 40 bits over its fields, which tell it from the others of a list."""
        capacity = self.capacity
        fields = (
            capacity.tier,
            capacity.reservation_path,
            str(capacity.max_run_duration_seconds),
            self.zone,
        )
        return labels.hash_text("\n".join(fields), _DIGEST_CHARACTERS)


def read_candidates(
    template: PodTemplate,
    shape: Shape,
    cluster: str,
    workload: WorkloadView,
    settings: Settings,
    *,
    flex_wait: int,
    own: Mapping[str, str],
) -> tuple[Candidate, ...]:
    """Return the candidates of a slice, at most `CANDIDATES_MAX`; empty if nothing lists any.

    Those of an annotation that the workload's own disks have ruled out since are left out. With
    `flex_wait` 0 a flex-start pool waits for its first node without end. `own` is as for
    `check_nodes`.

    Raises:
        CapacityConflict: the annotation is no list, or the pods could not run on one of its items.
        NotAllowed: an item names a reservation of another project that the settings do not list.
    """
    if settings.force_on_demand:
        return ()
    disks = list_disks(template, workload)
    find = partial(
        _find_misfit, template=template, shape=shape, cluster=cluster, own=own, settings=settings
    )
    if labels.CAPACITY in template.annotations:
        if template.unreadable_priorities:
            raise CapacityConflict(template.unreadable_priorities, field=_FIELD)
        older = list_older(disks, workload)
        listed = _expand(template.priorities, template, cluster, settings, older)
        found = _check_listed(
            listed, partial(find, disks=older), cluster, settings, flex_wait=flex_wait
        )
        return _leave_out(found, disks)
    accelerator = (
        template.find_selector(labels.GPU_ACCELERATOR if template.gpus else labels.ACCELERATOR)
        or ""
    )
    for policy in settings.capacity_policies:
        if is_allowed(workload.namespace, policy.namespaces) and is_allowed(
            accelerator, policy.accelerators
        ):
            listed = _expand(policy.priorities, template, cluster, settings, disks)
            return tuple(each for each in listed if find(each, disks=disks) is None)
    return ()


def find_node_source(
    candidate: Candidate,
    template: PodTemplate,
    shape: Shape,
    settings: Settings,
    *,
    ways: int,
    elastic: bool,
) -> NodeSource:
    """Return what makes the nodes of a candidate's pool.

    Where there is another way to go, a stockout must be known soon, so the autoscaler makes the
    nodes of spot and on-demand pools. A reservation answers within a minute. The autoscaler gives a
    TPU slice all hosts or none:
    https://cloud.google.com/kubernetes-engine/docs/concepts/tpus#node_pool. It would give some
    hosts to a slice of GPUs, whose pool would then neither serve nor be free. It moves no pod that
    uses all accelerators of its host, but it moves others (docs/evidence/autoscaler.md).
    """
    tier = candidate.capacity.tier
    if tier == Tier.FLEX_START:
        return NodeSource.AUTOSCALER
    fills_hosts = template.units >= shape.chips_per_host
    if elastic or not fills_hosts or (shape.gpus and shape.node_count > 1):
        return NodeSource.CREATION
    fast = ways > 1 and tier in (Tier.SPOT, Tier.ON_DEMAND)
    default = NodeSource.AUTOSCALER if fast else NodeSource.CREATION
    return candidate.nodes_from or settings.nodes_from.get(tier, default)


def _leave_out(found: tuple[Candidate, ...], disks: Sequence[Disk]) -> tuple[Candidate, ...]:
    """Return the candidates in whose zones the pods can use all of their disks.

    Raises:
        CapacityConflict: there is none.
    """
    left = tuple(each for each in found if reaches(each.zone, disks))
    if found and not left:
        check_zone(found[0].zone, disks, field=f"{_FIELD}: candidate 1, {found[0]}")
    return left


def _check_listed(
    listed: Iterable[Candidate],
    find: Callable[[Candidate], Rejected | None],
    cluster: str,
    settings: Settings,
    *,
    flex_wait: int,
) -> tuple[Candidate, ...]:
    found: list[Candidate] = []
    for candidate in listed:
        number = len(found) + 1
        if number > CANDIDATES_MAX:
            raise CapacityConflict(
                "more candidates than are tried; each zone and each reservation of an item is one",
                field=_FIELD,
                valid=f"at most {CANDIDATES_MAX}",
            )
        check_reservation(candidate.capacity, cluster, settings)
        misfit = find(candidate)
        if misfit is None and candidate in found:
            earlier = found.index(candidate) + 1
            misfit = CapacityConflict(
                f"the same as candidate {earlier}", valid="each candidate once"
            )
        endless = bool(found) and found[-1].capacity.tier == Tier.FLEX_START and not flex_wait
        if misfit is None and endless:
            misfit = CapacityConflict(
                f"candidate {number - 1} is flex-start, which waits without end, so this one is never tried",
                valid=f"flex-start as the last candidate, or the annotation {labels.FLEX_START_WAIT}",
            )
        if misfit is not None:
            raise type(misfit)(f"candidate {number}, {candidate}: {misfit}", field=_FIELD)
        found.append(candidate)
    return tuple(found)


def _expand(
    priorities: Sequence[Priority],
    template: PodTemplate,
    cluster: str,
    settings: Settings,
    disks: Sequence[Disk],
) -> Iterator[Candidate]:
    """Yield the candidates of a list: one for each reservation and zone of an item."""
    for each in priorities:
        for zone in each.zones or (read_zone(template, cluster, settings, disks),):
            for reservation in each.reservations or (None,):
                yield Candidate(
                    _read_tier(each, reservation, cluster, settings), zone, each.nodes_from
                )


def _read_tier(
    item: Priority, found: ReservationRef | None, cluster: str, settings: Settings
) -> Capacity:
    if found is not None:
        own = cluster.split("/")[1]
        return Capacity(
            tier=Tier.RESERVATION,
            reservation=found.name,
            reservation_project="" if found.project == own else found.project,
            reservation_block=found.block,
            reservation_subblock=found.subblock,
        )
    if item.flex_start:
        seconds = item.max_run_duration_seconds
        longest = settings.max_run_duration_seconds if seconds is None else seconds
        return Capacity(tier=Tier.FLEX_START, max_run_duration_seconds=longest)
    return Capacity(tier=Tier.SPOT if item.spot else Tier.ON_DEMAND)


def _find_misfit(
    candidate: Candidate,
    template: PodTemplate,
    shape: Shape,
    cluster: str,
    own: Mapping[str, str],
    settings: Settings,
    disks: Sequence[Disk],
) -> Rejected | None:
    """Return why the pods could not run on a candidate, or may not have it; None if they can."""
    try:
        _check_zone(candidate.zone, template, cluster)
        check_zone(candidate.zone, disks)
        _check_tier(candidate.capacity, template, shape, cluster, settings)
        check_nodes(template, shape, candidate.capacity, candidate.zone, own, settings)
    except Rejected as error:
        return error
    return None


def _check_zone(zone: str, template: PodTemplate, cluster: str) -> None:
    region = find_region(cluster)
    if not ZONE.fullmatch(zone) or not zone.startswith(f"{region}-"):
        raise CapacityConflict(
            "not a zone of the cluster's region", value=zone, valid=f"a zone of {region}"
        )
    for key in (labels.ZONE, labels.RESERVATION_ZONE):
        selected = template.list_values(key)
        if selected and zone not in selected:
            raise CapacityConflict(
                "the pods select another zone", value=zone, valid=" or ".join(selected)
            )


def _check_tier(
    capacity: Capacity, template: PodTemplate, shape: Shape, cluster: str, settings: Settings
) -> None:
    pinned = find_tier(template)
    if pinned is not None and pinned != capacity.tier:
        raise CapacityConflict(
            "the pods select another tier", value=str(capacity.tier), valid=str(pinned)
        )
    if capacity.tier == Tier.RESERVATION:
        check_names(capacity)
        if pinned is not None and read_capacity(template, shape, cluster, settings) != capacity:
            raise CapacityConflict(
                "the pods select another reservation",
                value=capacity.reservation_path,
                valid="the selected one, or no selector of a reservation",
            )
    if capacity.tier == Tier.FLEX_START:
        check_flex_start(capacity.max_run_duration_seconds, shape)
    # GKE adds the toleration to pods that select spot nodes.
    if capacity.tier == Tier.SPOT and pinned is None and not template.tolerates(SPOT_TAINT):
        raise CapacityConflict(
            "the pods do not tolerate the taint of spot nodes",
            value=str(SPOT_TAINT),
            valid=f"a toleration of {labels.SPOT}, or no spot candidate",
        )
