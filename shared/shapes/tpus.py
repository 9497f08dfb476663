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
from shared.shapes.catalogue import TPUS
from shared.shapes.shape import Placement, Shape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.shapes.catalogue import Machine, TpuFamily

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
    family = _find_family(accelerator)
    if topology is not None:
        _check_topology_form(family, topology)
    machine = _find_machine(family, topology, chips_per_pod or None, machine_type)
    if topology is None:
        if not machine.single_host:
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


def list_topologies(family: TpuFamily) -> list[str]:
    """Return every valid topology of a family, the smallest first within each rule."""
    alone = [machine.single_host for machine in _list_usual(family) if machine.single_host]
    return list(dict.fromkeys((*alone, *_list_slices(family))))


@functools.cache
def _list_slices(family: TpuFamily) -> Mapping[str, None]:
    """Return the topologies of several hosts, in their order."""
    most = family.cubes_max * CUBE_CHIPS
    cubes = (
        f"{a}x{b}x{c}"
        for a in range(4, most // 16 + 1, 4)
        for b in range(a, most // (4 * a) + 1, 4)
        for c in range(b, most // (a * b) + 1, 4)
    )
    below = _BELOW_A_CUBE if family.cubes_max else ()
    return dict.fromkeys((*family.topologies, *below, *cubes))


def _find_family(accelerator: str | None) -> TpuFamily:
    if accelerator and accelerator in TPUS:
        return TPUS[accelerator]
    near = difflib.get_close_matches(accelerator or "", TPUS, n=_NEAREST_SHOWN, cutoff=0.6)
    raise UnsupportedShape(
        "unknown TPU type" if accelerator else "the pod selects no TPU type",
        field=labels.ACCELERATOR,
        value=accelerator or "",
        valid=", ".join(near or sorted(TPUS)),
    )


def _check_topology_form(family: TpuFamily, topology: str) -> None:
    example = "4x4x4" if family.cubes_max else "4x4"
    if not TOPOLOGY_FORM.fullmatch(topology) or topology.count("x") != example.count("x"):
        raise UnsupportedShape(
            f"a topology of {family.accelerator} has {example.count('x') + 1} dimensions",
            field=labels.TOPOLOGY,
            value=topology,
            valid=f"a topology like {example}",
        )


def _find_machine(
    family: TpuFamily, topology: str | None, chips: int | None, machine_type: str | None
) -> Machine:
    if machine_type is not None:
        return _find_machine_by_name(family, machine_type, chips)
    fitting = _list_fitting(family, topology, chips)
    if fitting:
        return max(fitting, key=lambda machine: (machine.multi_host, -machine.chips))
    raise UnsupportedShape(
        f"no {family.accelerator} machine has this many chips per host" if chips else "missing",
        field=f"resources.{labels.TPU_RESOURCE} (sum over containers)",
        value=str(chips) if chips else "",
        valid=", ".join(f"{machine.chips} ({machine.name})" for machine in _list_usual(family)),
    )


def _list_fitting(family: TpuFamily, topology: str | None, chips: int | None) -> list[Machine]:
    """Return the machines with so many chips a host.

    For a leader without chips the other pods of the slice decide, else the topology; one that no
    machine has is refused by its own name.
    """
    usual = _list_usual(family)
    if chips is not None:
        return [machine for machine in usual if machine.chips == chips]
    fitting = [machine for machine in usual if _is_topology_of(family, machine, topology)]
    return fitting or (usual if topology or len(usual) == 1 else [])


def _list_usual(family: TpuFamily) -> list[Machine]:
    return [machine for machine in family.machines if not machine.by_name_only]


def _find_machine_by_name(family: TpuFamily, machine_type: str, chips: int | None) -> Machine:
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


def _is_topology_of(family: TpuFamily, machine: Machine, topology: str | None) -> bool:
    if topology and topology == machine.single_host:
        return True
    return machine.multi_host and topology in _list_slices(family)


def _check_topology_of_machine(family: TpuFamily, machine: Machine, topology: str) -> None:
    if _is_topology_of(family, machine, topology):
        return
    wanted = count_chips(topology)
    legal = [each for each in list_topologies(family) if _is_topology_of(family, machine, each)]
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
