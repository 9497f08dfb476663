#!/usr/bin/env python3
"""Writes Terraform's list of slices from the functions' catalogue, so that both agree.

Names are the public ones, for example `v4-16`, `v5litepod-16` and `v6e-16`: the row of a family has
its prefixes and says whether a name counts chips or TensorCores. Where several shapes have the same
number of chips, the name with the count means the shape with the fewest hosts, then the most
cube-like one. The others are named by their topology: `v4-4x4x16`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":  # as a script, only this folder is on the import path
    sys.path.insert(0, str(ROOT))

from shared.model.errors import Rejected  # noqa: E402 -- after the path
from shared.shapes.catalogue import TPUS, Family  # noqa: E402 -- after the path
from shared.shapes.tpus import find_shape, list_topologies  # noqa: E402 -- after the path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.shapes.catalogue import Shape

TARGET = ROOT / "infra/terraform/modules/environment/catalogue.json"
NOTE = "Generated from shared/shapes/tpus.json by infra/build/write_catalogue.py: change that, then run it."


def list_slices() -> dict[str, Shape]:
    """Return every slice that can be named, by name, in the order of the catalogue."""
    slices: dict[str, Shape] = {}
    for names, families in _group_by_public_names().items():
        shapes = sorted((shape for family in families for shape in _list_shapes(family)), key=_by_preference)
        for prefix in names:
            for shape in shapes:
                counted = f"{prefix}-{shape.chips * families[0].counted_per_chip}"
                name = counted if counted not in slices else f"{prefix}-{shape.topology}"
                if name in slices:
                    raise ValueError(f"{name}: two shapes with one name, {slices[name]} and {shape}")
                slices[name] = shape
    return slices


def render() -> str:
    """Return the file's text: one line for each slice, grouped by machine type."""
    by_machine: dict[str, list[str]] = {}
    families: dict[str, Family] = {}
    chips: dict[str, int] = {}
    for name, shape in list_slices().items():
        families[shape.machine.name], chips[shape.machine.name] = shape.family, shape.machine.chips
        row = {"topology": shape.topology, "nodes": shape.node_count, "placement": str(shape.placement)}
        by_machine.setdefault(shape.machine.name, []).append(f"        {json.dumps(name)}: {json.dumps(row)}")
    machines = [
        f"    {json.dumps(machine)}: {{\n"
        f'      "generation": {json.dumps(families[machine].generation)},\n'
        f'      "accelerator": {json.dumps(families[machine].accelerator)},\n'
        f'      "chips_per_host": {chips[machine]},\n'
        f'      "boot_disk_type": {json.dumps(families[machine].boot_disks[0])},\n'
        f'      "quota": {json.dumps(families[machine].quota)},\n'
        '      "slices": {\n' + ",\n".join(lines) + "\n      }\n    }"
        for machine, lines in by_machine.items()
    ]
    return f'{{\n  "note": {json.dumps(NOTE)},\n  "machines": {{\n' + ",\n".join(machines) + "\n  }\n}\n"


def main() -> int | str:
    """Write the file, or only compare it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if the file is not up to date")
    arguments = parser.parse_args()
    wanted = render()
    if arguments.check:
        if TARGET.exists() and TARGET.read_text(encoding="utf-8") == wanted:
            return 0
        return f"{TARGET.name} differs from the catalogue; run infra/build/write_catalogue.py"
    TARGET.write_text(wanted, encoding="utf-8")
    sys.stdout.write(f"wrote {len(list_slices())} slices to {TARGET.relative_to(ROOT)}\n")
    return 0


def _group_by_public_names() -> dict[tuple[str, ...], list[Family]]:
    groups: dict[tuple[str, ...], list[Family]] = {}
    for family in TPUS.values():
        groups.setdefault(family.public_names, []).append(family)
    return groups


def _list_shapes(family: Family) -> Iterator[Shape]:
    for machine, topology in itertools.product(family.usual, list_topologies(family)):
        try:
            yield find_shape(
                accelerator=family.accelerator,
                topology=topology,
                chips_per_pod=machine.chips,
                machine_type=machine.name,
            )
        except Rejected:
            continue  # another machine of the family forms this topology


def _by_preference(shape: Shape) -> tuple[int, int, int, int]:
    sides = [int(side) for side in shape.topology.split("x")]
    return shape.chips, shape.node_count, max(sides), sum(sides)


if __name__ == "__main__":
    sys.exit(main())
