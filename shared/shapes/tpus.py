"""The look-up of TPUs: from a pod's selectors and chips to machine, hosts and placement.

Hosts = chips / chips per host. A pod for which this is not exact is refused.
"""

from __future__ import annotations

import difflib
import functools
import math
import re
from typing import TYPE_CHECKING

from shared.model import labels
from shared.model.errors import UnsupportedShape
from shared.shapes.catalogue import TPUS, Placement
from shared.shapes.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from shared.model.errors import Rejected
    from shared.shapes.catalogue import Family, Machine

TOPOLOGY_FORM = re.compile(r"[1-9][0-9]{0,3}(x[1-9][0-9]{0,3}){1,2}")
_NEAREST_SHOWN = 4
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
        raise _refuse_family(accelerator)
    if topology is not None and not _is_well_formed(family, topology):
        raise _refuse_form(family, topology)
    machine = _find_machine(family, topology, chips_per_pod or None, machine_type)
    topology = topology or machine.single_host
    if not topology:
        raise UnsupportedShape(
            f"{machine.name} works only in multi-host slices, and the pod selects no topology",
            field=labels.TOPOLOGY,
            valid=", ".join(family.topologies[:_NEAREST_SHOWN]),
        )
    if not _is_topology_of(family, machine, topology):
        raise _refuse_topology(family, machine, topology)
    node_count = count_chips(topology) // machine.chips
    return Shape(
        family=family,
        machine=machine,
        topology=topology,
        node_count=node_count,
        placement=family.placement if node_count > 1 else Placement.NONE,
    )


def count_chips(topology: str) -> int:
    """Return the product of a topology's dimensions, for example 16 for ``4x4``."""
    return math.prod(int(part) for part in topology.split("x"))


def list_topologies(family: Family) -> list[str]:
    """Return every valid topology of a family, the smallest first within each rule."""
    usual = [machine for machine in family.machines if not machine.by_name_only]
    alone = [machine.single_host for machine in usual if machine.single_host]
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


def _refuse_family(accelerator: str | None) -> Rejected:
    near = difflib.get_close_matches(accelerator or "", TPUS, n=_NEAREST_SHOWN, cutoff=0.6)
    return UnsupportedShape(
        "unknown TPU type" if accelerator else "the pod selects no TPU type",
        field=labels.ACCELERATOR,
        value=accelerator or "",
        valid=", ".join(near or sorted(TPUS)),
    )


def _is_well_formed(family: Family, topology: str) -> bool:
    separators = 2 if family.cubes_max else 1
    return bool(TOPOLOGY_FORM.fullmatch(topology)) and topology.count("x") == separators


def _refuse_form(family: Family, topology: str) -> Rejected:
    dimensions, example = (3, "4x4x4") if family.cubes_max else (2, "4x4")
    return UnsupportedShape(
        f"a topology of {family.accelerator} has {dimensions} dimensions",
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
    fitting: Sequence[Machine] = [machine for machine in usual if machine.chips == chips]
    if chips is None:
        fitting = _list_of_topology(family, usual, topology)
    if not fitting:
        raise _refuse_chips(family, usual, chips)
    return max(fitting, key=lambda machine: (machine.multi_host, -machine.chips))


def _list_of_topology(
    family: Family, usual: Sequence[Machine], topology: str | None
) -> Sequence[Machine]:
    """Return the machines for a leader without chips, if its slice has no other pods yet.

    A topology that no machine has is refused by its own name.
    """
    fitting = [machine for machine in usual if _is_topology_of(family, machine, topology)]
    return fitting or (usual if topology or len(usual) == 1 else ())


def _refuse_chips(family: Family, usual: Iterable[Machine], chips: int | None) -> Rejected:
    return UnsupportedShape(
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

    near = sorted(legal, key=measure)
    others = [
        f"{each.chips} chips per pod ({each.name}) for {topology}"
        for each in family.machines
        if not each.by_name_only and _is_topology_of(family, each, topology)
    ]
    return UnsupportedShape(
        f"not a topology of {machine.name}",
        field=labels.TOPOLOGY,
        value=topology,
        valid="; or ".join([", ".join(near[:_NEAREST_SHOWN]), *others]),
    )
