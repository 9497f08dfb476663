"""From selectors and chips to machine, hosts and placement: exact, or refused with the nearest."""

import re
from typing import Any

import pytest

from shared.model import labels
from shared.model.decisions import Reason
from shared.model.errors import Rejected
from shared.model.workloads import PodTemplate
from shared.shapes.catalogue import DISK_GB_MAX, GIB, TPUS, Placement, Shape, find_disk_size, measure_storage
from shared.shapes.tpus import count_chips, find_shape, list_topologies
from tests.demands import refuses

# accelerator, topology, chips per pod -> machine, hosts, placement.
# https://cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus and
# the Cloud TPU pages of each generation.
V5E, V6E, V3 = "tpu-v5-lite-podslice", "tpu-v6e-slice", "tpu-v3-slice"
V4, V5P, T7X = "tpu-v4-podslice", "tpu-v5p-slice", "tpu7x"
FLAT = [("1x1", 1, 1), ("2x2", 4, 1), ("2x4", 8, 1), ("2x4", 4, 2), ("4x4", 4, 4), ("4x8", 4, 8), ("8x8", 4, 16)]
FLAT += [("8x16", 4, 32), ("16x16", 4, 64)]
LITE = [("1x1", 1), ("2x2", 4), ("2x4", 8)]
V3_HOSTS = {"4x4": 4, "4x8": 8, "8x8": 16, "8x16": 32, "16x16": 64, "16x32": 128, "32x32": 256, "32x64": 512}
CUBIC_HOSTS = (
    {"2x2x1": 1, "2x2x2": 2, "2x2x4": 4, "2x4x4": 8, "4x4x4": 16, "4x4x8": 32, "4x4x12": 48}
    | {"4x8x8": 64, "4x4x20": 80, "4x8x12": 96, "8x8x8": 128, "8x8x12": 192, "8x8x16": 256}
    | {"8x12x12": 288, "8x16x16": 512, "12x16x16": 768, "16x16x16": 1024, "16x16x24": 1536}
    | {"16x20x28": 2240, "16x24x24": 2304}
)
CUBIC = [(V4, "ct4p-hightpu-4t", 4096), (V5P, "ct5p-hightpu-4t", 8960), (T7X, "tpu7x-standard-4t", 9216)]
"""Of each family with cubes the machine, and the most chips of a slice."""
TABLE = [
    ("tpu-v3-device", "2x2", 4, "ct3-hightpu-4t", 1),
    *((V3, topology, 4, "ct3p-hightpu-4t", hosts) for topology, hosts in V3_HOSTS.items()),
    *((V5E, topology, chips, f"ct5lp-hightpu-{chips}t", hosts) for topology, chips, hosts in FLAT),
    *((V6E, topology, chips, f"ct6e-standard-{chips}t", hosts) for topology, chips, hosts in FLAT),
    *(("tpu-v5-lite-device", topology, chips, f"ct5l-hightpu-{chips}t", 1) for topology, chips in LITE),
    (T7X, "1x1x1", 1, "tpu7x-standard-1t", 1),
    *(
        (accelerator, topology, 4, machine, hosts)
        for accelerator, machine, chips_max in CUBIC
        for topology, hosts in CUBIC_HOSTS.items()
        if hosts * 4 <= chips_max
    ),
]


def look_up(accelerator: str | None, topology: str | None, chips: int | None, machine: str | None = None) -> Shape:
    asked = {labels.ACCELERATOR: accelerator, labels.TOPOLOGY: topology, labels.INSTANCE_TYPE: machine}
    template = PodTemplate(selection={key: (value,) for key, value in asked.items() if value is not None})
    return find_shape(template, chips or 0)


def refusal(
    accelerator: str | None, topology: str | None, chips: int | None, machine: str | None = None
) -> Rejected:
    with refuses(Reason.SHAPE_UNSUPPORTED) as refused:
        look_up(accelerator, topology, chips, machine)
    return refused.value


@pytest.mark.parametrize(("accelerator", "topology", "chips", "machine", "hosts"), TABLE)
def test_each_published_shape_gives_its_machine_and_hosts(
    accelerator: str, topology: str, chips: int, machine: str, hosts: int
) -> None:
    shape = look_up(accelerator, topology, chips)

    assert (shape.machine.name, shape.node_count, shape.machine.chips) == (machine, hosts, chips)
    assert shape.topology == topology


def test_every_legal_topology_of_every_machine_gives_exact_hosts_and_several_are_placed_together() -> None:
    count = 0
    for family in TPUS.values():
        for machine in family.machines:
            all_of_it = [each for each in list_topologies(family) if count_chips(each) % machine.chips == 0]
            for topology in all_of_it if machine.multi_host else [machine.single_host]:
                shape = look_up(family.accelerator, topology, machine.chips, machine.name)
                assert shape.node_count * shape.machine.chips == shape.chips == count_chips(topology or "")
                assert shape.machine.name == machine.name
                assert shape.placement == (family.placement if shape.node_count > 1 else Placement.NONE)
                count += 1
    assert count > 1000


@pytest.mark.parametrize(("accelerator", "cubes", "single_hosts"), [(V4, 64, 1), (V5P, 140, 1), (T7X, 144, 2)])
def test_the_rule_of_cubes_gives_every_non_decreasing_shape_up_to_its_bound(
    accelerator: str, cubes: int, single_hosts: int
) -> None:
    by_hand = sum(
        1
        for a in range(1, cubes + 1)
        for b in range(a, cubes // a + 1)
        for c in range(b, cubes // (a * b) + 1)
        if a * b * c <= cubes
    )
    listed = list(list_topologies(TPUS[accelerator]))

    assert len(listed) == len(set(listed)) == single_hosts + 3 + by_hand


@pytest.mark.parametrize(
    ("accelerator", "topology", "chips", "near"),
    [
        # what ceil(chips / 4) would have let through
        *((V5E, "1x2", 4, "2x2"), (V5E, "3x3", 4, "2x4"), (V6E, "2x2", 1, "1x1"), (V6E, "4x4", 1, "1x1")),
        *((T7X, "1x1x2", 4, "2x2x1"), (T7X, "1x2x2", 4, "2x2x1"), (T7X, "2x2x1", 1, "1x1x1")),
        (V6E, "4x4", 8, "2x4; or 4 chips per pod (ct6e-standard-4t) for 4x4"),
        # not in the closed lists
        *((V6E, "2x8", 4, "4x4"), (V6E, "16x32", 4, "16x16"), (V6E, "16x8", 4, "8x16"), (V3, "2x2", 4, "4x4")),
        ("tpu-v5-lite-device", "4x4", 4, "2x2"),
        # order and cubes
        *((V4, "4x8x4", 4, "4x4x8"), (V4, "2x2x3", 4, "2x2x4"), (V4, "2x4x8", 4, "4x4x4")),
        *((V4, "6x8x8", 4, "4x8x12"), (V4, "16x16x20", 4, "16x16x16"), (V5P, "16x24x24", 4, "16x20x28")),
        (T7X, "24x24x24", 4, "16x24x24"),
        # of another form
        *((V6E, topology, 4, "4x4") for topology in ("1x1x1", "4x4x4", "4", "0x4", "04x4", "4X4", "4x4 ")),
        *((V6E, topology, 4, "4x4") for topology in ("4x4\n", "4x-4", "٤x٤", "99999x4")),
        *((T7X, "1x1", 4, "4x4x4"), (V4, "4x4", 4, "4x4x4")),
    ],
)
def test_an_illegal_topology_is_refused_with_field_value_and_nearest(
    accelerator: str, topology: str, chips: int, near: str
) -> None:
    error = refusal(accelerator, topology, chips)

    assert (error.field, error.value) == (labels.TOPOLOGY, topology)
    assert near in (error.valid, *re.findall(r"[\dx]+", error.valid))
    for accepted in re.findall(r"\d+x[\dx]+", error.valid):
        assert look_up(accelerator, accepted, None).topology == accepted
    assert all(part in str(error) for part in (labels.TOPOLOGY, repr(topology), near))


@pytest.mark.parametrize(
    ("accelerator", "near"),
    [
        *(("tpu-v6e", V6E), ("tpu-v3-podslice", V4), ("tpu-v5-lite", "tpu-v5-lite-device"), ("tpu7", T7X)),
        *(("tpu7xx", T7X), ("TPU7X", T7X), ("nvidia-l4", V6E), (None, ", ".join(TPUS)), ("", ", ".join(TPUS))),
    ],
)
def test_an_unknown_accelerator_is_refused_with_the_nearest(accelerator: str | None, near: str) -> None:
    error = refusal(accelerator, "4x4", 4)

    assert (error.field, error.value) == (labels.ACCELERATOR, accelerator or error.value)
    assert set(near.split(", ")) <= set(error.valid.replace(" or ", ", ").split(", "))


@pytest.mark.parametrize("chips", [2, 3, 5, 16, 64])
def test_chips_that_no_machine_has_are_refused_with_those_that_there_are(chips: int) -> None:
    """No machine name is made up: 16 chips are not a ct6e-standard-16t."""
    error = refusal(V6E, "4x4", chips)

    assert labels.TPU_RESOURCE in error.field
    assert error.value == str(chips)
    assert error.valid == "1 (ct6e-standard-1t), 4 (ct6e-standard-4t), 8 (ct6e-standard-8t)"


@pytest.mark.parametrize(
    ("accelerator", "topology", "chips", "machine", "hosts"),
    [
        # without a topology one host is meant
        *((V6E, None, 8, "ct6e-standard-8t", 1), (V6E, None, 4, "ct6e-standard-4t", 1)),
        *((V4, None, 4, "ct4p-hightpu-4t", 1), (T7X, None, 1, "tpu7x-standard-1t", 1)),
        # without chips the machine of the topology
        *((V6E, "4x4", none, "ct6e-standard-4t", 4) for none in (None, 0)),
        *((V6E, "2x4", None, "ct6e-standard-4t", 2), (V6E, "1x1", 0, "ct6e-standard-1t", 1)),
        *((V5P, "2x2x1", None, "ct5p-hightpu-4t", 1), (T7X, "1x1x1", 0, "tpu7x-standard-1t", 1)),
        *((V4, None, none, "ct4p-hightpu-4t", 1) for none in (None, 0)),
    ],
)
def test_what_a_pod_leaves_open_follows_from_the_rest(
    accelerator: str, topology: str | None, chips: int | None, machine: str, hosts: int
) -> None:
    shape = look_up(accelerator, topology, chips)

    assert (shape.machine.name, shape.node_count) == (machine, hosts)


@pytest.mark.parametrize(
    ("asked", "field", "valid"),
    [
        ((V3, None, 4), labels.TOPOLOGY, "4x4, 4x8, 8x8, 8x16"),  # this machine never stands alone
        ((V6E, "3x3", None), labels.TOPOLOGY, "2x4"),
        ((V6E, None, None), labels.TPU_RESOURCE, "4 (ct6e-standard-4t)"),
        ((V6E, "2x4", 4, "ct6e-standard-8t"), labels.INSTANCE_TYPE, "ct6e-standard-4t"),
        ((V6E, "4x4", 16, "ct6e-standard-16t"), labels.INSTANCE_TYPE, "ct6e-standard-4t (4 chips)"),
        ((V6E, "4x4", 4, "ct5lp-hightpu-4t"), labels.INSTANCE_TYPE, "ct6e-standard-4t (4 chips)"),
        ((V6E, "4x4", None, "n2-standard-4"), labels.INSTANCE_TYPE, "ct6e-standard-4t (4 chips)"),
        ((V6E, "4x4", 4, ""), labels.INSTANCE_TYPE, "ct6e-standard-4t (4 chips)"),
    ],
)
def test_what_does_not_follow_is_refused_by_its_field(asked: tuple[Any, ...], field: str, valid: str) -> None:
    error = refusal(*asked)

    assert field in error.field
    assert valid in error.valid


def test_a_machine_named_by_the_pod_is_taken() -> None:
    shape = look_up(T7X, "4x4x4", 4, "tpu7x-ultranet-4t")

    assert (shape.machine.name, shape.node_count) == ("tpu7x-ultranet-4t", 16)
    assert look_up(V6E, "2x4", None, "ct6e-standard-8t").node_count == 1
    assert look_up(V6E, "2x4", None, "ct6e-standard-4t").node_count == 2
    assert look_up(T7X, "4x4x4", 4).machine.name == "tpu7x-standard-4t", "this one is chosen by name only"


# --- what a node leaves to pods, and the boot disk that their ephemeral storage needs ---


@pytest.mark.parametrize(("disk_gb", "allocatable"), [(100, 47_060_071_478), (200, 104_638_878_617)])
def test_a_boot_disk_leaves_what_nodes_of_gke_report(disk_gb: int, allocatable: int) -> None:
    assert measure_storage(disk_gb) == pytest.approx(allocatable, rel=0.001)


@pytest.mark.parametrize(("gib", "disk_gb"), [(0, 100), (43, 100), (45, 110), (80, 170), (120, 250), (600, 800)])
def test_the_disk_is_the_smallest_that_has_the_storage(gib: int, disk_gb: int) -> None:
    assert find_disk_size(gib * GIB, 100) == disk_gb
    assert measure_storage(disk_gb) >= gib * GIB
    assert disk_gb == 100 or measure_storage(disk_gb - 10) < gib * GIB
    assert find_disk_size(10**30, 100) > DISK_GB_MAX
