"""Reads the candidates of a demand: the ways to get its capacity, the best first.

The pods' annotation lists them, else the operator's policy. What the pods select stays as it is:
a candidate of the annotation that the pods could not run on is refused, and one of the operator's
policy is left out, because a policy is for many workloads. A volume of one zone pins the pods to
that zone, as a selector does, and a claim that is not bound can mean that no node helps now.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared.model import labels
from shared.model.decisions import Reason
from shared.model.errors import CapacityConflict, Rejected, UnsupportedSelector, ZoneMissing
from shared.model.needs import Obstacle, Tier
from shared.model.workloads import SPOT_TAINT
from shared.needs.capacity import (
    Capacity,
    check_flex_start,
    check_names,
    check_reservation,
    find_tier,
    read_capacity,
)
from shared.needs.selectors import check_nodes, list_known_labels
from shared.settings import is_allowed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from shared.model.priorities import NodeSource, Priority, ReservationRef
    from shared.model.workloads import Disk, PodTemplate, WorkloadView
    from shared.settings import Settings
    from shared.shapes.shape import Shape

CANDIDATES_MAX = 16
"""A round of them takes hours when each one needs 35 minutes to fail."""
_ZONE = re.compile(r"[a-z]+-[a-z]+[0-9]+-[a-z0-9]+")
_FIELD = f"annotation {labels.CAPACITY}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to get the capacity of a slice."""

    capacity: Capacity
    zone: str
    nodes_from: NodeSource | None = field(default=None, compare=False)
    """As the list or the operator says; no other way to get the capacity."""

    def __str__(self) -> str:
        path = self.capacity.reservation_path
        return f"{self.capacity.tier}{' ' * bool(path)}{path} in {self.zone}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What decides which candidates pods can run on."""

    template: PodTemplate
    shape: Shape
    node_labels: Mapping[str, str]
    """That their pool gets."""
    flex_wait: int
    """How long a flex-start pool waits for its first node; 0: without end."""
    cluster: str
    disks: Sequence[Disk]
    settings: Settings

    def list_labels(self, capacity: Capacity, zone: str) -> dict[str, str]:
        """Return what is known of the labels of the nodes that a candidate gives."""
        return list_known_labels(self.shape, capacity, zone, self.settings) | dict(self.node_labels)


def read_candidates(wish: Wish, workload: WorkloadView) -> tuple[Candidate, ...]:
    """Return the candidates of pods, at least one, and at most `CANDIDATES_MAX`.

    Those in whose zone the pods cannot use their disks are left out: the author of an annotation
    does not know where the disks are made that the pods create.
    """
    if wish.settings.force_on_demand:
        return (_read_only(wish),)
    if labels.CAPACITY in wish.template.annotations:
        return _read_annotation(wish)
    listed = _find_policy(wish, workload)
    fitting = (each for each in listed if reaches(each.zone, wish.disks))
    return tuple(each for each in fitting if not _find_misfit(each, wish)) or (_read_only(wish),)


def _read_annotation(wish: Wish) -> tuple[Candidate, ...]:
    template = wish.template
    if template.unreadable_priorities:
        raise CapacityConflict(template.unreadable_priorities, field=_FIELD)
    listed = _check_listed(_expand(template.priorities, wish), wish)
    reached = tuple(each for each in listed if reaches(each.zone, wish.disks))
    if not reached:
        check_zone(listed[0].zone, wish.disks, field=f"{_FIELD}: candidate 1, {listed[0]}")
    return reached


def _find_policy(wish: Wish, workload: WorkloadView) -> Iterator[Candidate]:
    """Yield the candidates of the operator's first policy for these pods."""
    template = wish.template
    key = labels.GPU_ACCELERATOR if template.gpus else labels.ACCELERATOR
    accelerator = template.find_selector(key) or ""
    for policy in wish.settings.capacity_policies:
        if is_allowed(workload.namespace, policy.namespaces) and is_allowed(
            accelerator, policy.accelerators
        ):
            yield from _expand(policy.priorities, wish)
            return


def _read_only(wish: Wish) -> Candidate:
    """Return the one way of pods for which nothing lists any."""
    capacity = read_capacity(wish.template, wish.shape, wish.cluster, wish.settings)
    zone = read_zone(wish.template, wish.cluster, wish.settings, wish.disks)
    check_nodes(wish.template, wish.list_labels(capacity, zone))
    return Candidate(capacity, zone, wish.settings.nodes_from.get(capacity.tier))


def _check_listed(listed: Iterator[Candidate], wish: Wish) -> tuple[Candidate, ...]:
    """Return the candidates of an annotation, after which none is refused."""
    checked: list[Candidate] = []
    for candidate in listed:
        number = len(checked) + 1
        if number > CANDIDATES_MAX:
            raise CapacityConflict(
                "more candidates than are tried; each zone and each reservation of an item is one",
                field=_FIELD,
                valid=f"at most {CANDIDATES_MAX}",
            )
        check_reservation(candidate.capacity, wish.cluster, wish.settings)
        misfit = _find_misfit(candidate, wish) or _find_needless(candidate, checked, wish.flex_wait)
        if misfit is not None:
            raise CapacityConflict(f"candidate {number}, {candidate}: {misfit}", field=_FIELD)
        checked.append(candidate)
    return tuple(checked)


def _find_needless(
    candidate: Candidate, earlier: list[Candidate], flex_wait: int
) -> Rejected | None:
    """Return why a candidate would never be tried; None if it may be."""
    if candidate in earlier:
        number = earlier.index(candidate) + 1
        return CapacityConflict(f"the same as candidate {number}", valid="each candidate once")
    if earlier and earlier[-1].capacity.tier == Tier.FLEX_START and not flex_wait:
        return CapacityConflict(
            f"candidate {len(earlier)} is flex-start, which waits without end, so this one is "
            "never tried",
            valid=f"flex-start as the last candidate, or the annotation {labels.FLEX_START_WAIT}",
        )
    return None


def _expand(priorities: Sequence[Priority], wish: Wish) -> Iterator[Candidate]:
    """Yield the candidates of a list: one for each reservation and zone of an item."""
    for item in priorities:
        for zone in item.zones or (
            read_zone(wish.template, wish.cluster, wish.settings, wish.disks),
        ):
            for reservation in item.reservations or (None,):
                capacity = _read_tier(item, reservation, wish.cluster, wish.settings)
                source = item.nodes_from or wish.settings.nodes_from.get(capacity.tier)
                yield Candidate(capacity, zone, source)


def _read_tier(
    item: Priority, reservation: ReservationRef | None, cluster: str, settings: Settings
) -> Capacity:
    if reservation is not None:
        own = cluster.split("/")[1]
        return Capacity(
            tier=Tier.RESERVATION,
            reservation=reservation.name,
            reservation_project="" if reservation.project == own else reservation.project,
            reservation_block=reservation.block,
            reservation_subblock=reservation.subblock,
        )
    if item.flex_start:
        seconds = item.max_run_duration_seconds
        longest = settings.max_run_duration_seconds if seconds is None else seconds
        return Capacity(tier=Tier.FLEX_START, max_run_duration_seconds=longest)
    return Capacity(tier=Tier.SPOT if item.spot else Tier.ON_DEMAND)


def _find_misfit(candidate: Candidate, wish: Wish) -> Rejected | None:
    """Return why the pods could not run on a candidate; None if they can."""
    capacity, zone, template = candidate.capacity, candidate.zone, wish.template
    region = find_region(wish.cluster)
    try:
        if not _ZONE.fullmatch(zone) or not zone.startswith(f"{region}-"):
            raise CapacityConflict(
                "not a zone of the cluster's region", value=zone, valid=f"a zone of {region}"
            )
        check_nodes(template, wish.list_labels(capacity, zone))
        if capacity.tier == Tier.RESERVATION:
            check_names(capacity)
        elif capacity.tier == Tier.FLEX_START:
            check_flex_start(capacity.max_run_duration_seconds, wish.shape)
        elif capacity.tier == Tier.SPOT:
            _check_spot(template)
    except Rejected as error:
        return error
    return None


def _check_spot(template: PodTemplate) -> None:
    """Accept pods for spot nodes; GKE adds the toleration to pods that select them."""
    if find_tier(template) != Tier.SPOT and not template.tolerates(SPOT_TAINT):
        raise CapacityConflict(
            "the pods do not tolerate the taint of spot nodes",
            value=str(SPOT_TAINT),
            valid=f"a toleration of {labels.SPOT}, or no spot candidate",
        )


def list_volume_claims(workload: WorkloadView) -> tuple[str, ...]:
    """Return the claims that the pods with accelerators of a workload's spec name, each once."""
    asking = [group.template for group in workload.groups if group.template.wants_accelerator]
    return tuple(dict.fromkeys(claim for template in asking for claim in template.volume_claims))


def find_unbound(template: PodTemplate, workload: WorkloadView) -> Obstacle | None:
    """Return the claim because of which no node can help the pods now; None without one."""
    for disk in workload.disks:
        if disk.unbound and disk.claim in template.volume_claims:
            text = f"PersistentVolumeClaim {workload.namespace}/{disk.claim} {disk.unbound}"
            return Obstacle(Reason.CLAIM_UNBOUND, text)
    return None


def reaches(zone: str, disks: Iterable[Disk]) -> bool:
    """Return whether pods in a zone can use all of some disks."""
    return all(zone in disk.zones for disk in disks)


def check_zone(zone: str, disks: Iterable[Disk], *, field: str = "") -> None:
    """Accept a zone in which pods can use all of some disks."""
    for disk in disks:
        if zone not in disk.zones:
            zones = " or ".join(disk.zones)
            raise CapacityConflict(str(disk), field=field, value=zone, valid=zones)


def choose_zone(zone: str, disks: Sequence[Disk]) -> str:
    """Return a zone in which pods can use all of some disks: the one named, if it will do."""
    first, *others = disks
    common = [each for each in (zone, *first.zones) if reaches(each, disks)]
    if common:
        return common[0]
    apart = (each for each in others if not set(each.zones) & set(first.zones))
    other = next(apart, others[-1])
    raise CapacityConflict(
        f"the pods can use all of their disks in no zone: {first}, and {other}",
        field=f"PersistentVolumeClaim {other.claim}",
        valid="disks with a zone in common",
    )


def read_zone(
    template: PodTemplate, cluster: str, settings: Settings, disks: Sequence[Disk] = ()
) -> str:
    """Return the zone of the pool: of the pod, else of its disks, the setting, a zonal cluster."""
    location, region = cluster.split("/")[3], find_region(cluster)
    usual = settings.clusters[cluster].zone or (location if _ZONE.fullmatch(location) else "")
    chosen = _select_zone(template)
    if chosen:
        check_zone(chosen, disks, field=f"spec.nodeSelector {labels.ZONE}")
    elif disks:
        chosen = choose_zone(usual, disks)
    if chosen and not chosen.startswith(f"{region}-"):
        raise UnsupportedSelector(
            "not a zone of the cluster's region",
            field=labels.ZONE,
            value=chosen,
            valid=f"a zone of {region}",
        )
    if not (chosen or usual):
        raise ZoneMissing(
            "no zone is set for the node pool",
            field=f"spec.nodeSelector {labels.ZONE}",
            valid=f"a zone of {location} in this selector, or in the setting "
            f"clusters.{cluster}.zone",
        )
    return chosen or usual


def _select_zone(template: PodTemplate) -> str:
    """Return the zone that a pod selects for itself or for its reservation; empty for none."""
    own, reserved = map(template.find_selector, (labels.ZONE, labels.RESERVATION_ZONE))
    if own and reserved not in (None, own):
        raise UnsupportedSelector(
            "not the zone of the selected reservation", field=labels.ZONE, value=own, valid=reserved
        )
    return own or reserved or ""


def find_region(cluster: str) -> str:
    """Return the region of a cluster."""
    return "-".join(cluster.split("/")[3].split("-")[:2])
