"""Finds the size of the boot disk, which holds the ephemeral storage of the pods of a node."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from shared.model.errors import NotAllowed
from shared.shapes.room import DISK_GB_DEFAULT, GIB, find_disk_size, measure_storage

if TYPE_CHECKING:
    from shared.kinds.kind import SliceOfPod
    from shared.model.workloads import PodTemplate
    from shared.settings import Settings
    from shared.shapes.shape import Shape


def find_disk(found: SliceOfPod, template: PodTemplate, shape: Shape, settings: Settings) -> int:
    """Return the size in GB with which the pods of a node fit; 0: GKE's default.

    Raises:
        NotAllowed: they need a larger disk than the settings allow. With local SSDs they may fit
            nevertheless, so that this is no error then.
    """
    asked = max(template.storage_bytes, found.group.template.storage_bytes)
    if not asked:
        return settings.node_disk_size_gb
    usual, most = settings.node_disk_size_gb or DISK_GB_DEFAULT, settings.room.disk_gb
    size = find_disk_size(asked * shape.pods_per_node, usual)
    if size <= usual or (size > most and shape.local_disks):
        return settings.node_disk_size_gb
    if size > most:
        raise NotAllowed(
            f"a boot disk of {size} GB would be needed, and the setting node_disk_size_gb_max allows {most}",
            field="resources.requests.ephemeral-storage",
            value=f"{math.ceil(asked / GIB)}Gi",
            valid=f"at most {measure_storage(most) // GIB}Gi for each {shape.machine_type}; a volume holds more",
        )
    return size
