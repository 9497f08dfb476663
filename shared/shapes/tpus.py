"""Looks up the machine type, the number of hosts and the placement for a pod with TPUs.

Hosts = chips / chips per host. A pod for which this is not exact is refused.
"""

from __future__ import annotations

import difflib
import math
import re
from typing import TYPE_CHECKING

from shared.model import labels
from shared.model.errors import UnsupportedShape
from shared.shapes.shape import Placement, Shape
from shared.shapes.tpu_catalogue import (
    BY_ACCELERATOR,
    CUBE_CHIPS,
    SHAPES_BELOW_A_CUBE,
    Family,
    Machine,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPOLOGY_FORM = re.compile(r"[1-9][0-9]{0,3}(x[1-9][0-9]{0,3}){1,2}")
_NEAREST_SHOWN = 4


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
        f"no {family.accelerator} machine has this many chips per host",
        field=f"resources.{labels.TPU_RESOURCE} (sum over containers)",
        value=str(chips or 0),
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
