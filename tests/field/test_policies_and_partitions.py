"""What the field writes is read: a team's placement policy, partitions of an RTX PRO 6000."""

import pytest
from msgspec import structs

from shared.model.needs import Way
from tests.field.field_world import FieldWorld, read_input
from tests.field.planned import plan_needs

INPUT = "policies-and-partitions.yaml"


@pytest.mark.parametrize(
    ("workload", "placement"),
    [("of-tpu7x", {"policyName": "team-4x4x4"}), ("of-v6e", {"policyName": "team-4x4", "tpuTopology": "4x4"})],
)
def test_the_pool_has_the_policy_that_its_pods_select(workload: str, placement: dict[str, str]) -> None:
    need = plan_needs(INPUT)[workload]

    assert (need["decision"], need["pools"], need["placement"]) == ("create", 1, placement)
    assert not any("placement-policy" in key for key in need["labels"])


def test_a_pool_of_another_policy_serves_nobody_who_selects_one() -> None:
    world = FieldWorld(read_input(INPUT, "of-tpu7x"))
    world.add_pods_of_jobset()
    world.provision()
    again = world.provision()
    (pool,) = world.gke.pools.values()
    world.gke.pools[pool.name] = structs.replace(pool, policy="another")

    assert (again.plan.adds, pool.policy) == ((), "team-4x4x4")
    assert [act.verb for act in world.provision().plan.adds] == ["create"]


@pytest.mark.parametrize(
    "selector",
    [{"cloud.google.com/placement-policy-name": "no-such"}, {"cloud.google.com/gke-location-hint": "x"}],
)
def test_a_word_that_gke_refuses_refuses_nobody_who_did_not_write_it(selector: dict[str, str]) -> None:
    ways = list[set[Way]]()
    for own in ({}, selector):
        body = read_input(INPUT, "of-v6e")
        spec = body["spec"]["template"]["spec"]
        del spec["affinity"]
        spec["nodeSelector"] |= own
        ways.append(set(FieldWorld(body).provision().look.scene.needs[0].ways))

    assert len(ways[0]) == len(ways[1]) == 1
    assert ways[0].isdisjoint(ways[1])


@pytest.mark.parametrize(("workload", "nodes"), [("halves", 2), ("quarters", 2), ("whole", 1)])
def test_partitions_share_a_gpu(workload: str, nodes: int) -> None:
    need = plan_needs(INPUT)[workload]

    assert (need["machine_type"], need["node_count"]) == ("g4-standard-48", nodes)


def test_a_partition_of_another_gpu_is_refused_with_those_that_it_has() -> None:
    assert "valid: 1g.24gb, 2g.48gb, 4g.96gb" in plan_needs(INPUT)["of-an-h100"]["message"]
