"""What holds for every kind of workload: kinds left out, slices with several leaders, odd names."""

import dataclasses

import pytest

from shared.core import labels
from shared.core.errors import NameUnfit
from shared.core.identity.names import build_owner_labels, parse_owner
from tests.builders import CLUSTER, NOW, a_claim, a_demand_event, a_jobset, a_pod, a_pool, an_over_event
from tests.component.world import World
from tests.unit.test_kind_job import a_job
from tests.unit.test_kind_job import a_pod as a_job_pod


def test_a_kind_that_the_setting_leaves_out_gets_nothing_and_keeps_what_it_has(world: World) -> None:
    world.use(kinds=())

    assert world.deliver(a_demand_event()).status == 200
    assert world.says() == ("nothing", "kind_not_served")
    world.pools.add(CLUSTER, a_pool())
    world.cluster.workloads.clear()
    assert world.collect(an_over_event("deleted")).status == 200
    assert world.says() == ("keep", "owner_unknown")
    world.sweep()
    assert world.pools.count("delete") == world.pools.count("create") == 0


def test_hosts_that_differ_from_the_topology_are_refused_where_the_kind_says_how_many(world: World) -> None:
    jobset = a_jobset()
    groups = tuple(dataclasses.replace(group, hosts=3) for group in jobset.groups)
    world.cluster.add(dataclasses.replace(jobset, groups=groups))

    world.deliver(a_demand_event())

    assert world.says() == ("refuse", "hosts_differ")
    assert "(got '3'); valid: 4" in next(iter(world.cluster.notices)).message
    assert world.pools.calls == []


@pytest.mark.parametrize("name", ["s" * 64, "-s", "s_", "two words"])
def test_a_name_that_is_no_label_value_is_refused_and_never_cut(name: str) -> None:
    claim = a_claim(slice_key=f"default/{name}")

    with pytest.raises(NameUnfit, match=r"metadata\.name: .* no value of a label"):
        build_owner_labels(claim, attempt=0, created_at=1, fingerprint="1-a")


def test_a_name_that_is_too_long_has_its_own_reason_and_costs_no_create(world: World) -> None:
    name = "train" * 10
    pod = a_pod(jobset=name, job="workers-of-eu")
    world.cluster.add(pod, a_jobset(name=name, job="workers-of-eu"))

    world.deliver(a_demand_event(pod))

    assert world.says() == ("refuse", "name_unfit")
    assert "a shorter name" in world.last["message"]
    assert world.pools.calls == [("list", "")]


@pytest.mark.parametrize("name", ["eval-any-policy", f"{'x' * 52}-any-policy"])
def test_a_job_that_is_called_like_an_elastic_pool_keeps_its_slice(world: World, name: str) -> None:
    pod = dataclasses.replace(
        a_job_pod(name=name), name=f"{name}-0", uid="0", unschedulable=True, unschedulable_since=NOW - 60
    )
    world.cluster.pods.clear()
    world.cluster.add(pod, a_job(metadata={"name": name}))
    world.deliver(a_demand_event(pod))
    pool = world.expect_one_pool()
    world.pools.move(CLUSTER, pool, "RUNNING")
    world.cluster.nodes[pool] = [f"n{index}" for index in range(4)]
    world.cluster.pods.clear()
    world.clock.advance(3600)

    _, counts = world.sweep()

    assert (counts["keep"], world.pools.count("delete"), world.pools.count("measure")) == (1, 0, 0)


def test_a_pool_of_a_kind_that_this_version_does_not_know_is_not_ours_to_touch(world: World) -> None:
    pool_labels = {
        labels.MANAGER: labels.MANAGER_VALUE,
        labels.PARENT_NAMESPACE: "default",
        labels.WORKLOAD_KIND: "Nonesuch",
        labels.WORKLOAD_NAME: "train",
    }
    world.pools.add(CLUSTER, dataclasses.replace(a_pool(), name="of-a-later-version", labels=pool_labels))
    world.cluster.workloads.clear()

    assert parse_owner(pool_labels) is None
    world.sweep()
    assert world.pools.count("delete") == 0
