"""Which pools a workload needs: a slice that waits gets one, none is bought twice, a spare goes."""

import dataclasses
import re
from typing import Any

import pytest

from shared.core import labels
from shared.core.identity.names import build_pool_name
from shared.core.workloads import PodView
from tests.builders import (
    CLUSTER,
    JOBSET_UID,
    NOW,
    a_demand,
    a_demand_event,
    a_foreign_pool,
    a_jobset,
    a_pod,
    a_pool,
    an_over_event,
)
from tests.component.test_component_pool_use import RAYCLUSTER, RayWorld, name_of_slot
from tests.component.world import Records, World, claim_of, slice_name

HOSTS = 4
EARLIER_UID = "0a5d2f51-1111-4b7e-9a52-0d9f0f0c1a00"


class JobSetWorld(World):
    """JobSet ``default/train`` with two default-placed slices of four hosts."""

    def __init__(self, records: Records, *, replicas: int = 2) -> None:
        super().__init__(records)
        self.cluster.pods.clear()
        jobset = a_jobset(replicas=replicas, created_at=NOW - 3600)
        group = dataclasses.replace(jobset.groups[0], pods=HOSTS)
        self.cluster.add(dataclasses.replace(jobset, groups=(group,)))

    def set_fingerprint(self, name: str, fingerprint: str, **changes: Any) -> None:
        """Let a pool say another fingerprint, and be otherwise changed."""
        pool = self.pools.pools[CLUSTER, name]
        own = {**pool.labels, labels.FINGERPRINT: fingerprint}
        self.pools.add(CLUSTER, dataclasses.replace(pool, labels=own, **changes))

    def add_pool(self, index: int, status: str = "RUNNING", *, attempt: int = 0, uid: str = JOBSET_UID) -> str:
        claim = dataclasses.replace(claim_of(index), owner_uid=uid)
        name = build_pool_name(claim, attempt)
        own = {labels.ATTEMPT: str(attempt)}
        self.pools.add(CLUSTER, a_pool(status, claim=claim, name=name, extra_labels=dict(own), age_seconds=3600))
        self.cluster.nodes[name] = [f"{name}-n{host}" for host in range(HOSTS)]
        return name

    def pod(self, index: int, host: int, **fields: object) -> PodView:
        """Add one pod of a slice, as its Job's controller makes it."""
        name = f"train-workers-{index}-{host}"
        pod_labels = {labels.COMPLETION_INDEX: str(host)}
        plain = {"name": name, "uid": name, "pod_labels": pod_labels, "created_at": NOW - 3600}
        found = a_pod(index=index, **{**plain, **fields})  # type: ignore[arg-type]  # a builder of any field
        self.cluster.add(found)
        return found

    def run(self, index: int, pool: str, *, hosts: tuple[int, ...] = tuple(range(HOSTS))) -> None:
        """Let hosts of a slice run on the nodes of a pool."""
        for host in hosts:
            node = self.cluster.nodes[pool][host]
            self.pod(index, host, node_name=node, phase="Running", unschedulable=False)

    def wait(self, index: int, *, seconds: float = 30.0, created_at: float = NOW - 60) -> PodView:
        """Let all hosts of a slice wait; return its leader."""
        pods = [
            self.pod(index, host, unschedulable_since=NOW - seconds, created_at=created_at)
            for host in range(HOSTS)
        ]
        return pods[0]


@pytest.fixture
def jobsets(records: Records) -> JobSetWorld:
    return JobSetWorld(records)


# --- a slice starves ------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["message", "sweep"])
@pytest.mark.parametrize(("taken", "attempt"), [((), 1), ((1,), 2)], ids=["a free name", "a name of others"])
def test_a_slice_whose_pool_another_slice_took_for_want_of_its_own_gets_one_more(
    jobsets: JobSetWorld, taken: tuple[int, ...], attempt: int, by: str
) -> None:
    jobsets.run(0, jobsets.add_pool(1))
    leader = jobsets.wait(1)
    jobsets.pools.add(CLUSTER, *(a_foreign_pool(slice_name(1, each)) for each in taken))

    for _ in range(3):
        jobsets.deliver(a_demand_event(leader)) if by == "message" else jobsets.sweep()

    assert jobsets.alive() == {slice_name(1), *(slice_name(1, each) for each in taken), slice_name(1, attempt)}
    assert [body["name"] for body in jobsets.pools.bodies] == [slice_name(1, attempt)]


def test_a_slice_whose_pool_another_slice_took_waits_for_the_other_s_empty_one(jobsets: JobSetWorld) -> None:
    jobsets.add_pool(0)
    jobsets.run(0, jobsets.add_pool(1))
    leader = jobsets.wait(1)

    jobsets.deliver(a_demand_event(leader))
    assert jobsets.says() == ("wait", "pool_in_use")
    jobsets.sweep()

    assert jobsets.pools.bodies == []


@pytest.mark.parametrize(
    ("machine_type", "topology", "bought"),
    [
        ("ct6e-standard-4t", "4x4", 0),
        ("ct6e-standard-4t", "", 0),
        ("ct5p-hightpu-4t", "4x4", 1),
        ("ct6e-standard-4t", "2x4", 1),
    ],
)
@pytest.mark.parametrize("fingerprint", ["", "2-of-another-version"])
def test_a_free_pool_whose_fingerprint_cannot_be_compared_fits_by_machine_and_topology(
    jobsets: JobSetWorld, fingerprint: str, machine_type: str, topology: str, bought: int
) -> None:
    jobsets.set_fingerprint(jobsets.add_pool(0), fingerprint, machine_type=machine_type, topology=topology)
    jobsets.run(0, jobsets.add_pool(1))
    jobsets.wait(1)

    jobsets.sweep()

    assert len(jobsets.pools.bodies) == bought


def test_two_slices_that_mix_on_one_pool_get_the_pool_that_is_missing(jobsets: JobSetWorld) -> None:
    pool = jobsets.add_pool(1)
    jobsets.wait(0)
    jobsets.wait(1)
    jobsets.run(0, pool, hosts=(0,))
    jobsets.run(1, pool, hosts=(1, 2, 3))

    for _ in range(3):
        jobsets.sweep()

    assert jobsets.alive() == {pool, slice_name(1, 1)}
    assert len(jobsets.pools.bodies) == 1


def test_of_three_slices_each_that_waits_gets_exactly_one(records: Records) -> None:
    world = JobSetWorld(records, replicas=3)
    world.run(2, world.add_pool(0))
    world.wait(0)
    world.wait(1)

    for _ in range(3):
        world.sweep()

    assert world.alive() == {slice_name(0), slice_name(0, 1), slice_name(1)}


def test_a_restarted_slice_waits_for_its_pool_while_its_old_pods_end(jobsets: JobSetWorld) -> None:
    for index in (0, 1):
        pool = jobsets.add_pool(index)
        for host in range(HOSTS):
            node = jobsets.cluster.nodes[pool][host]
            jobsets.pod(index, host, name=f"old-{index}-{host}", node_name=node, deleting=True, phase="Running")
    leader = jobsets.wait(0)

    jobsets.deliver(a_demand_event(leader))
    jobsets.sweep()

    assert jobsets.pools.bodies == []


def test_a_ray_slice_gets_a_pool_when_another_workload_holds_the_one_it_would_wait_for(records: Records) -> None:
    rays = RayWorld(records)
    strangers = rays.add_pool(0, age_seconds=3600.0)
    rays.cluster.bind(strangers, kind="RayCluster", workload="other")
    rays.run(0, rays.add_pool(1, age_seconds=3600.0))
    rays.wait(1, unschedulable_since=NOW - 3600)

    for _ in range(3):
        rays.sweep()

    assert rays.alive() == {name_of_slot(0), name_of_slot(1), name_of_slot(1, 1)}
    assert len(rays.pools.bodies) == 1


# --- an empty second pool -------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["message", "sweep"])
def test_the_empty_pool_of_a_jobset_that_was_made_anew_and_runs_on_the_earlier_one_s_goes(
    records: Records, by: str
) -> None:
    world = JobSetWorld(records, replicas=1)
    earlier, _spare = world.add_pool(0, uid=EARLIER_UID), world.add_pool(0)
    world.run(0, earlier)

    world.collect(an_over_event("drained")) if by == "message" else world.sweep()

    assert world.alive() == {earlier}


@pytest.mark.parametrize("by", ["message", "sweep"])
@pytest.mark.parametrize("stays", [False, True], ids=["on another slice's", "on it"])
def test_a_failed_pool_goes_while_its_slice_runs_on_another_slice_s(
    jobsets: JobSetWorld, by: str, *, stays: bool
) -> None:
    failed, second, third = jobsets.add_pool(0, "ERROR"), jobsets.add_pool(1), jobsets.add_pool(1, attempt=1)
    serving = (failed, second) if stays else (second, third)
    for index, pool in enumerate(serving):
        jobsets.run(index, pool)

    jobsets.collect(an_over_event("drained")) if by == "message" else jobsets.sweep()

    assert jobsets.alive() == set(serving)


@pytest.mark.parametrize("by", ["message", "sweep"])
def test_the_empty_pool_of_a_raycluster_that_was_made_anew_goes(records: Records, by: str) -> None:
    rays = RayWorld(records)
    rays.want(1)
    earlier = rays.add_pool(0, owner_uid=EARLIER_UID)
    rays.add_pool(0)
    rays.run(0, earlier)

    rays.collect(an_over_event("drained", subject=RAYCLUSTER)) if by == "message" else rays.sweep()

    assert rays.alive() == {earlier}


@pytest.mark.parametrize("running_on", ["its own", "another workload's"])
def test_the_replay_of_an_old_message_changes_nothing_that_sweeps_leave(records: Records, running_on: str) -> None:
    rays = RayWorld(records)
    rays.want(1)
    own = rays.add_pool(0)
    rays.cluster.nodes["elsewhere"] = ["e0", "e1"]
    rays.run(0, own if running_on == "its own" else "elsewhere")
    rays.sweep()
    before = rays.alive()

    rays.collect(an_over_event("drained", subject=RAYCLUSTER))

    assert rays.alive() == before


# --- a second pool for one claim ------------------------------------------------------------------


def test_a_restarted_slice_whose_second_pool_serves_gets_no_first_one(jobsets: JobSetWorld) -> None:
    second = jobsets.add_pool(1, attempt=1)
    jobsets.run(0, jobsets.add_pool(0))
    leader = jobsets.wait(1)

    jobsets.deliver(a_demand_event(leader))
    assert jobsets.says() == ("keep", "pool_serves")
    jobsets.sweep()

    assert jobsets.alive() == {slice_name(0), second}
    assert jobsets.pools.bodies == []


@pytest.mark.parametrize("young", [True, False], ids=["young", "its pods started again"])
def test_a_first_pool_is_one_list_and_one_create(jobsets: JobSetWorld, *, young: bool) -> None:
    if young:
        jobsets.cluster.add(a_jobset(created_at=NOW - 7))
    leader = jobsets.wait(0, created_at=NOW - (5 if young else 60))

    jobsets.deliver(a_demand_event(leader))

    assert jobsets.pools.calls == [("list", ""), ("create", slice_name(0))]


@pytest.mark.parametrize("created_at", [NOW - 3600 + 2, None, NOW + 3600])
def test_for_a_pod_that_may_have_had_attempts_the_pools_are_listed_first(
    jobsets: JobSetWorld, created_at: float | None
) -> None:
    """Its first pool may have failed and be gone, while the next one is created."""
    leader = jobsets.wait(0)
    jobsets.cluster.add(dataclasses.replace(leader, created_at=created_at))
    jobsets.add_pool(0, "PROVISIONING", attempt=1)

    jobsets.deliver(a_demand_event(leader))

    assert jobsets.says() == ("wait", "pool_in_progress")
    assert jobsets.pools.bodies == []


# --- pools of an earlier shape --------------------------------------------------------------------


@pytest.mark.parametrize("status", ["RUNNING", "RUNNING_WITH_ERROR"])
def test_of_two_pools_of_an_earlier_shape_the_empty_one_is_replaced_while_others_use_the_first(
    records: Records, status: str
) -> None:
    world = JobSetWorld(records, replicas=1)
    world.use(replace_differing_pools=True)
    first, second = world.add_pool(0), world.add_pool(0, status, attempt=1)
    for name in (first, second):
        world.set_fingerprint(name, a_demand(topology="2x4").fingerprint)
    world.cluster.bind(first, kind="Job", workload="other")
    world.wait(0)

    world.sweep()

    assert world.alive() == {first}


def test_a_pool_with_errors_of_an_earlier_shape_is_replaced_though_all_its_nodes_are_ready(
    records: Records,
) -> None:
    world = JobSetWorld(records, replicas=1)
    world.use(replace_differing_pools=True)
    world.set_fingerprint(world.add_pool(0, "RUNNING_WITH_ERROR"), a_demand(topology="2x4").fingerprint)
    leader = world.wait(0)

    world.deliver(a_demand_event(leader))

    assert world.says() == ("delete", "pool_differs")


# --- two slices share a pool ----------------------------------------------------------------------


def test_two_slices_whose_leaders_share_a_pool_are_told_which_leader_to_delete(jobsets: JobSetWorld) -> None:
    pool = jobsets.add_pool(1)
    jobsets.run(0, pool, hosts=(0,))
    jobsets.run(1, pool, hosts=(1, 2))
    waiting = [
        jobsets.pod(index, host, unschedulable_since=NOW - 3600)
        for index, host in ((0, 1), (0, 2), (0, 3), (1, 3))
    ]

    jobsets.sweep()

    messages = {each.uid: each.message for each in jobsets.cluster.notices}
    assert set(messages) == {JOBSET_UID, waiting[0].uid, waiting[3].uid}, "the workload, and one pod of each slice"
    for message in messages.values():
        assert message.endswith("[pool_taken]")
        assert {"train-workers-0", "train-workers-1", pool} <= set(re.split(r"[ ,;:]+", message))
        assert "delete pod train-workers-0-0:" in message, "that of the slice which the pool does not serve"
    assert jobsets.pools.bodies == []

    for pod in waiting[:3]:
        jobsets.cluster.pods.pop((pod.namespace, pod.name))
    jobsets.pod(0, 0, unschedulable_since=NOW - 10)  # the leader is made again
    jobsets.sweep()
    assert jobsets.alive() == {pool, slice_name(0)}, "it gets a pool of its own"


def test_a_slice_beside_one_that_has_all_of_its_hosts_is_told_what_the_scheduler_says(
    jobsets: JobSetWorld,
) -> None:
    pool = jobsets.add_pool(1)
    jobsets.cluster.nodes[pool].append(f"{pool}-more")
    jobsets.run(1, pool)
    jobsets.pod(0, 0, node_name=f"{pool}-more", phase="Running", unschedulable=False)
    jobsets.pod(0, 1, unschedulable_since=NOW - 3600)

    jobsets.sweep()

    assert {each.message.rpartition(" ")[2] for each in jobsets.cluster.notices} == {"[pod_unplaced]"}
