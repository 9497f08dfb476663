"""The look-up of TPUs: from a pod's selectors and chips to machine, hosts and placement.

Hosts = chips / chips per host. A pod for which this is not exact is refused.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping

from shared.model import labels
from shared.model.errors import Rejected, refuse
from shared.model.workloads import PodTemplate
from shared.shapes import catalogue
from shared.shapes.catalogue import TPUS, Family, Machine, Placement, Shape

TOPOLOGY_FORM = re.compile(r"[1-9][0-9]{0,3}(x[1-9][0-9]{0,3}){1,2}")
CUBE_CHIPS = 64
_BELOW_A_CUBE = ("2x2x2", "2x2x4", "2x4x4")


def find_shape(template: PodTemplate, chips: int) -> Shape:
    """Return the one shape that selectors describe, for pods with so many chips; 0: it is not told.

    No topology means a single host, as for GKE's own auto-provisioning. What fits no row of the
    catalogue is refused with the nearest that does.
    """
    accelerator, topology = template.find_selector(labels.ACCELERATOR), template.topology
    family = TPUS.get(accelerator or "")
    if family is None:
        raise catalogue.refuse_family(TPUS, accelerator)
    _check_form(family, topology)
    machines = _list_named(family, template.find_selector(labels.INSTANCE_TYPE), chips)
    machine = _find_machine(machines, family, topology, chips)
    topology = topology or machine.single_host
    if not topology:
        topologies = family.topologies[: catalogue.NEAREST_SHOWN]
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


def _list_named(family: Family, name: str | None, chips: int) -> list[Machine]:
    """Return the machine of a name with so many chips; without a name those that a pod may get."""
    named = [
        each for each in family.machines if each.name == name and chips in (0, None, each.chips)
    ]
    if name is None or named:
        return named or [*family.usual]
    with_chips = f" with {chips} chips per host" if chips else ""
    machines = [f"{each.name} ({each.chips} chips)" for each in family.machines]
    raise refuse("no_tpu_machine", name, family=family, with_chips=with_chips, machines=machines)


def _find_machine(
    machines: list[Machine], family: Family, topology: str | None, chips: int
) -> Machine:
    fitting = [each for each in machines if each.chips == chips]
    if not chips:  # a leader without chips, whose slice has no other pods yet
        fitting = [each for each in machines if _is_topology_of(family, each, topology)]
        # A topology that no machine has is refused by its own name.
        fitting = fitting or machines * bool(topology or len(machines) == 1)
    if fitting:
        return max(fitting, key=lambda machine: (machine.multi_host, -machine.chips))
    raise _refuse_chips(machines, family, chips)


def _refuse_chips(machines: list[Machine], family: Family, chips: int) -> Rejected:
    valid = [f"{each.chips} ({each.name})" for each in machines]
    row = "no_such_chip_count" if chips else "chips_missing"
    return refuse(row, str(chips or ""), family=family, machines=valid)


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
    near = ", ".join(sorted(legal, key=measure)[: catalogue.NEAREST_SHOWN])
    valid = "; or ".join([near, *others])
    return refuse("no_topology_of_machine", topology, machine=machine, topologies=valid)
