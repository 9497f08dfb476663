"""Finds whether one pod uses a whole slice, for kinds whose pods may each have their own host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.model.errors import Rejected
from shared.shapes.tpus import TOPOLOGY_FORM, count_chips

if TYPE_CHECKING:
    from shared.model.workloads import PodTemplate


def is_one_host(template: PodTemplate) -> bool:
    """Return whether one pod uses the whole slice; no topology means a single host in GKE."""
    try:
        topology = template.topology
    except Rejected:  # an ambiguous selector is refused later, when the demand is read
        return False
    if not template.chips:
        return False
    if topology is None:
        return True
    return TOPOLOGY_FORM.fullmatch(topology) is not None and count_chips(topology) == template.chips
