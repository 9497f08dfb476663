"""What GKE needs: machine type, number of nodes, placement. The result of every look-up."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Placement(StrEnum):
    """How GKE places the hosts of a multi-host slice."""

    NONE = "none"
    COMPACT = "compact"
    """``placement_policy: {type: COMPACT, tpu_topology}``."""
    WORKLOAD_POLICY = "workload-policy"
    """``placement_policy: {policy_name}``: a regional resource policy that must already exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSharing:
    """How GPUs are set up on a node, with the API's values; empty or 0 for none."""

    partition: str = ""
    strategy: str = ""
    clients: int = 0
    driver: str = "DEFAULT"
    units: int = 1
    """How many units of ``nvidia.com/gpu`` one GPU is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One slice, or the nodes of one elastic pool; *chips* are TPU chips or whole GPUs."""

    generation: str
    accelerator: str
    machine_type: str
    topology: str
    chips: int
    chips_per_host: int
    node_count: int
    placement: Placement
    boot_disks: tuple[str, ...]
    flex_start: bool
    gpus: GpuSharing | None = None
    """None for TPUs."""
    pods_per_node: int = 1
    own_networks: bool = False
    """The machine reaches other hosts by additional networks."""
    local_disks: bool = False
    """Pods use local SSDs of the machine, not the boot disk."""
    architecture: str = "amd64"

    def __str__(self) -> str:
        """Return the shape for people: nodes, machine, and their topology or GPUs."""
        what = f"{self.chips_per_host} {self.accelerator} each" if self.gpus else self.topology
        return f"{self.node_count} x {self.machine_type}, {what}"

    @property
    def units_per_host(self) -> int:
        """Return how many chips, or units of GPUs, the pods of a host can request in all."""
        return self.chips_per_host * (self.gpus.units if self.gpus else 1)

    @property
    def multi_host(self) -> bool:
        """Return whether the slice has several hosts, and so cannot be resized."""
        return self.node_count > 1
