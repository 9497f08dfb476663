"""What a list of capacity says, in the words of GKE's ComputeClass, as plain values.

The annotation ``tpu-provisioner.cloud.google.com/capacity`` and the setting ``capacity_policies``
have such a list. `shared.capacity_texts` reads its text, and `shared.needs.candidates` says
what it means for a pod.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class NodeSource(StrEnum):
    """What makes the nodes of a pool."""

    CREATION = "creation"
    """GKE creates the pool together with its nodes. In a stockout it tries for some 35 minutes."""
    AUTOSCALER = "autoscaler"
    """GKE creates the pool empty, in seconds. Its autoscaler adds the nodes for pods that wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationRef:
    """One reservation, or a part of it."""

    name: str
    project: str = ""
    """Empty: the cluster's own."""
    block: str = ""
    subblock: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Priority:
    """One item: one tier, or on-demand if it names none, and the zones in which to try it."""

    spot: bool = False
    flex_start: bool = False
    max_run_duration_seconds: int | None = None
    """Longest run time of flex-start nodes; None for the operator's."""
    reservations: tuple[ReservationRef, ...] = ()
    zones: tuple[str, ...] = ()
    """Empty: the zone that the pool would have without a list."""
    nodes_from: NodeSource | None = None
    """None: as the operator's settings say for the tier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPolicy:
    """The operator's list for the pods of some namespaces and accelerators."""

    priorities: tuple[Priority, ...]
    namespaces: tuple[str, ...] = ("*",)
    """Patterns of namespaces."""
    accelerators: tuple[str, ...] = ("*",)
    """Patterns of accelerator labels, as in ``allowed_accelerators``."""
