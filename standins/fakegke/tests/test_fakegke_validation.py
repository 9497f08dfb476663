"""Which node pools the fake GKE accepts and which it refuses, with the field and the value in the
text.
"""

from typing import Any

import pytest
from google.cloud import container_v1

from standins.fakegke.model.machine_zones import check_zone
from standins.fakegke.model.machines import TPU_MACHINES, hosts_for
from standins.fakegke.tests.fakegke_worlds import (
    EMPTY,
    FLEX_START,
    InProcessWorld,
    cpu_pool,
    reserved,
    slice_pool,
    specific_reservation,
)

COMPACT = 1
FLEX: dict[str, Any] = {**EMPTY, "config": FLEX_START}


def _ironwood(policy: dict[str, Any]) -> container_v1.NodePool:
    return slice_pool(config={"machine_type": "tpu7x-standard-4t"}, placement_policy=policy)


def _refusal_text(pool: container_v1.NodePool) -> str:
    model = InProcessWorld(machines_everywhere=False)
    request = {"parent": model.parent, "node_pool": pool}
    refusal = model.refusal(lambda: model.client.create_node_pool(request=request))
    assert refusal.code == "INVALID_ARGUMENT"
    assert model.pools() == []
    return refusal.text


REFUSED: list[tuple[container_v1.NodePool, str]] = [
    (slice_pool("a" * 41), "Must be a match of regex"),
    (slice_pool("1-pool"), "Must be a match of regex"),
    (slice_pool("Pool_1"), 'Invalid value for field "node_pool.name": "Pool_1". Must be a match of regex'),
    (slice_pool("pool-"), "Must be a match of regex"),
    (slice_pool(config={"machine_type": "ct6e-standard-16t"}), '"ct6e-standard-16t". No such machine type'),
    (slice_pool(config={"machine_type": "banana"}), '"banana". No such machine type'),
    (slice_pool(placement_policy={"type_": COMPACT, "tpu_topology": "3x3"}), '"3x3". Not a valid TPU topology'),
    (slice_pool(placement_policy={"type_": COMPACT, "tpu_topology": "4x4x4"}), "Not a valid TPU topology"),
    (slice_pool(config={"machine_type": "ct6e-standard-8t"}), "Not a valid TPU topology for machine type"),
    (slice_pool(locations=["us-east5-a", "us-east5-b"]), "exactly one zone"),
    (slice_pool(locations=["us-west1-a"]), "Must be a zone of region us-east5"),
    (slice_pool(locations=["us-east5-x"]), '"node_pool.locations": "us-east5-x". Unknown zone.'),
    (
        slice_pool(
            config={"machine_type": "ct4p-hightpu-4t"},
            placement_policy={"type_": COMPACT, "tpu_topology": "2x2x4"},
            locations=["us-east5-b"],
        ),
        'Invalid machine type "ct4p-hightpu-4t" in zone "us-east5-b": GCE_NOT_FOUND.',
    ),
    (cpu_pool(config={"machine_type": "g2-standard-4"}), 'type "g2-standard-4" in zone "us-east5-b": GCE_NOT'),
    (
        cpu_pool(
            config={
                "machine_type": "n1-standard-4",
                "accelerators": [{"accelerator_type": "nvidia-tesla-t4", "accelerator_count": 1}],
            }
        ),
        'Accelerator type "nvidia-tesla-t4" does not exist in zone us-east5-b.',
    ),
    (
        slice_pool(config={"machine_type": "tpu7x-standard-4t"}, initial_node_count=1, placement_policy={}),
        'Invalid machine type "tpu7x-standard-4t" in zone "us-east5-b": GCE_NOT_FOUND.',
    ),
    (
        slice_pool(config={"machine_type": "ct3-hightpu-4t"}, initial_node_count=1, placement_policy={}),
        'Invalid machine type "ct3-hightpu-4t" in zone "us-east5-b": GCE_NOT_FOUND.',
    ),
    (slice_pool(initial_node_count=5), '5 is not a valid size of TPU pod slice with topology "4x4"'),
    (
        slice_pool(autoscaling={"enabled": True, "total_max_node_count": 4}),
        "0 is not a valid size of TPU pod slice",
    ),
    (cpu_pool(placement_policy={"tpu_topology": "4x4"}), "is not a TPU machine"),
    (cpu_pool(initial_node_count=1001), "Must be 0 to 1000"),
    (cpu_pool(initial_node_count=-1), "Must be 0 to 1000"),
    (cpu_pool(max_pods_constraint={"max_pods_per_node": 300}), "Must be 8 to 256"),
    (cpu_pool(autoscaling={"enabled": True, "min_node_count": 3, "max_node_count": 2}), "Must not exceed 2"),
    (slice_pool(config={"disk_type": "pd-ssd"}), '"pd-ssd". ct6e-standard-4t accepts only: hyperdisk-balanced'),
    (
        slice_pool(config={"machine_type": "ct5lp-hightpu-4t", "disk_type": "hyperdisk-balanced"}),
        "ct5lp-hightpu-4t accepts only: pd-balanced, pd-ssd",
    ),
    (cpu_pool(config={"disk_size_gb": 5}), "Must be 10 to 65536"),
    (cpu_pool(config={"disk_size_gb": 50, "boot_disk": {"size_gb": 50}}), "config.boot_disk excludes"),
    (cpu_pool(management={"auto_repair": True}), "Auto_upgrade must be true when release_channel REGULAR is set."),
    (slice_pool(config={"preemptible": True}), "spot and preemptible exclude each other"),
    (
        slice_pool(config={"reservation_affinity": specific_reservation("res-1")}),
        "spot and reservation_affinity exclude",
    ),
    (slice_pool(config={"flex_start": True}), "spot and flex_start exclude each other"),
    (slice_pool(config=reserved()), "Must be one value"),
    (slice_pool(config=reserved("a", "b")), "Must be one value"),
    (
        slice_pool(
            config={"spot": False, "reservation_affinity": {"consume_reservation_type": "ANY_RESERVATION"}}
        ),
        "TPU node pools consume specific reservations only",
    ),
    (
        slice_pool(config={"spot": False, "reservation_affinity": {"key": "x"}}),
        "need consume_reservation_type SPECIFIC_RESERVATION",
    ),
    (slice_pool(**{**FLEX, "autoscaling": {}}), "Flex start node pools require autoscaling enabled"),
    (slice_pool(**{**FLEX, "initial_node_count": 4}), "require initial node count to be set to 0"),
    (slice_pool(**{**FLEX, "management": {"auto_repair": True}}), "require auto repair to be disabled"),
    (
        slice_pool(
            placement_policy={"type_": COMPACT, "tpu_topology": "2x2x4"},
            **{**FLEX, "config": {**FLEX["config"], "machine_type": "ct4p-hightpu-4t"}},
        ),
        "does not support flex start",
    ),
    (cpu_pool(queued_provisioning={"enabled": True}), "Queued provisioning requires autoscaling enabled"),
    (slice_pool(config={"labels": {"k": "v" * 64}}), "at most 63 characters"),
    (slice_pool(config={"labels": {f"key-{n}": "v" * 60 for n in range(20)}}), "in total"),
    (slice_pool(config={"labels": {"bad key": "v"}}), '"bad key"'),
    (slice_pool(config={"labels": {"kubernetes.io/os": "linux"}}), "reserved for Kubernetes"),
    (slice_pool(config={"labels": {"topology.kubernetes.io/zone": "z"}}), "reserved for Kubernetes"),
    (slice_pool(config={"labels": {"cloud.google.com/gke-tpu-topology": "8x8"}}), "GKE writes this label itself"),
    (slice_pool(config={"resource_labels": {"Upper": "x"}}), "[a-z][-a-z0-9_]"),
    (slice_pool(config={"resource_labels": {"a": "Upper"}}), "[-a-z0-9_]{0,63}"),
    (slice_pool(config={"tags": ["Bad_Tag"]}), '"Bad_Tag"'),
    (slice_pool(config={"taints": [{"key": "a", "value": "b"}]}), "Must be one of NO_SCHEDULE"),
    (_ironwood({"type_": COMPACT, "tpu_topology": "2x2x4"}), "need a workload policy"),
    (_ironwood({"policy_name": "somebody-elses-2x2x4"}), "No such resource policy exists in region us-east5"),
    (
        _ironwood({"policy_name": "tpu-provisioner-2x2x4", "tpu_topology": "2x2x2"}),
        'Policy "tpu-provisioner-2x2x4" is for topology "2x2x4"',
    ),
    (_ironwood({"policy_name": "tpu-provisioner-2x2x4", "type_": COMPACT}), "exclude each other"),
]


@pytest.mark.parametrize(("pool", "fragment"), REFUSED, ids=[fragment[:40] for _, fragment in REFUSED])
def test_a_pool_that_gke_would_not_take_is_refused_with_its_reason(
    pool: container_v1.NodePool, fragment: str
) -> None:
    assert fragment in _refusal_text(pool)


ACCEPTED: list[container_v1.NodePool] = [
    slice_pool(),
    slice_pool(placement_policy={"tpu_topology": "4x4"}),
    slice_pool(config={"labels": {"cloud.google.com/gke-tpu-topology": "4x4", "alpha.jobset.sigs.k8s.io/x": "y"}}),
    slice_pool(config=reserved("projects/p/reservations/r")),
    slice_pool(config=reserved("projects/p/reservations/r/reservationBlocks/b")),
    slice_pool(**FLEX),
    _ironwood({"policy_name": "projects/p/regions/us-east5/resourcePolicies/tpu-provisioner-2x2x4"}),
    slice_pool(initial_node_count=1, placement_policy={}),
    slice_pool(initial_node_count=1, placement_policy={}, config={"machine_type": "ct6e-standard-8t"}),
    slice_pool(initial_node_count=2, placement_policy={"type_": COMPACT, "tpu_topology": "2x4"}),
    cpu_pool(),
    cpu_pool(config={"machine_type": "a3-highgpu-8g"}),
    cpu_pool(config={"boot_disk": {"size_gb": 50, "disk_type": "pd-ssd"}}),
]


@pytest.mark.parametrize("pool", ACCEPTED)
def test_a_pool_that_gke_would_take_becomes_running(pool: container_v1.NodePool) -> None:
    model = InProcessWorld()
    model.client.create_node_pool(parent=model.parent, node_pool=pool)
    model.advance(700)
    assert [shown.status.name for shown in model.pools()] == ["RUNNING"]


def test_with_machines_everywhere_a_zone_that_does_not_exist_has_none() -> None:
    model = InProcessWorld()

    def create(name: str, zone: str) -> object:
        config = {"machine_type": "ct4p-hightpu-4t"}
        placement = {"type_": COMPACT, "tpu_topology": "2x2x4"}
        pool = slice_pool(name, config=config, locations=[zone], placement_policy=placement, initial_node_count=4)
        return model.client.create_node_pool(request={"parent": model.parent, "node_pool": pool})

    create("pool-1", "us-east5-b")
    assert [pool.name for pool in model.pools()] == ["pool-1"]
    assert "Unknown zone." in model.refusal(lambda: create("pool-2", "us-east5-x")).text


def test_a_cluster_without_a_release_channel_takes_pools_without_upgrades_and_no_exclusion() -> None:
    model = InProcessWorld(scenario={"release_channel": "UNSPECIFIED"})
    exclusion = {"exclusion_until_end_of_support": {"enabled": True}}
    model.client.create_node_pool(parent=model.parent, node_pool=cpu_pool(management={"auto_repair": True}))
    request = {"parent": model.parent, "node_pool": cpu_pool("second", maintenance_policy=exclusion)}
    refusal = model.refusal(lambda: model.client.create_node_pool(request=request))

    assert (refusal.code, "release channel" in refusal.text) == ("INVALID_ARGUMENT", True)
    assert not model.pools()[0].management.auto_upgrade


@pytest.mark.parametrize(
    ("machine", "topology", "hosts"),
    [
        ("ct6e-standard-1t", "1x1", 1),
        ("ct6e-standard-4t", "2x2", 1),
        ("ct6e-standard-8t", "2x4", 1),
        ("ct6e-standard-4t", "2x4", 2),
        ("ct6e-standard-4t", "16x16", 64),
        ("ct5lp-hightpu-8t", "4x4", 0),
        ("ct5lp-hightpu-4t", "2x8", 0),
        ("ct3p-hightpu-4t", "2x2", 0),
        ("ct3p-hightpu-4t", "4x4", 4),
        ("ct5p-hightpu-4t", "2x2x1", 1),
        ("ct5p-hightpu-4t", "4x4x8", 32),
        ("ct5p-hightpu-4t", "4x8x4", 0),
        ("ct5p-hightpu-4t", "1x2x2", 0),
        ("tpu7x-standard-4t", "16x24x24", 2304),
        ("tpu7-standard-4t", "8x8x8", 0),
        ("ct4p-hightpu-4t", "12x16x16", 768),
    ],
)
def test_hosts_of_a_topology_are_exact_or_none(machine: str, topology: str, hosts: int) -> None:
    assert hosts_for(TPU_MACHINES[machine], topology) == hosts


def test_known_reservations_are_the_only_ones_and_hold_only_so_many_machines() -> None:
    elsewhere = {"name": "res-2", "zone": "us-east5-a"}
    model = InProcessWorld({"reservations": [{"name": "res-1", "machines": 6}, elsewhere]})
    known = reserved("res-1")
    unknown = reserved("res-2")
    assert model.created("first", config=known).error.code == 0
    full = model.created("second", config=known)
    assert "Specified reservation res-1 does not have available resources" in full.error.message
    missing = model.created("third", config=unknown)
    assert missing.error.message == "Specified reservations [res-2] do not exist."
    model.delete("first")
    model.advance(700)
    assert model.created("fourth", config=known).error.code == 0


def test_a_broken_pool_that_was_granted_machines_keeps_them() -> None:
    model = InProcessWorld({"reservations": [{"name": "res-1", "machines": 4}]})
    known = reserved("res-1")
    model.add_fault(switch="outcome", kind="internal", pool="broken")
    model.created("broken", config=known)
    assert model.created("starved", config=known).error.code == 8


def test_policies_can_be_listed_in_the_scenario() -> None:
    model = InProcessWorld({"policies": [{"name": "ring", "region": "us-east5", "topology": "2x2x4"}]})
    done = model.created(config={"machine_type": "tpu7x-standard-4t"}, placement_policy={"policy_name": "ring"})
    assert done.error.code == 0


@pytest.mark.parametrize(
    ("raw", "fragment"),
    [
        ({"polices": []}, "polices"),
        ({"timings": {"create_slice": "long"}}, "create_slice"),
        ({"faults": "all"}, "faults: a list is wanted"),
        ("text", "a list of faults or a mapping"),
    ],
)
def test_a_malformed_scenario_is_refused_by_name(raw: object, fragment: str) -> None:
    with pytest.raises(ValueError, match=fragment):
        InProcessWorld(raw)


@pytest.mark.parametrize(
    ("accelerator", "zone"),
    [
        ("tpu7x", "us-central1-ai1a"),
        ("tpu-v6e-slice", "us-south1-ai1b"),
        ("nvidia-l4", "europe-west4-c"),
        ("", "a-b1-c"),
    ],
)
def test_a_machine_is_accepted_in_a_zone_of_the_list(accelerator: str, zone: str) -> None:
    check_zone("any", accelerator, zone, attached=False)
