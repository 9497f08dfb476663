"""Whether one pod takes a whole slice, for the kinds whose pods may stand each on a host of its own."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from shared.core.errors import Rejected

if TYPE_CHECKING:
    from shared.core.workloads import PodTemplate

_TOPOLOGY = re.compile(r"[1-9][0-9]{0,3}(x[1-9][0-9]{0,3}){1,2}")


def is_one_host(template: PodTemplate) -> bool:
    """Return whether one pod takes the whole slice; without a topology GKE means a single host."""
    try:
        topology = template.topology
    except Rejected:  # an ambiguous selector is refused, by name, when the demand is read
        return False
    if not template.chips:
        return False
    if topology is None:
        return True
    sides = topology.split("x") if _TOPOLOGY.fullmatch(topology) else ["0"]
    return math.prod(int(side) for side in sides) == template.chips
