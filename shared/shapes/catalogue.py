"""The machines of TPUs and GPUs, their shapes, and what a node leaves to pods.

A new family is one row of `tpus.json` or `gpus.json`. Sources:
https://cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus,
https://cloud.google.com/tpu/docs/supported-tpu-configurations,
https://cloud.google.com/compute/docs/gpus,
https://cloud.google.com/kubernetes-engine/docs/concepts/gpus,
https://cloud.google.com/kubernetes-engine/docs/how-to/gpus-multi, and GKE's published autoscaler
(https://github.com/GoogleCloudPlatform/cluster-autoscaler, ``pkg/cloudprovider/gke/machinetypes``).
They disagree on the upper bounds of the cube families, and on the memory of ct6e-standard-1t (176
or 448 GiB) and tpu7x-standard-4t (960 or 992 GiB). The larger value is used here, and GKE decides.

GKE reserves a part of each machine and each boot disk, and the DaemonSets of the cluster need a
part of the rest: https://cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes.
"""

from __future__ import annotations

import bisect
import difflib
import math
import pkgutil
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache

import msgspec
from msgspec import Struct

from shared.model.errors import Rejected, refuse

MIB = 1024**2
GIB = 1024**3
_RESERVED_CPU = ((1, 60.0), (1, 10.0), (2, 5.0), (math.inf, 2.5))  # assumes: node-reserve
"""Thousandths of a vCPU that GKE reserves of each of the first ones, of the next, and so on."""
_RESERVED_MEMORY = ((4, 0.25), (4, 0.2), (8, 0.1), (112, 0.06), (math.inf, 0.02))
"""Shares that GKE reserves of the first GiB, of the next, and so on."""
_EVICTION_BYTES = 100 * MIB
DISK_GB_DEFAULT = 100  # the boot disk that GKE makes if a node pool names no size
DISK_GB_MAX = 65_536  # 64 TiB: https://cloud.google.com/compute/docs/disks
_DISK_GB_STEP = 10
_DISK_KEPT = 0.1  # the share of the disk at which the kubelet begins to evict pods
NEAREST_SHOWN = 4
_N1_CPUS = (4, 8, 16, 32, 64, 96)
_N1_LINES = {"standard": 3.75, "highmem": 6.5}
"""The machines to which GPUs are attached: vCPUs, and GiB for each of them."""


class Placement(StrEnum):
    """How GKE places the hosts of a multi-host slice."""

    NONE = "none"
    COMPACT = "compact"  # ``placement_policy: {type: COMPACT, tpu_topology}``
    WORKLOAD_POLICY = "workload-policy"
    """``placement_policy: {policy_name}``: a regional resource policy that must already exist."""


class Machine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One machine type of a family."""

    name: str
    chips: int  # TPU chips or GPUs of one host. Of TPUs a pod must request all.
    cpus: int
    memory_gb: float  # GiB
    by_name_only: bool = False  # chosen only by an explicit instance-type selector
    single_host: str = ""
    """The TPU topology of one such host alone; empty if it forms slices of several only."""
    multi_host: bool = False  # whether several such hosts form one TPU slice
    networks: bool = False  # reaches other hosts by additional networks


class Family(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One accelerator label of GKE with its machines and properties."""

    accelerator: str  # assumes: tpu-machines
    """Of TPUs the value of ``cloud.google.com/gke-tpu-accelerator``; of GPUs that of
    ``cloud.google.com/gke-accelerator``, and the type's name in the API."""
    machines: tuple[Machine, ...] = ()  # assumes: gpu-machines
    boot_disks: tuple[str, ...]  # accepted boot disk types, the default first

    generation: str = ""  # of TPUs, as the following seven
    placement: Placement = Placement.COMPACT
    """For multi-host slices; a single host never has a placement."""
    flex_start: bool = False
    public_names: tuple[str, ...] = ()
    """Prefixes of the public names of slices, for example ``v6e`` in ``v6e-16``; empty if such a
    name means another family."""
    counted_per_chip: int = 1
    """What such a name counts for each chip: 2 if it counts the TensorCores of a chip."""
    topologies: tuple[str, ...] = ()  # assumes: bad-node-count
    """Every valid topology of the multi-host machine, for two-dimensional families."""
    cubes_max: int = 0
    """The largest slice in cubes of 64 chips, for three-dimensional families; 0 for the others."""
    joins_pools: bool = False  # GKE's slice controller joins pools of one cube to larger slices
    quota: str = ""
    """The regional quota of its chips, where Google lists it with those of Compute Engine."""

    attached_cpus: dict[int, int] = {}
    """Of GPUs, as the following five: by their number the most vCPUs of an N1 machine to which they
    are attached; empty for those with machines of their own."""
    local_disks: bool = False
    """The machines have local SSDs, which GKE uses for the ephemeral storage of pods:
    https://cloud.google.com/kubernetes-engine/docs/concepts/local-ssd."""
    partitions: dict[str, int] = {}  # partition sizes (MIG), and how many of each one GPU has
    compact: bool = False  # GKE places the hosts of one slice close together
    rack_topology: str = ""
    """``1xGPUS`` if GPUs are connected across hosts, so that several hosts are one slice; a
    workload policy has the same topology:
    https://cloud.google.com/kubernetes-engine/docs/how-to/ai-hypercomputer-gke-a4x."""
    architecture: str = "amd64"
    usual: tuple[Machine, ...] = ()
    """The machines that a pod gets without naming one; follows from `machines`."""

    def __post_init__(self) -> None:
        attached = self.machines or tuple(
            Machine(
                name=f"n1-{line}-{cpus}", chips=gpus, cpus=cpus, memory_gb=cpus * memory_per_cpu
            )
            for gpus, cpus_max in self.attached_cpus.items()
            for cpus in _N1_CPUS
            if cpus <= cpus_max
            for line, memory_per_cpu in _N1_LINES.items()
        )
        usual = tuple(machine for machine in attached if not machine.by_name_only)
        msgspec.structs.force_setattr(self, "machines", attached)
        msgspec.structs.force_setattr(self, "usual", usual)


def _read(name: str) -> dict[str, Family]:
    text = pkgutil.get_data(__name__, name) or b""
    families = msgspec.json.decode(text, type=tuple[Family, ...])
    return {family.accelerator: family for family in families}


TPUS, GPUS = _read("tpus.json"), _read("gpus.json")


def refuse_family(families: Mapping[str, Family], name: str | None) -> Rejected:
    """Return the refusal of a family that is in no row, with the nearest rows."""
    near = difflib.get_close_matches(name or "", families, n=NEAREST_SHOWN, cutoff=0.6)
    row, what = ("tpu_type_unknown", "TPU") if families is TPUS else ("gpu_type_unknown", "GPU")
    problem = f"unknown {what} type" if name else f"the pod selects no {what} type"
    return refuse(row, name or "", problem=problem, types=near or sorted(families))


class GpuSharing(Struct, frozen=True, kw_only=True):
    """How GPUs are set up on a node, with the API's values; empty or 0 for none."""

    partition: str = ""
    strategy: str = ""
    clients: int = 0
    driver: str = "DEFAULT"
    units: int = 1  # how many units of ``nvidia.com/gpu`` one GPU is


class Shape(Struct, frozen=True, kw_only=True):
    """One slice, or the nodes of one elastic pool."""

    family: Family
    machine: Machine
    topology: str
    node_count: int
    placement: Placement
    gpus: GpuSharing | None = None  # None for TPUs
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


class Room(Struct, frozen=True, kw_only=True):
    """What the operator sets: the share of DaemonSets on each node, and the largest boot disk."""

    cpu_millis: int = 0
    memory_bytes: int = 0  # of DaemonSets, as the CPU
    pods: int = 128  # the most pods of workloads on one node
    disk_gb: int = DISK_GB_MAX  # the largest boot disk


@lru_cache
def measure_allocatable(machine: Machine, room: Room) -> tuple[int, int]:
    """Return the thousandths of a vCPU and the bytes that a machine leaves to workloads."""
    cpu = machine.cpus * 1000 - _sum_reserved(machine.cpus, _RESERVED_CPU)
    memory = (machine.memory_gb - _sum_reserved(machine.memory_gb, _RESERVED_MEMORY)) * GIB
    return (
        math.floor(cpu) - room.cpu_millis,
        math.floor(memory - _EVICTION_BYTES - room.memory_bytes),
    )


def _sum_reserved(amount: float, bands: tuple[tuple[float, float], ...]) -> float:
    """Return what GKE reserves of an amount: a share of each band, the lowest first."""
    reserved = 0.0
    for size, share in bands:
        reserved += min(amount, size) * share
        amount -= min(amount, size)
    return reserved


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
