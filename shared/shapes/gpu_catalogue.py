"""The GPU catalogue as data: types, machines, partitions. A new type is one new row.

Sources: https://cloud.google.com/compute/docs/gpus,
https://cloud.google.com/kubernetes-engine/docs/concepts/gpus,
https://cloud.google.com/kubernetes-engine/docs/how-to/gpus-multi, and GKE's published autoscaler
(https://github.com/GoogleCloudPlatform/cluster-autoscaler, ``pkg/cloudprovider/gke/machinetypes``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

_WITH_LOCAL_DISKS = ("a2-ultragpu", "a3-", "a4-", "a4x-", "g4-")
"""Machines with local SSDs: https://cloud.google.com/compute/docs/disks/local-ssd. GKE uses those
for ephemeral storage: https://cloud.google.com/kubernetes-engine/docs/concepts/local-ssd."""


@dataclass(frozen=True, slots=True)
class GpuMachine:
    """One machine type with a number of GPUs."""

    name: str
    gpus: int
    cpus: int
    memory_gb: float
    """GiB, as in the documentation of machine types."""
    by_name_only: bool = False
    """Chosen only by an explicit instance-type selector."""
    networks: bool = False
    """Reaches other hosts by additional networks."""

    @property
    def local_disks(self) -> bool:
        """Return whether the machine has local SSDs, which pods use in place of the boot disk."""
        return self.name.startswith(_WITH_LOCAL_DISKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFamily:
    """One GPU type of GKE with its machines and properties."""

    accelerator: str
    """The value of ``cloud.google.com/gke-accelerator``, and the type's name in the API."""
    machines: tuple[GpuMachine, ...]
    boot_disks: tuple[str, ...]
    """Accepted boot disk types, the default first."""
    partitions: dict[str, int] = field(default_factory=dict)
    """Partition sizes (MIG), and how many of each one GPU has."""
    compact: bool = False
    """GKE places the hosts of one slice close together."""
    rack_topology: str = ""
    """``1xGPUS`` if GPUs are connected across hosts; a workload policy has the same topology."""
    architecture: str = "amd64"


_PD = ("pd-balanced", "pd-ssd")
_PD_ALL = ("pd-balanced", "pd-ssd", "pd-standard")
_HYPERDISK = ("hyperdisk-balanced",)
_N1_CPUS = (4, 8, 16, 32, 64, 96)


def _attached(ceilings: dict[int, int]) -> tuple[GpuMachine, ...]:
    """Return the N1 machines for each number of attached GPUs, with its largest number of vCPUs."""
    return tuple(
        GpuMachine(f"n1-{line}-{cpus}", gpus, cpus, cpus * memory_gb)
        for gpus, ceiling in ceilings.items()
        for cpus in _N1_CPUS
        if cpus <= ceiling
        for line, memory_gb in (("standard", 3.75), ("highmem", 6.5))
    )


FAMILIES = (  # assumes: gpu-machines
    GpuFamily(
        accelerator="nvidia-tesla-t4", machines=_attached({1: 48, 2: 48, 4: 96}), boot_disks=_PD_ALL
    ),
    GpuFamily(
        accelerator="nvidia-tesla-p4", machines=_attached({1: 24, 2: 48, 4: 96}), boot_disks=_PD_ALL
    ),
    GpuFamily(
        accelerator="nvidia-tesla-p100",
        machines=_attached({1: 16, 2: 32, 4: 64}),
        boot_disks=_PD_ALL,
    ),
    GpuFamily(
        accelerator="nvidia-tesla-v100",
        machines=_attached({1: 12, 2: 24, 4: 48, 8: 96}),
        boot_disks=_PD_ALL,
    ),
    GpuFamily(
        accelerator="nvidia-tesla-a100",
        machines=(
            GpuMachine("a2-highgpu-1g", 1, 12, 85),
            GpuMachine("a2-highgpu-2g", 2, 24, 170),
            GpuMachine("a2-highgpu-4g", 4, 48, 340),
            GpuMachine("a2-highgpu-8g", 8, 96, 680),
            GpuMachine("a2-megagpu-16g", 16, 96, 1360),
        ),
        boot_disks=_PD_ALL,
        partitions={"1g.5gb": 7, "2g.10gb": 3, "3g.20gb": 2, "7g.40gb": 1},
    ),
    GpuFamily(
        accelerator="nvidia-a100-80gb",
        machines=(
            GpuMachine("a2-ultragpu-1g", 1, 12, 170),
            GpuMachine("a2-ultragpu-2g", 2, 24, 340),
            GpuMachine("a2-ultragpu-4g", 4, 48, 680),
            GpuMachine("a2-ultragpu-8g", 8, 96, 1360),
        ),
        boot_disks=_PD_ALL,
        partitions={"1g.10gb": 7, "2g.20gb": 3, "3g.40gb": 2, "7g.80gb": 1},
    ),
    GpuFamily(
        accelerator="nvidia-l4",
        machines=(
            *(GpuMachine(f"g2-standard-{cpus}", 1, cpus, cpus * 4) for cpus in (4, 8, 12, 16, 32)),
            GpuMachine("g2-standard-24", 2, 24, 96),
            GpuMachine("g2-standard-48", 4, 48, 192),
            GpuMachine("g2-standard-96", 8, 96, 384),
        ),
        boot_disks=_PD,
    ),
    GpuFamily(
        accelerator="nvidia-rtx-pro-6000",
        machines=(
            GpuMachine("g4-standard-48", 1, 48, 180),
            GpuMachine("g4-standard-96", 2, 96, 360),
            GpuMachine("g4-standard-192", 4, 192, 720),
            GpuMachine("g4-standard-384", 8, 384, 1440),
        ),
        boot_disks=_HYPERDISK,
    ),
    GpuFamily(
        accelerator="nvidia-h100-80gb",
        machines=(
            GpuMachine("a3-highgpu-1g", 1, 26, 234),
            GpuMachine("a3-highgpu-2g", 2, 52, 468),
            GpuMachine("a3-highgpu-4g", 4, 104, 936),
            GpuMachine("a3-highgpu-8g", 8, 208, 1872, networks=True),
            GpuMachine("a3-edgegpu-8g", 8, 208, 1872, by_name_only=True, networks=True),
        ),
        boot_disks=(*_PD, *_HYPERDISK),
        partitions={"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "7g.80gb": 1},
        compact=True,
    ),
    GpuFamily(
        accelerator="nvidia-h100-mega-80gb",
        machines=(GpuMachine("a3-megagpu-8g", 8, 208, 1872, networks=True),),
        boot_disks=(*_PD, *_HYPERDISK),
        compact=True,
    ),
    GpuFamily(
        accelerator="nvidia-h200-141gb",
        machines=(GpuMachine("a3-ultragpu-8g", 8, 224, 2952, networks=True),),
        boot_disks=_HYPERDISK,
        partitions={"1g.18gb": 7, "1g.35gb": 4, "2g.35gb": 3, "3g.71gb": 2, "7g.141gb": 1},
        compact=True,
    ),
    GpuFamily(
        accelerator="nvidia-b200",
        machines=(GpuMachine("a4-highgpu-8g", 8, 224, 3968, networks=True),),
        boot_disks=_HYPERDISK,
        partitions={"1g.23gb": 7, "1g.45gb": 4, "2g.45gb": 3, "3g.90gb": 2, "7g.180gb": 1},
        compact=True,
    ),
    GpuFamily(
        accelerator="nvidia-gb200",
        machines=(GpuMachine("a4x-highgpu-4g", 4, 140, 884, networks=True),),
        boot_disks=_HYPERDISK,
        rack_topology="1x72",
        architecture="arm64",
    ),
    GpuFamily(
        accelerator="nvidia-gb300",
        machines=(GpuMachine("a4x-maxgpu-4g-metal", 4, 144, 960, networks=True),),
        boot_disks=_HYPERDISK,
        rack_topology="1x72",
        architecture="arm64",
    ),
)

BY_GPU = {family.accelerator: family for family in FAMILIES}
RETIRED = frozenset({"nvidia-tesla-k80"})
CLIENTS_MIN, CLIENTS_MAX = 2, 48
"""How many pods may share one GPU: https://cloud.google.com/kubernetes-engine/docs/concepts/timesharing-gpus."""
SHARING = {"time-sharing": "TIME_SHARING", "mps": "MPS"}
"""Values of the sharing selector, and their names in the API."""
DRIVERS = {
    "default": "DEFAULT",
    "latest": "LATEST",
    "autoinstall-disabled": "INSTALLATION_DISABLED",
}
"""Values of the driver selector, and their names in the API."""
RACK_SCALE = frozenset(family.accelerator for family in FAMILIES if family.rack_topology)
"""GPUs that are connected across hosts, so that several hosts are one slice:
https://cloud.google.com/kubernetes-engine/docs/how-to/ai-hypercomputer-gke-a4x."""
