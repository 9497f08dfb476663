"""One node pool, as GKE lists it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from shared.model import labels
from shared.model.pool_status import PoolStatus
from shared.shapes.tpu_catalogue import CHIPS_BY_MACHINE
from shared.shapes.tpus import count_chips
from shared.model.workloads import Taint
from shared.model.names import Owner, parse_owner
from shared.plan.scene import PoolShape

ELASTIC_SLOT = "any"
"""The slot of the one pool of an elastic need."""


@dataclass(frozen=True, kw_only=True)
class NodePool:
    """One node pool of one cluster at one moment."""

    name: str
    status: PoolStatus
    labels: dict[str, str] = field(default_factory=dict)
    """The node labels of its configuration."""
    taints: tuple[Taint, ...] = ()
    machine_type: str = ""
    accelerator: str = ""
    """The type of its GPUs; empty for TPUs, which the machine names."""
    gpus_per_node: int = 0
    sharing: str = ""
    topology: str = ""
    """Of its placement; empty for a single host."""
    node_count: int = 0
    """As requested at creation; for an autoscaled pool the most nodes that it may have."""
    zones: tuple[str, ...] = ()
    spot: bool = False
    flex_start: bool = False
    reservation: str = ""
    """Path of the reservation whose machines it takes."""
    autoscaled: bool = False
    group_urls: tuple[str, ...] = ()
    """URLs of its managed instance groups, one for each zone."""
    error: str = ""
    """GKE's own description of what is wrong."""
    deployment: str = ""
    """Which deployment made it, by a label of its machines."""

    @cached_property
    def owner(self) -> Owner | None:
        """Return the owner, by the labels; None when the pool is not ours."""
        return parse_owner(self.labels)

    @property
    def units(self) -> int:
        """Return the chips or GPUs of a node."""
        return self.gpus_per_node or CHIPS_BY_MACHINE.get(self.machine_type, 0)

    @property
    def hosts(self) -> int:
        """Return how many nodes a whole pool has; a pool that is switched off may have no number."""
        chips = count_chips(self.topology) if self.topology else 0
        return chips // self.units if chips and self.units else max(self.node_count, 1)

    @property
    def elastic(self) -> bool:
        """Return whether it is the one pool of an elastic need."""
        return self.owner is not None and self.owner.slot == ELASTIC_SLOT

    @property
    def shape(self) -> PoolShape:
        """Return what its machines offer."""
        return PoolShape(
            accelerator=self.accelerator or self.machine_type,
            topology=self.topology,
            hosts=0 if self.elastic else self.hosts,
            units=self.units,
            sharing=self.sharing,
        )

    @cached_property
    def node_labels(self) -> dict[str, str]:
        """Return the labels that its nodes have, with those that GKE derives from its fields."""
        derived = {
            labels.NODE_POOL: self.name,
            labels.INSTANCE_TYPE: self.machine_type,
            labels.SPOT: "true" if self.spot else "",
            labels.FLEX_START: "true" if self.flex_start else "",
            labels.RESERVATION_NAME: self.reservation.rpartition("/")[2] if self.reservation else "",
            labels.ZONE: self.zones[0] if len(self.zones) == 1 else "",
        }
        return {**{key: value for key, value in derived.items() if value}, **self.labels}
