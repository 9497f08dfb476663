"""What the volume claims of pods mean for their node pool: a zone, or that no node helps now. Pure.

A volume of one zone pins the pods to that zone, as a selector does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.model.decisions import Reason
from shared.model.needs import Obstacle
from shared.needs.capacity import CapacityConflict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.model.workloads import Disk, PodTemplate, WorkloadView


def list_volume_claims(workload: WorkloadView) -> tuple[str, ...]:
    """Return the claims that the pods with accelerators of a workload's spec name, each once."""
    asking = [group.template for group in workload.groups if group.template.wants_accelerator]
    return tuple(dict.fromkeys(claim for template in asking for claim in template.volume_claims))


def list_disks(template: PodTemplate, workload: WorkloadView) -> tuple[Disk, ...]:
    """Return the volumes of a template's claims that fix a zone, as far as they were read."""
    return tuple(
        disk for disk in workload.disks if disk.zones and disk.claim in template.volume_claims
    )


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
