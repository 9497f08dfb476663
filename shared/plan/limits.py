"""What a limit counts of a pool, and what the limits and operation slots leave. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.model.pools import FAILED

if TYPE_CHECKING:
    from shared.model.pools import PoolStatus

ELASTIC_NODES_MAX = 1000
"""The most nodes of one node pool: https://cloud.google.com/kubernetes-engine/quotas."""


def count_nodes(status: PoolStatus, maximum: int, present: int) -> int:
    """Return for how many nodes a pool counts: the larger of those that exist and may come.

    A failed pool without nodes counts as none, and so does one that is switched off, whose maximum
    is 0.
    """
    return max(maximum, present) if present or status not in FAILED else 0


@dataclass(frozen=True, slots=True)
class Means:
    """What the limits, and GKE's operation slots, leave for the further acts of a plan."""

    chips: int
    slots: int

    def less(self, chips: int) -> Means:
        """Return what is left after one act that asks for so many chips."""
        return Means(self.chips - chips, self.slots - 1)
