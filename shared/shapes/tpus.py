"""The look-up of TPUs: from a pod's selectors and chips to machine, hosts and placement.

Hosts = chips / chips per host. A pod for which this is not exact is refused.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping

from shared.model.errors import Rejected, refuse
from shared.shapes.catalogue import (
    NEAREST_SHOWN,
    TPUS,
    Family,
    Machine,
    Placement,
    Shape,
    refuse_family,
)

TOPOLOGY_FORM = re.compile(r"[1-9][0-9]{0,3}(x[1-9][0-9]{0,3}){1,2}")
CUBE_CHIPS = 64
_BELOW_A_CUBE = ("2x2x2", "2x2x4", "2x4x4")


def find_shape(
    *,
    accelerator: str | None,
    topology: str | None,
    chips_per_pod: int | None,
    machine_type: str | None = None,
) -> Shape:
    """Return the one shape that a pod's selectors and chip request describe.

    No topology means a single host, as for GKE's own auto-provisioning. What fits no row of the
    catalogue is refused with the nearest that does.
    """
    family = TPUS.get(accelerator or "")
    if family is None:
        raise refuse_family(TPUS, accelerator)
    _check_form(family, topology)
    if machine_type is None:
        machine = _find_machine(family, topology, chips_per_pod or None)
    else:
        machine = _find_machine_by_name(family, machine_type, chips_per_pod or None)
    topology = topology or machine.single_host
    if not topology:
        topologies = family.topologies[:NEAREST_SHOWN]
        raise refuse("topology_not_selected", machine=machine, topologies=topologies)
    if not _is_topology_of(family, machine, topology):
        raise _refuse_topology(family, machine, topology)
    node_count = count_chips(topology) // machine.chips
    placement = family.placement if node_count > 1 else Placement.NONE
    return Shape(
        family=family,
        machine=machine,
        topology=topology,
        node_count=node_count,
        placement=placement,
    )


def count_chips(topology: str) -> int:
    """Return the product of a topology's dimensions, for example 16 for ``4x4``."""
    return math.prod(int(part) for part in topology.split("x"))


def list_topologies(family: Family) -> list[str]:
    """Return every valid topology of a family, the smallest first within each rule."""
    alone = [machine.single_host for machine in family.usual if machine.single_host]
    return list(dict.fromkeys((*alone, *_list_slices(family.topologies, family.cubes_max))))


@functools.cache
def _list_slices(flat: tuple[str, ...], cubes_max: int) -> Mapping[str, None]:
    """Return the topologies of several hosts, in their order: flat ones, or those of cubes."""
    most = cubes_max * CUBE_CHIPS
    cubes = (
        f"{a}x{b}x{c}"
        for a in range(4, most // 16 + 1, 4)
        for b in range(a, most // (4 * a) + 1, 4)
        for c in range(b, most // (a * b) + 1, 4)
    )
    return dict.fromkeys((*flat, *(_BELOW_A_CUBE if cubes_max else ()), *cubes))


def _check_form(family: Family, topology: str | None) -> None:
    """Accept a topology with as many dimensions as the family's have, and none."""
    dimensions, example = (3, "4x4x4") if family.cubes_max else (2, "4x4")
    if topology is None:
        return
    if TOPOLOGY_FORM.fullmatch(topology) and topology.count("x") == dimensions - 1:
        return
    raise refuse("other_dimensions", topology, family=family, count=dimensions, example=example)


def _find_machine(family: Family, topology: str | None, chips: int | None) -> Machine:
    if chips is None:  # a leader without chips, whose slice has no other pods yet
        fitting = [each for each in family.usual if _is_topology_of(family, each, topology)]
        if topology or len(family.usual) == 1:
            # A topology that no machine has is refused by its own name.
            fitting = fitting or [*family.usual]
    else:
        fitting = [machine for machine in family.usual if machine.chips == chips]
    if fitting:
        return max(fitting, key=lambda machine: (machine.multi_host, -machine.chips))
    raise _refuse_chips(family, chips)


def _refuse_chips(family: Family, chips: int | None) -> Rejected:
    machines = [f"{each.chips} ({each.name})" for each in family.usual]
    row = "no_such_chip_count" if chips else "chips_missing"
    return refuse(row, str(chips or ""), family=family, machines=machines)


def _find_machine_by_name(family: Family, name: str, chips: int | None) -> Machine:
    for machine in family.machines:
        if machine.name == name and chips in (None, machine.chips):
            return machine
    with_chips = f" with {chips} chips per host" if chips else ""
    raise refuse(
        "no_tpu_machine",
        name,
        family=family,
        with_chips=with_chips,
        machines=[f"{each.name} ({each.chips} chips)" for each in family.machines],
    )


def _is_topology_of(family: Family, machine: Machine, topology: str | None) -> bool:
    if topology and topology == machine.single_host:
        return True
    return machine.multi_host and topology in _list_slices(family.topologies, family.cubes_max)


def _refuse_topology(family: Family, machine: Machine, topology: str) -> Rejected:
    chips = count_chips(topology)
    legal = [each for each in list_topologies(family) if _is_topology_of(family, machine, each)]
    turned = "x".join(sorted(topology.split("x"), key=int))

    def measure(each: str) -> tuple[bool, int, int, str]:
        return each != turned, abs(count_chips(each) - chips), max(map(int, each.split("x"))), each

    others = [
        f"{each.chips} chips per pod ({each.name}) for {topology}"
        for each in family.usual
        if _is_topology_of(family, each, topology)
    ]
    near = ", ".join(sorted(legal, key=measure)[:NEAREST_SHOWN])
    valid = "; or ".join([near, *others])
    return refuse("no_topology_of_machine", topology, machine=machine, topologies=valid)
