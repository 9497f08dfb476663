"""The slices that Terraform can make, and the functions' catalogue that they are written from."""

import json
from typing import Any

from infra.build.write_catalogue import TARGET, list_slices, render
from tests.demands import a_demand, a_pool_body

OTHERS = {
    "v4-4096": ("ct4p-hightpu-4t", "8x16x16", 512),
    "v5litepod-16": ("ct5lp-hightpu-4t", "4x4", 4),
    "v3-8": ("ct3-hightpu-4t", "2x2", 1),
    "v5e-1": ("ct5lp-hightpu-1t", "1x1", 1),
    "v5e-8": ("ct5lp-hightpu-8t", "2x4", 1),
    "v5p-8": ("ct5p-hightpu-4t", "2x2x1", 1),
    "v5p-128": ("ct5p-hightpu-4t", "4x4x4", 16),
    "v6e-8": ("ct6e-standard-8t", "2x4", 1),
    "v6e-256": ("ct6e-standard-4t", "16x16", 64),
    "tpu7x-8": ("tpu7x-standard-4t", "2x2x1", 1),
    "tpu7x-16": ("tpu7x-standard-4t", "2x2x2", 2),
}
"""As https://cloud.google.com/tpu/docs lists them: machine type, topology, hosts."""


def written() -> dict[str, dict[str, Any]]:
    """Return the slices of the file by name, each with what its machine type says."""
    machines = json.loads(TARGET.read_text())["machines"]
    return {
        name: {**slice_, "machine_type": machine_type, **{key: machine[key] for key in machine if key != "slices"}}
        for machine_type, machine in machines.items()
        for name, slice_ in machine["slices"].items()
    }


def what_would_come(row: dict[str, Any]) -> tuple[str, int, str]:
    """Return machine type, hosts and placement of the pool that the functions would create."""
    demand = a_demand(accelerator=row["accelerator"], topology=row["topology"], chips=row["chips_per_host"])
    pool = a_pool_body(demand)
    placement = pool.get("placementPolicy", {})
    kind = "workload-policy" if "policyName" in placement else placement.get("type", "none").lower()
    return pool["config"]["machineType"], pool["initialNodeCount"], kind


def test_the_file_is_what_the_catalogue_says() -> None:
    assert TARGET.read_text() == render(), "run: python -m infra.build.write_catalogue"


def test_a_public_name_means_the_public_shape() -> None:
    slices = written()

    assert {
        name: (slices[name]["machine_type"], slices[name]["topology"], slices[name]["nodes"]) for name in OTHERS
    } == OTHERS


def test_a_static_slice_is_the_one_that_would_come_on_demand() -> None:
    shapes, slices = list_slices(), written()

    assert {name: what_would_come(fields) for name, fields in slices.items()} == {
        name: (fields["machine_type"], fields["nodes"], fields["placement"]) for name, fields in slices.items()
    }
    disks = {name: fields["boot_disk_type"] for name, fields in slices.items()}
    assert {name: disk for name, disk in disks.items() if disk not in shapes[name].family.boot_disks} == {}
