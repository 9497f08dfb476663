"""The TPU catalogue as data: families, machines, topologies. A new generation is one new row.

Sources: https://cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus,
https://cloud.google.com/tpu/docs/supported-tpu-configurations, and GKE's published autoscaler
(https://github.com/GoogleCloudPlatform/cluster-autoscaler, ``pkg/cloudprovider/gke/machinetypes``).
They disagree on the upper bounds of the cube families, and on the memory of ct6e-standard-1t (176
or 448 GiB) and tpu7x-standard-4t (960 or 992 GiB). The larger value is used here, and GKE decides.
vCPUs and memory are those of https://cloud.google.com/tpu/docs/v5e, v5p, v6e, tpu7x and of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.shapes.shape import Placement

CUBE_CHIPS = 64
SHAPES_BELOW_A_CUBE = ("2x2x1", "2x2x2", "2x2x4", "2x4x4")
_SQUARES = ("2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine type of a family."""

    name: str
    chips: int
    """Chips per host: the node's allocatable ``google.com/tpu``, and what a pod must request."""
    single_host: str | None
    """The topology of one such host alone."""
    multi_host: bool
    """Whether several such hosts form one slice."""
    by_name_only: bool = False
    """Chosen only by an explicit instance-type selector."""
    cpus: int = 0
    """vCPUs; 0 if no source names them, and then nothing is compared with them."""
    memory_gb: float = 0
    """GiB; 0 as for `cpus`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One accelerator label of GKE with its machines and properties."""

    generation: str
    accelerator: str  # assumes: tpu-machines
    """The value of ``cloud.google.com/gke-tpu-accelerator``."""
    machines: tuple[Machine, ...]
    placement: Placement = Placement.COMPACT
    """For multi-host slices; a single host never has a placement."""
    boot_disks: tuple[str, ...]
    """Accepted boot disk types, the default first."""
    flex_start: bool = False
    public_names: tuple[str, ...] = ()
    """Prefixes of the public names of slices, for example ``v6e`` in ``v6e-16``; empty if such a
    name means another family: https://cloud.google.com/tpu/docs/supported-tpu-configurations."""
    counted_per_chip: int = 1
    """What such a name counts for each chip: 2 if it counts the TensorCores of a chip."""
    topologies: tuple[str, ...] = ()  # assumes: bad-node-count
    """Every valid topology of the multi-host machine, for two-dimensional families."""
    cubes_max: int = 0
    """The largest slice in cubes of 64 chips, for three-dimensional families; 0 for the others."""

    @property
    def dimensions(self) -> int:
        """Return 3 for the families built of cubes, else 2."""
        return 3 if self.cubes_max else 2


_PD = ("pd-balanced", "pd-ssd")
_PD_ALL = ("pd-standard", "pd-balanced", "pd-ssd")
_HYPERDISK = ("hyperdisk-balanced",)

FAMILIES = (
    Family(
        generation="v3",
        accelerator="tpu-v3-device",
        machines=(Machine("ct3-hightpu-4t", 4, "2x2", multi_host=False, cpus=96, memory_gb=340),),
        placement=Placement.NONE,
        boot_disks=_PD_ALL,
        public_names=("v3",),
        counted_per_chip=2,
    ),
    Family(
        generation="v3",
        accelerator="tpu-v3-slice",
        machines=(Machine("ct3p-hightpu-4t", 4, None, multi_host=True, cpus=48, memory_gb=340),),
        boot_disks=_PD_ALL,
        public_names=("v3",),
        counted_per_chip=2,
        topologies=("4x4", "4x8", "8x8", "8x16", "16x16", "16x32", "32x32", "32x64"),
    ),
    Family(
        generation="v4",
        accelerator="tpu-v4-podslice",
        machines=(
            Machine("ct4p-hightpu-4t", 4, "2x2x1", multi_host=True, cpus=240, memory_gb=407),
        ),
        boot_disks=(*_PD_ALL, "hyperdisk-balanced"),
        public_names=("v4",),
        counted_per_chip=2,
        cubes_max=64,
    ),
    Family(
        generation="v5e",
        accelerator="tpu-v5-lite-podslice",
        machines=(
            Machine("ct5lp-hightpu-1t", 1, "1x1", multi_host=False, cpus=24, memory_gb=48),
            Machine("ct5lp-hightpu-4t", 4, "2x2", multi_host=True, cpus=112, memory_gb=192),
            Machine("ct5lp-hightpu-8t", 8, "2x4", multi_host=False, cpus=224, memory_gb=384),
        ),
        boot_disks=_PD,
        flex_start=True,
        public_names=("v5litepod", "v5e"),
        topologies=_SQUARES,
    ),
    Family(
        generation="v5e",
        accelerator="tpu-v5-lite-device",
        machines=(
            Machine("ct5l-hightpu-1t", 1, "1x1", multi_host=False, cpus=24, memory_gb=48),
            Machine("ct5l-hightpu-4t", 4, "2x2", multi_host=False, cpus=112, memory_gb=192),
            Machine("ct5l-hightpu-8t", 8, "2x4", multi_host=False, cpus=224, memory_gb=384),
        ),
        placement=Placement.NONE,
        boot_disks=_PD,
    ),
    Family(
        generation="v5p",
        accelerator="tpu-v5p-slice",
        machines=(
            Machine("ct5p-hightpu-4t", 4, "2x2x1", multi_host=True, cpus=208, memory_gb=448),
        ),
        boot_disks=_PD,
        flex_start=True,
        public_names=("v5p",),
        counted_per_chip=2,
        cubes_max=140,
    ),
    Family(
        generation="v6e",
        accelerator="tpu-v6e-slice",
        machines=(
            Machine("ct6e-standard-1t", 1, "1x1", multi_host=False, cpus=44, memory_gb=448),
            Machine("ct6e-standard-4t", 4, "2x2", multi_host=True, cpus=180, memory_gb=720),
            Machine("ct6e-standard-8t", 8, "2x4", multi_host=False, cpus=180, memory_gb=1440),
        ),
        boot_disks=_HYPERDISK,
        flex_start=True,
        public_names=("v6e",),
        topologies=_SQUARES,
    ),
    Family(
        generation="tpu7x",
        accelerator="tpu7x",
        machines=(
            Machine("tpu7x-standard-1t", 1, "1x1x1", multi_host=False, cpus=56, memory_gb=248),
            Machine("tpu7x-standard-4t", 4, "2x2x1", multi_host=True, cpus=224, memory_gb=992),
            Machine(
                "tpu7x-ultranet-4t",
                4,
                "2x2x1",
                multi_host=True,
                by_name_only=True,
                cpus=224,
                memory_gb=992,
            ),
        ),
        placement=Placement.WORKLOAD_POLICY,
        boot_disks=_HYPERDISK,
        flex_start=True,
        public_names=("tpu7x",),
        counted_per_chip=2,
        cubes_max=144,
    ),
)

BY_ACCELERATOR = {family.accelerator: family for family in FAMILIES}
MACHINES = {machine.name: machine for family in FAMILIES for machine in family.machines}
CHIPS_BY_MACHINE = {
    machine.name: machine.chips for family in FAMILIES for machine in family.machines
}
"""Chips of one host, by machine type."""


def list_flex_start_generations() -> list[str]:
    """Return the generations that GKE offers with flex-start, in the order of the catalogue."""
    return list(dict.fromkeys(family.generation for family in FAMILIES if family.flex_start))
