"""What GKE needs (machine type, number of nodes, placement), and what a node leaves to pods.

GKE reserves a part of each machine and each boot disk, and the DaemonSets of the cluster need a
part of the rest: https://cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shared.shapes.catalogue import Family, Machine, Placement

MIB = 1024**2
GIB = 1024**3
_RESERVED_CPU = ((1, 60.0), (1, 10.0), (2, 5.0))  # assumes: node-reserve
"""Thousandths of a vCPU that GKE reserves of the first ones; 2.5 of each further one."""
_RESERVED_MEMORY = ((4, 0.25), (4, 0.2), (8, 0.1), (112, 0.06))
"""Shares that GKE reserves of the first GiB; 2 % of the rest."""
_EVICTION_BYTES = 100 * MIB
DISK_GB_DEFAULT = 100
"""The boot disk that GKE makes if a node pool names no size."""
DISK_GB_MAX = 65_536
"""64 TiB: https://cloud.google.com/compute/docs/disks."""
_DISK_GB_STEP = 10
_DISK_KEPT = 0.1
"""The share of the disk at which the kubelet begins to evict pods."""


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
    """One slice, or the nodes of one elastic pool."""

    family: Family
    machine: Machine
    topology: str
    node_count: int
    placement: Placement
    gpus: GpuSharing | None = None
    """None for TPUs."""
    pods_per_node: int = 1

    def __str__(self) -> str:
        """Return the shape for people: nodes, machine, and their topology or GPUs."""
        each = f"{self.machine.chips} {self.family.accelerator} each"
        return f"{self.node_count} x {self.machine.name}, {each if self.gpus else self.topology}"

    @property
    def chips(self) -> int:
        """Return the TPU chips, or whole GPUs, of all nodes."""
        return self.node_count * self.machine.chips

    @property
    def units_per_host(self) -> int:
        """Return how many chips, or units of GPUs, the pods of a host can request in all."""
        return self.machine.chips * (self.gpus.units if self.gpus else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What the operator sets: the share of DaemonSets on each node, and the largest boot disk."""

    cpu_millis: int = 0
    memory_bytes: int = 0
    """Of DaemonSets, as the CPU."""
    pods: int = 128
    """The most pods of workloads on one node."""
    disk_gb: int = DISK_GB_MAX
    """The largest boot disk."""


def measure_allocatable(cpus: int, memory_gb: float, room: Room) -> tuple[int, int]:
    """Return the thousandths of a vCPU and the bytes that a machine leaves to workloads."""
    left, kept_cpu = cpus, 0.0
    for count, millis in _RESERVED_CPU:
        kept_cpu += min(left, count) * millis
        left -= min(left, count)
    memory, kept_gb = memory_gb, 0.0
    for count, share in _RESERVED_MEMORY:
        kept_gb += min(memory, count) * share
        memory -= min(memory, count)
    kept_bytes = (kept_gb + memory * 0.02) * GIB + _EVICTION_BYTES + room.memory_bytes
    return (
        math.floor(cpus * 1000 - kept_cpu - left * 2.5) - room.cpu_millis,
        math.floor(memory_gb * GIB - kept_bytes),
    )


def measure_storage(disk_gb: int) -> int:
    """Return the bytes of ephemeral storage that a boot disk leaves to pods.

    GKE reserves the least of half of the disk, 6 GB and 35 % of it, and 100 GB. The system takes a
    part before: nodes report 98,831,908 KiB of 100 GB and 202,086,868 KiB of 200 GB.
    """
    capacity = disk_gb * 0.98472 - 4.22
    reserved = min(disk_gb / 2, 6 + disk_gb * 0.35, 100)
    return max(math.floor((capacity * (1 - _DISK_KEPT) - reserved) * GIB), 0)


def find_disk_size(storage_bytes: int, disk_gb: int) -> int:
    """Return the smallest boot disk in GB, from a given size on, that leaves this many bytes.

    More than `DISK_GB_MAX` if no disk does.
    """
    sizes = range(disk_gb, DISK_GB_MAX + 2 * _DISK_GB_STEP, _DISK_GB_STEP)
    return sizes[min(bisect.bisect_left(sizes, storage_bytes, key=measure_storage), len(sizes) - 1)]


def describe_size(cpu_millis: int, memory_bytes: int) -> str:
    """Return CPU and memory for people, as ``cpu 3.9, memory 12.5Gi``."""
    memory = math.floor(memory_bytes / GIB * 10) / 10
    return f"cpu {math.floor(cpu_millis / 10) / 100:g}, memory {memory:g}Gi"
