"""From selectors and chips to machine, hosts and placement: exact, or refused with the nearest."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.model import labels
from shared.model.errors import Rejected, UnsupportedShape
from shared.shapes.catalogue import TPUS, Family, Placement, Shape
from shared.shapes.tpus import count_chips, find_shape, list_topologies
from tests.refusals import refuses

# accelerator, topology, chips per pod -> machine, hosts, placement.
# https://cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus and
# the Cloud TPU pages of each generation.
V5E, V6E, V3, V4, V5P, T7X = (
    "tpu-v5-lite-podslice",
    "tpu-v6e-slice",
    "tpu-v3-slice",
    "tpu-v4-podslice",
    "tpu-v5p-slice",
    "tpu7x",
)
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
LEGAL = [
    (family, machine, topology)
    for family in TPUS.values()
    for machine in family.machines
    for topology in (
        [machine.single_host]
        if not machine.multi_host
        else [each for each in list_topologies(family) if count_chips(each) % machine.chips == 0]
    )
    if topology
]


def look_up(accelerator: str | None, topology: str | None, chips: int | None, machine: str | None = None) -> Shape:
    return find_shape(accelerator=accelerator, topology=topology, chips_per_pod=chips, machine_type=machine)


def look_up_or_hear_why_not(accelerator: str, topology: str, chips: int | None) -> Shape | Rejected:
    try:
        return look_up(accelerator, topology, chips)
    except Rejected as error:
        return error


def refusal(
    accelerator: str | None, topology: str | None, chips: int | None, machine: str | None = None
) -> Rejected:
    with refuses(UnsupportedShape) as refused:
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
    assert len(LEGAL) > 1000
    for family, machine, topology in LEGAL:
        shape = look_up(family.accelerator, topology, machine.chips, machine.name)
        assert shape.node_count * shape.machine.chips == shape.chips == count_chips(topology)
        assert shape.machine.name == machine.name
        assert shape.placement == (family.placement if shape.node_count > 1 else Placement.NONE)


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


def test_two_by_four_is_two_different_pools() -> None:
    """The one topology that two machines can form: the pod's own chips decide."""
    for accelerator in (V5E, V6E):
        one, two = look_up(accelerator, "2x4", 8), look_up(accelerator, "2x4", 4)
        assert (one.node_count, one.placement) == (1, Placement.NONE)
        assert (two.node_count, two.placement) == (2, Placement.COMPACT)


ILLEGAL = [
    # what ceil(chips / 4) would have let through
    (V5E, "1x2", 4, "2x2"),
    (V5E, "3x3", 4, "2x4"),
    (V6E, "2x2", 1, "1x1"),
    (V6E, "4x4", 8, "2x4"),
    (V6E, "4x4", 1, "1x1"),
    (T7X, "1x1x2", 4, "2x2x1"),
    (T7X, "1x2x2", 4, "2x2x1"),
    (T7X, "2x2x1", 1, "1x1x1"),
    # not in the closed lists
    (V6E, "2x8", 4, "4x4"),
    (V6E, "16x32", 4, "16x16"),
    (V6E, "16x8", 4, "8x16"),
    (V3, "2x2", 4, "4x4"),
    ("tpu-v5-lite-device", "4x4", 4, "2x2"),
    # order and cubes
    (V4, "4x8x4", 4, "4x4x8"),
    (V4, "2x2x3", 4, "2x2x4"),
    (V4, "2x4x8", 4, "4x4x4"),
    (V4, "6x8x8", 4, "4x8x12"),
    (V4, "16x16x20", 4, "16x16x16"),
    (V5P, "16x24x24", 4, "16x20x28"),
    (T7X, "24x24x24", 4, "16x24x24"),
]


@pytest.mark.parametrize(("accelerator", "topology", "chips", "near"), ILLEGAL)
def test_an_illegal_topology_is_refused_with_field_value_and_nearest(
    accelerator: str, topology: str, chips: int, near: str
) -> None:
    error = refusal(accelerator, topology, chips)

    assert (error.field, error.value) == (labels.TOPOLOGY, topology)
    assert near in error.valid.partition("; or ")[0].split(", ")
    assert all(part in str(error) for part in (labels.TOPOLOGY, topology, near))


@pytest.mark.parametrize(
    ("accelerator", "topology"),
    [
        *((V6E, topology) for topology in ("1x1x1", "4x4x4", "", "4", "0x4", "04x4", "4X4", "4x4 ", "4x4\n")),
        *((V6E, topology) for topology in ("4x-4", "٤x٤", "99999x4")),
        (T7X, "1x1"),
        (V4, "4x4"),
    ],
)
def test_a_topology_of_another_form_is_refused_with_an_example(accelerator: str, topology: str) -> None:
    error = refusal(accelerator, topology, 4)

    assert error.field == labels.TOPOLOGY
    assert ("4x4x4" if TPUS[accelerator].cubes_max else "4x4") in error.valid


def test_chips_that_do_not_fit_a_topology_have_two_ways_out() -> None:
    error = refusal("tpu-v6e-slice", "4x4", 8)

    assert error.valid == "2x4; or 4 chips per pod (ct6e-standard-4t) for 4x4"


NEAREST = {
    "tpu-v6e": "tpu-v6e-slice",
    "tpu-v3-podslice": "tpu-v4-podslice",
    "tpu-v5-lite": "tpu-v5-lite-device",
} | {"tpu7": "tpu7x", "tpu7xx": "tpu7x", "TPU7X": "tpu7x", "nvidia-l4": "tpu-v6e-slice"}


@pytest.mark.parametrize(("accelerator", "near"), NEAREST.items())
def test_an_unknown_accelerator_is_refused_with_the_nearest(accelerator: str, near: str) -> None:
    error = refusal(accelerator, "4x4", 4)

    assert (error.field, error.value) == (labels.ACCELERATOR, accelerator)
    assert near in error.valid


@pytest.mark.parametrize("accelerator", [None, ""])
def test_no_accelerator_at_all_is_refused_with_all_that_there_are(accelerator: str | None) -> None:
    error = refusal(accelerator, "4x4", 4)

    assert error.field == labels.ACCELERATOR
    assert set(error.valid.split(", ")) == set(TPUS)


@pytest.mark.parametrize("chips", [2, 3, 5, 16, 64])
def test_chips_that_no_machine_has_are_refused_with_those_that_there_are(chips: int) -> None:
    """No machine name is made up: 16 chips are not a ct6e-standard-16t."""
    error = refusal(V6E, "4x4", chips)

    assert labels.TPU_RESOURCE in error.field
    assert error.value == str(chips)
    assert error.valid == "1 (ct6e-standard-1t), 4 (ct6e-standard-4t), 8 (ct6e-standard-8t)"


@pytest.mark.parametrize(
    ("accelerator", "chips", "topology"), [(V6E, 8, "2x4"), (V6E, 4, "2x2"), (V4, 4, "2x2x1"), (T7X, 1, "1x1x1")]
)
def test_without_a_topology_one_host_is_meant(accelerator: str, chips: int, topology: str) -> None:
    shape = look_up(accelerator, None, chips)

    assert (shape.topology, shape.node_count) == (topology, 1)


def test_without_a_topology_a_machine_that_stands_never_alone_is_refused() -> None:
    error = refusal(V3, None, 4)

    assert error.field == labels.TOPOLOGY
    assert error.valid == "4x4, 4x8, 8x8, 8x16"


@pytest.mark.parametrize(
    ("accelerator", "topology", "machine", "hosts"),
    [
        (V6E, "4x4", "ct6e-standard-4t", 4),
        (V6E, "2x4", "ct6e-standard-4t", 2),
        (V6E, "1x1", "ct6e-standard-1t", 1),
        (V5P, "2x2x1", "ct5p-hightpu-4t", 1),
        (T7X, "1x1x1", "tpu7x-standard-1t", 1),
        (V4, None, "ct4p-hightpu-4t", 1),
    ],
)
def test_a_pod_without_chips_gets_the_machine_of_its_topology(
    accelerator: str, topology: str | None, machine: str, hosts: int
) -> None:
    for none in (None, 0):
        shape = look_up(accelerator, topology, none)
        assert (shape.machine.name, shape.node_count) == (machine, hosts)


def test_a_pod_without_chips_hears_of_a_wrong_topology_and_else_of_its_chips() -> None:
    assert refusal(V6E, "3x3", None).field == labels.TOPOLOGY
    assert labels.TPU_RESOURCE in refusal(V6E, None, None).field


def test_a_machine_named_by_the_pod_is_taken() -> None:
    shape = look_up(T7X, "4x4x4", 4, "tpu7x-ultranet-4t")

    assert (shape.machine.name, shape.node_count) == ("tpu7x-ultranet-4t", 16)
    assert look_up(V6E, "2x4", None, "ct6e-standard-8t").node_count == 1
    assert look_up(V6E, "2x4", None, "ct6e-standard-4t").node_count == 2
    assert look_up(T7X, "4x4x4", 4).machine.name == "tpu7x-standard-4t", "this one is chosen by name only"


@pytest.mark.parametrize(
    ("machine", "chips"), [("ct6e-standard-16t", 16), ("ct5lp-hightpu-4t", 4), ("n2-standard-4", None), ("", 4)]
)
def test_a_machine_of_another_family_is_refused_with_those_that_there_are(machine: str, chips: int | None) -> None:
    error = refusal(V6E, "4x4", chips, machine)

    assert error.field == labels.INSTANCE_TYPE
    assert "ct6e-standard-4t (4 chips)" in error.valid


def test_a_named_machine_must_have_the_chips_that_the_pod_asks_for() -> None:
    assert refusal(V6E, "2x4", 4, "ct6e-standard-8t").field == labels.INSTANCE_TYPE


@given(
    family=st.sampled_from([*TPUS.values()]),
    sides=st.lists(st.integers(min_value=1, max_value=40), min_size=1, max_size=4),
    chips=st.sampled_from([None, 0, 1, 2, 4, 8, 16]),
)
def test_whatever_is_asked_hosts_times_chips_is_exact_or_it_is_refused_with_a_hint(
    family: Family, sides: list[int], chips: int | None
) -> None:
    topology = "x".join(map(str, sides))
    shape = look_up_or_hear_why_not(family.accelerator, topology, chips)
    if isinstance(shape, Rejected):
        assert shape.field
        assert shape.valid
        return
    assert shape.node_count * shape.machine.chips == shape.chips == math.prod(sides)
    assert shape.topology == topology
    assert not chips or shape.machine.chips == chips


@given(
    family=st.sampled_from([*TPUS.values()]),
    sides=st.lists(st.integers(min_value=1, max_value=64), min_size=2, max_size=3),
)
def test_every_nearest_shape_that_a_refusal_names_is_itself_accepted(family: Family, sides: list[int]) -> None:
    machine = max(family.machines, key=lambda each: (each.multi_host, not each.by_name_only))
    refused = look_up_or_hear_why_not(family.accelerator, "x".join(map(str, sides)), machine.chips)
    hinted = isinstance(refused, Rejected) and "a topology like" not in refused.valid
    topologies = refused.valid.partition("; or ")[0] if isinstance(refused, Rejected) else ""
    for near in topologies.split(", ") if hinted else ():
        assert look_up(family.accelerator, near, machine.chips).topology == near


def test_the_catalogue_is_consistent() -> None:
    for family in TPUS.values():
        assert family.boot_disks
        assert bool(family.topologies) + bool(family.cubes_max) <= 1
        assert len({machine.name for machine in family.machines}) == len(family.machines)
        for machine in family.machines:
            assert machine.name.endswith(f"-{machine.chips}t")
            assert machine.multi_host or machine.single_host
            if machine.single_host:
                assert count_chips(machine.single_host) == machine.chips


def test_a_new_family_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = {"name": "ct9e-standard-4t", "chips": 4, "multi_host": True, "cpus": 96, "memory_gb": 384}
    row = {"accelerator": "tpu-v9e-slice", "generation": "v9e", "boot_disks": ["hyperdisk-balanced"]}
    family = msgspec.convert(row | {"topologies": ["4x4"], "machines": [machine]}, Family)
    monkeypatch.setitem(TPUS, family.accelerator, family)

    shape = look_up("tpu-v9e-slice", "4x4", 4)

    assert (shape.machine.name, shape.node_count, shape.placement) == ("ct9e-standard-4t", 4, "compact")
