"""The TPU catalogue as data: families, machines, topologies. A new generation is a new row, nothing else.

Sources: https://cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus,
https://cloud.google.com/tpu/docs/supported-tpu-configurations, and GKE's published autoscaler
(https://github.com/GoogleCloudPlatform/cluster-autoscaler, ``pkg/cloudprovider/gke/machinetypes``).
Upper bounds of the cube families are disputed between pages; the larger is used here, and GKE has the last word.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

CUBE_CHIPS = 64
SHAPES_BELOW_A_CUBE = ("2x2x1", "2x2x2", "2x2x4", "2x4x4")
_SQUARES = ("2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")


class Placement(StrEnum):
    """How GKE is told to put the hosts of a multi-host slice together."""

    NONE = "none"
    COMPACT = "compact"
    """``placement_policy: {type: COMPACT, tpu_topology}``."""
    WORKLOAD_POLICY = "workload-policy"
    """``placement_policy: {policy_name}``: a regional resource policy that must already exist."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine type of a family."""

    name: str
    chips: int
    """Chips per host: the node's ``google.com/tpu`` allocatable, and what a pod must ask for in all."""
    single_host: str | None
    """The topology that one such host forms alone."""
    multi_host: bool
    """Whether several such hosts form one slice."""
    by_name_only: bool = False
    """Chosen only by an explicit instance-type selector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One accelerator label of GKE with everything that follows from it."""

    generation: str
    accelerator: str
    """The value of ``cloud.google.com/gke-tpu-accelerator``."""
    machines: tuple[Machine, ...]
    placement: Placement
    """For multi-host slices; a single host never carries a placement."""
    boot_disks: tuple[str, ...]
    """Accepted boot disk types, the default first."""
    flex_start: bool
    topologies: tuple[str, ...] = ()
    """Every legal topology of the multi-host machine, for two-dimensional families."""
    cubes_max: int = 0
    """For three-dimensional families: legal are the four shapes below a cube and multiples of 4 up to this."""

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
        machines=(Machine("ct3-hightpu-4t", 4, "2x2", multi_host=False),),
        placement=Placement.NONE,
        boot_disks=_PD_ALL,
        flex_start=False,
    ),
    Family(
        generation="v3",
        accelerator="tpu-v3-slice",
        machines=(Machine("ct3p-hightpu-4t", 4, None, multi_host=True),),
        placement=Placement.COMPACT,
        boot_disks=_PD_ALL,
        flex_start=False,
        topologies=("4x4", "4x8", "8x8", "8x16", "16x16", "16x32", "32x32", "32x64"),
    ),
    Family(
        generation="v4",
        accelerator="tpu-v4-podslice",
        machines=(Machine("ct4p-hightpu-4t", 4, "2x2x1", multi_host=True),),
        placement=Placement.COMPACT,
        boot_disks=(*_PD_ALL, "hyperdisk-balanced"),
        flex_start=False,
        cubes_max=64,
    ),
    Family(
        generation="v5e",
        accelerator="tpu-v5-lite-podslice",
        machines=(
            Machine("ct5lp-hightpu-1t", 1, "1x1", multi_host=False),
            Machine("ct5lp-hightpu-4t", 4, "2x2", multi_host=True),
            Machine("ct5lp-hightpu-8t", 8, "2x4", multi_host=False),
        ),
        placement=Placement.COMPACT,
        boot_disks=_PD,
        flex_start=True,
        topologies=_SQUARES,
    ),
    Family(
        generation="v5e",
        accelerator="tpu-v5-lite-device",
        machines=(
            Machine("ct5l-hightpu-1t", 1, "1x1", multi_host=False),
            Machine("ct5l-hightpu-4t", 4, "2x2", multi_host=False),
            Machine("ct5l-hightpu-8t", 8, "2x4", multi_host=False),
        ),
        placement=Placement.NONE,
        boot_disks=_PD,
        flex_start=False,
    ),
    Family(
        generation="v5p",
        accelerator="tpu-v5p-slice",
        machines=(Machine("ct5p-hightpu-4t", 4, "2x2x1", multi_host=True),),
        placement=Placement.COMPACT,
        boot_disks=_PD,
        flex_start=True,
        cubes_max=140,
    ),
    Family(
        generation="v6e",
        accelerator="tpu-v6e-slice",
        machines=(
            Machine("ct6e-standard-1t", 1, "1x1", multi_host=False),
            Machine("ct6e-standard-4t", 4, "2x2", multi_host=True),
            Machine("ct6e-standard-8t", 8, "2x4", multi_host=False),
        ),
        placement=Placement.COMPACT,
        boot_disks=_HYPERDISK,
        flex_start=True,
        topologies=_SQUARES,
    ),
    Family(
        generation="tpu7x",
        accelerator="tpu7x",
        machines=(
            Machine("tpu7x-standard-1t", 1, "1x1x1", multi_host=False),
            Machine("tpu7x-standard-4t", 4, "2x2x1", multi_host=True),
            Machine("tpu7x-ultranet-4t", 4, "2x2x1", multi_host=True, by_name_only=True),
        ),
        placement=Placement.WORKLOAD_POLICY,
        boot_disks=_HYPERDISK,
        flex_start=True,
        cubes_max=144,
    ),
)

BY_ACCELERATOR = {family.accelerator: family for family in FAMILIES}
