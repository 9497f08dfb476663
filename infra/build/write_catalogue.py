#!/usr/bin/env python3
"""Writes the slices that Terraform can make from the catalogue that the functions use, so that there is one truth.

Names are the public ones: `v4-16`, `v5litepod-16` (or `v5e-16`), `v5p-128`, `v6e-16`, `tpu7x-16`. A name counts
TensorCores where a chip has two (v3, v4, v5p, tpu7x) and chips where it has one (v5e, v6e):
https://cloud.google.com/tpu/docs/supported-tpu-configurations. Of several shapes with as many chips, the count
means the one with the fewest hosts, then the most cube-like; the others are named by topology: `v4-4x4x16`.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":  # as a script, only this folder is on the import path
    sys.path.insert(0, str(ROOT))

from shared.core.catalogue import FAMILIES, Family, Machine  # noqa: E402 -- after the path
from shared.core.errors import UnsupportedShape  # noqa: E402 -- after the path
from shared.core.shapes import Shape, find_shape, list_topologies  # noqa: E402 -- after the path

if TYPE_CHECKING:
    from collections.abc import Iterator

TARGET = ROOT / "infra/terraform/modules/environment/catalogue.json"
NOTE = "Generated from shared/core/catalogue.py by infra/build/write_catalogue.py: change that, then run it."


@dataclass(frozen=True)
class Naming:
    """How the slices of a generation are called in public."""

    prefixes: tuple[str, ...]
    counted_per_chip: int
    """2 where a name counts the TensorCores of two-core chips, 1 where it counts chips."""


NAMINGS = {
    "v3": Naming(("v3",), 2),
    "v4": Naming(("v4",), 2),
    "v5e": Naming(("v5litepod", "v5e"), 1),
    "v5p": Naming(("v5p",), 2),
    "v6e": Naming(("v6e",), 1),
    "tpu7x": Naming(("tpu7x",), 2),
}
UNNAMED_ACCELERATORS = ("tpu-v5-lite-device",)
"""The older, single-host variant of v5e has the same public names; they mean its successor."""


def list_slices() -> dict[str, Shape]:
    """Return every slice that can be named, by name, in the order of the catalogue."""
    slices: dict[str, Shape] = {}
    for generation, naming in NAMINGS.items():
        shapes = sorted(_list_shapes(generation), key=_by_preference)
        for prefix in naming.prefixes:
            for shape in shapes:
                counted = f"{prefix}-{shape.chips * naming.counted_per_chip}"
                name = counted if counted not in slices else f"{prefix}-{shape.topology}"
                if name in slices:
                    raise ValueError(f"{name}: two shapes with one name, {slices[name]} and {shape}")
                slices[name] = shape
    return slices


def render() -> str:
    """Return the file's text: one line for each slice, grouped by machine type."""
    by_machine: dict[str, list[str]] = {}
    shapes: dict[str, Shape] = {}
    for name, shape in list_slices().items():
        shapes[shape.machine_type] = shape
        said = {"topology": shape.topology, "nodes": shape.node_count, "placement": str(shape.placement)}
        by_machine.setdefault(shape.machine_type, []).append(f"        {json.dumps(name)}: {json.dumps(said)}")
    machines = [
        f"    {json.dumps(machine)}: {{\n"
        f'      "generation": {json.dumps(shapes[machine].generation)},\n'
        f'      "accelerator": {json.dumps(shapes[machine].accelerator)},\n'
        f'      "chips_per_host": {shapes[machine].chips_per_host},\n'
        f'      "boot_disk_type": {json.dumps(shapes[machine].boot_disks[0])},\n'
        '      "slices": {\n' + ",\n".join(lines) + "\n      }\n    }"
        for machine, lines in by_machine.items()
    ]
    return f'{{\n  "note": {json.dumps(NOTE)},\n  "machines": {{\n' + ",\n".join(machines) + "\n  }\n}\n"


def main() -> int:
    """Write the file, or only compare it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if it is not up to date")
    arguments = parser.parse_args()
    wanted = render()
    if arguments.check:
        if TARGET.exists() and TARGET.read_text(encoding="utf-8") == wanted:
            return 0
        sys.stderr.write(f"{TARGET.name} is not what the catalogue says; run infra/build/write_catalogue.py\n")
        return 1
    TARGET.write_text(wanted, encoding="utf-8")
    sys.stdout.write(f"wrote {len(list_slices())} slices to {TARGET.relative_to(ROOT)}\n")
    return 0


def _list_shapes(generation: str) -> Iterator[Shape]:
    for family in FAMILIES:
        if family.generation != generation or family.accelerator in UNNAMED_ACCELERATORS:
            continue
        for machine in family.machines:
            if not machine.by_name_only:
                yield from _shapes_of(family, machine)


def _shapes_of(family: Family, machine: Machine) -> Iterator[Shape]:
    for topology in list_topologies(family):
        try:
            yield find_shape(
                accelerator=family.accelerator,
                topology=topology,
                chips_per_pod=machine.chips,
                machine_type=machine.name,
            )
        except UnsupportedShape:
            continue  # another machine of the family forms this topology


def _by_preference(shape: Shape) -> tuple[int, int, int, int]:
    sides = [int(side) for side in shape.topology.split("x")]
    return shape.chips, shape.node_count, max(sides), sum(sides)


if __name__ == "__main__":
    sys.exit(main())
