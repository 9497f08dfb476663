"""Writes Terraform's list of slices from the functions' catalogue, so that both agree.

Run as ``python -m infra.build.write_catalogue`` from the repository's root. Names are the public
ones, for example `v4-16`, `v5litepod-16` and `v6e-16`: the row of a family has its prefixes and
says whether a name counts chips or TensorCores. Where several shapes have the same number of chips,
the name with the count means the shape with the fewest hosts, then the most cube-like one. The
others are named by their topology: `v4-4x4x16`.
"""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared.model import labels
from shared.model.errors import Rejected
from shared.model.workloads import PodTemplate
from shared.shapes.catalogue import TPUS, Family
from shared.shapes.tpus import find_shape, list_topologies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.shapes.catalogue import Shape

TARGET = Path(__file__).resolve().parents[1] / "terraform/modules/environment/catalogue.json"
NOTE = "Generated from shared/shapes/tpus.json: change that, then run python -m infra.build.write_catalogue."
_SLICE = re.compile(r'\{\s+("topology": [^{}]+?)\s+\}')


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
    machines: dict[str, dict[str, Any]] = {}
    for name, shape in list_slices().items():
        fields = {
            "generation": shape.family.generation,
            "accelerator": shape.family.accelerator,
            "chips_per_host": shape.machine.chips,
            "boot_disk_type": shape.family.boot_disks[0],
            "quota": shape.family.quota,
            "slices": {},
        }
        slices = machines.setdefault(shape.machine.name, fields)["slices"]
        slices[name] = {"topology": shape.topology, "nodes": shape.node_count, "placement": str(shape.placement)}
    text = json.dumps({"note": NOTE, "machines": machines}, indent=2)
    return _SLICE.sub(lambda match: "{" + " ".join(match[1].split()) + "}", text) + "\n"


def _group_by_public_names() -> dict[tuple[str, ...], list[Family]]:
    groups: dict[tuple[str, ...], list[Family]] = {}
    for family in TPUS.values():
        groups.setdefault(family.public_names, []).append(family)
    return groups


def _list_shapes(family: Family) -> Iterator[Shape]:
    for machine, topology in itertools.product(family.usual, list_topologies(family)):
        asked = {
            labels.ACCELERATOR: family.accelerator,
            labels.TOPOLOGY: topology,
            labels.INSTANCE_TYPE: machine.name,
        }
        template = PodTemplate(selection={key: (value,) for key, value in asked.items()})
        try:
            yield find_shape(template, machine.chips)
        except Rejected:
            continue  # another machine of the family forms this topology


def _by_preference(shape: Shape) -> tuple[int, int, int, int]:
    sides = [int(side) for side in shape.topology.split("x")]
    return shape.chips, shape.node_count, max(sides), sum(sides)


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
