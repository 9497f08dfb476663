"""Checks the zone of a node pool against the disks of its pods' claims. Pure.

A disk of one zone pins the pods to that zone, as a selector does. The author of a list of capacity
knows the selectors of the pods, and the disks that exist. But the author does not know a disk that
the pods create later. Such a disk is in the zone of their first pool, and the list of a running
workload often cannot be changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.needs.capacity import CapacityConflict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.model.workloads import Disk, PodTemplate, WorkloadView


def list_volume_claims(workload: WorkloadView) -> tuple[str, ...]:
    """Return the claims that the pods with accelerators of a workload's spec name, each once."""
    asking = [group.template for group in workload.groups if group.template.wants_accelerator]
    return tuple(dict.fromkeys(claim for template in asking for claim in template.volume_claims))


def list_disks(template: PodTemplate, workload: WorkloadView) -> tuple[Disk, ...]:
    """Return the disks of the claims that a template names, as far as they were read."""
    return tuple(each for each in workload.disks if each.claim in template.volume_claims)


def list_older(disks: Iterable[Disk], workload: WorkloadView) -> tuple[Disk, ...]:
    """Return the disks that were not made after their workload; those of unknown age too."""
    begun = workload.created_at
    return tuple(
        each for each in disks if begun is None or each.made_at is None or each.made_at < begun
    )


def reaches(zone: str, disks: Iterable[Disk]) -> bool:
    """Return whether pods in a zone can use all of some disks."""
    return all(zone in each.zones for each in disks)


def check_zone(zone: str, disks: Iterable[Disk], *, field: str = "") -> None:
    """Accept a zone in which pods can use all of some disks.

    Raises:
        CapacityConflict: one of the disks is elsewhere.
    """
    for disk in disks:
        if zone not in disk.zones:
            raise CapacityConflict(
                str(disk), field=field, value=zone, valid=" or ".join(disk.zones)
            )


def choose_zone(zone: str, disks: Sequence[Disk]) -> str:
    """Return a zone in which pods can use all of some disks, a given one (or none) if it will do.

    Raises:
        CapacityConflict: two of the disks have no zone in common.
    """
    if reaches(zone, disks):
        return zone
    first, *others = disks
    for each in first.zones:
        if reaches(each, others):
            return each
    told = next((each for each in others if not set(each.zones) & set(first.zones)), others[-1])
    raise CapacityConflict(
        f"the pods can use all of their disks in no zone: {first}, and {told}",
        field=f"PersistentVolumeClaim {told.claim}",
        valid="disks with a zone in common",
    )
