"""The TPU catalogue with its look-up: machine, hosts and placement. A generation is one new row.

Hosts = chips / chips per host. A pod for which this is not exact is refused.

Sources: https://cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus,
https://cloud.google.com/tpu/docs/supported-tpu-configurations, and GKE's published autoscaler
(https://github.com/GoogleCloudPlatform/cluster-autoscaler, ``pkg/cloudprovider/gke/machinetypes``).
They disagree on the upper bounds of the cube families, and on the memory of ct6e-standard-1t (176
or 448 GiB) and tpu7x-standard-4t (960 or 992 GiB). The larger value is used here, and GKE decides.
vCPUs and memory are those of https://cloud.google.com/tpu/docs/v5e, v5p, v6e, tpu7x and of it.
"""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.model import labels
from shared.model.errors import UnsupportedShape
from shared.shapes.shape import Placement, Shape

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPOLOGY_FORM = re.compile(r"[1-9][0-9]{0,3}(x[1-9][0-9]{0,3}){1,2}")
_NEAREST_SHOWN = 4
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
FLEX_START_GENERATIONS = tuple(
    dict.fromkeys(family.generation for family in FAMILIES if family.flex_start)
)
MACHINES = {machine.name: machine for family in FAMILIES for machine in family.machines}


def find_shape(
    *,
    accelerator: str | None,
    topology: str | None,
    chips_per_pod: int | None,
    machine_type: str | None = None,
) -> Shape:
    """Return the one shape that a pod's selectors and chip request describe.

    Args:
        accelerator: value of ``cloud.google.com/gke-tpu-accelerator``.
        topology: value of ``cloud.google.com/gke-tpu-topology``; None means a single host, as for
            GKE's own auto-provisioning.
        chips_per_pod: sum of ``google.com/tpu`` over the containers; None or 0 without a request.
        machine_type: value of ``node.kubernetes.io/instance-type``; None without that selector.

    Raises:
        UnsupportedShape: no row of the catalogue fits; the message names the nearest that do.
    """
    family = _find_family(accelerator)
    if topology is not None:
        _check_topology_form(family, topology)
    machine = _find_machine(family, topology, chips_per_pod or None, machine_type)
    if topology is None:
        if machine.single_host is None:
            raise UnsupportedShape(
                f"{machine.name} works only in multi-host slices, and the pod selects no topology",
                field=labels.TOPOLOGY,
                valid=", ".join(family.topologies[:_NEAREST_SHOWN]),
            )
        topology = machine.single_host
    _check_topology_of_machine(family, machine, topology)
    chips = count_chips(topology)
    node_count = chips // machine.chips
    return Shape(
        generation=family.generation,
        accelerator=family.accelerator,
        machine_type=machine.name,
        topology=topology,
        chips=chips,
        chips_per_host=machine.chips,
        node_count=node_count,
        placement=family.placement if node_count > 1 else Placement.NONE,
        boot_disks=family.boot_disks,
        flex_start=family.flex_start,
    )


def count_chips(topology: str) -> int:
    """Return the product of a topology's dimensions, for example 16 for ``4x4``."""
    return math.prod(int(part) for part in topology.split("x"))


def list_topologies(family: Family) -> Iterator[str]:
    """Yield every valid topology of a family, the smallest first within each rule."""
    single = [machine.single_host for machine in family.machines if not machine.by_name_only]
    alone = [each for each in single if each]
    yield from alone
    yield from (each for each in family.topologies if each not in alone)
    if family.cubes_max:
        yield from SHAPES_BELOW_A_CUBE[1:]
        sides = range(4, family.cubes_max * 4 + 1, 4)
        for a in sides:
            for b in sides[a // 4 - 1 :]:
                if a * b * b > family.cubes_max * CUBE_CHIPS:
                    break
                for c in sides[b // 4 - 1 :]:
                    if a * b * c > family.cubes_max * CUBE_CHIPS:
                        break
                    yield f"{a}x{b}x{c}"


def _find_family(accelerator: str | None) -> Family:
    if accelerator and accelerator in BY_ACCELERATOR:
        return BY_ACCELERATOR[accelerator]
    near = difflib.get_close_matches(
        accelerator or "", BY_ACCELERATOR, n=_NEAREST_SHOWN, cutoff=0.6
    )
    raise UnsupportedShape(
        "unknown TPU type" if accelerator else "the pod selects no TPU type",
        field=labels.ACCELERATOR,
        value=accelerator or "",
        valid=", ".join(near or sorted(BY_ACCELERATOR)),
    )


def _check_topology_form(family: Family, topology: str) -> None:
    dimensions = topology.count("x") + 1
    if not TOPOLOGY_FORM.fullmatch(topology) or dimensions != family.dimensions:
        example = "4x4" if family.dimensions == 2 else "4x4x4"  # noqa: PLR2004 -- the number is its own name
        raise UnsupportedShape(
            f"a topology of {family.accelerator} has {family.dimensions} dimensions",
            field=labels.TOPOLOGY,
            value=topology,
            valid=f"a topology like {example}",
        )


def _find_machine(
    family: Family, topology: str | None, chips: int | None, machine_type: str | None
) -> Machine:
    if machine_type is not None:
        return _find_machine_by_name(family, machine_type, chips)
    usual = [machine for machine in family.machines if not machine.by_name_only]
    if chips is None:
        # For a leader without chips the other pods of the slice decide. Without them a multi-host
        # machine is preferred to a single host of the same topology.
        fitting = [
            machine for machine in usual if topology and _is_topology_of(family, machine, topology)
        ]
        if fitting:
            return max(fitting, key=lambda machine: (machine.multi_host, -machine.chips))
    for machine in usual:
        if machine.chips == chips or (chips is None and len(usual) == 1):
            return machine
    if chips is None and topology:
        _check_topology_of_machine(
            family, max(usual, key=lambda machine: machine.multi_host), topology
        )
    raise UnsupportedShape(
        f"no {family.accelerator} machine has this many chips per host" if chips else "missing",
        field=f"resources.{labels.TPU_RESOURCE} (sum over containers)",
        value=str(chips) if chips else "",
        valid=", ".join(f"{machine.chips} ({machine.name})" for machine in usual),
    )


def _find_machine_by_name(family: Family, machine_type: str, chips: int | None) -> Machine:
    for machine in family.machines:
        if machine.name == machine_type and chips in (None, machine.chips):
            return machine
    raise UnsupportedShape(
        f"not a machine type of {family.accelerator}"
        + (f" with {chips} chips per host" if chips else ""),
        field=labels.INSTANCE_TYPE,
        value=machine_type,
        valid=", ".join(f"{machine.name} ({machine.chips} chips)" for machine in family.machines),
    )


def _is_topology_of(family: Family, machine: Machine, topology: str) -> bool:
    if topology == machine.single_host:
        return True
    if not machine.multi_host:
        return False
    if family.cubes_max:
        return topology in SHAPES_BELOW_A_CUBE[1:] or _is_cubes(topology, family.cubes_max)
    return topology in family.topologies


def _is_cubes(topology: str, cubes_max: int) -> bool:
    sides = [int(part) for part in topology.split("x")]
    regular = all(side % 4 == 0 for side in sides) and sides == sorted(sides)
    return regular and math.prod(sides) <= cubes_max * CUBE_CHIPS


def _check_topology_of_machine(family: Family, machine: Machine, topology: str) -> None:
    if _is_topology_of(family, machine, topology):
        return
    wanted = count_chips(topology)
    legal = {each for each in list_topologies(family) if _is_topology_of(family, machine, each)}
    turned = "x".join(sorted(topology.split("x"), key=int))

    def measure(each: str) -> tuple[bool, int, int, str]:
        return each != turned, abs(count_chips(each) - wanted), max(map(int, each.split("x"))), each

    near = sorted(legal, key=measure)
    others = [
        f"{each.chips} chips per pod ({each.name}) for {topology}"
        for each in family.machines
        if not each.by_name_only and _is_topology_of(family, each, topology)
    ]
    raise UnsupportedShape(
        f"not a topology of {machine.name}",
        field=labels.TOPOLOGY,
        value=topology,
        valid="; or ".join([", ".join(near[:_NEAREST_SHOWN]), *others]),
    )
