"""A workload deleted and applied again runs on its earlier pool: the new, empty pool goes."""

import dataclasses

import pytest

from shared.core.kinds.elastic import list_elastic
from shared.core.messages import ObjectName
from shared.core.workloads import PodView, WorkloadView
from tests.builders import CLUSTER, NOW, a_claim, a_demand_event, a_jobset, a_pool, an_over_event
from tests.component.test_component_needed_pools import EARLIER_UID, JobSetWorld
from tests.component.world import Records, World
from tests.unit import test_kind_deployment as deployments
from tests.unit import test_kind_statefulset as sets
from tests.unit.test_elastic import a_gpu_body

SINGLE_HOSTS = {
    "Deployment": deployments.a_deployment(),
    "Deployment of GPUs": deployments.a_deployment(template=a_gpu_body()),
    "StatefulSet": sets.a_set(replicas=3),
}
PODS = 3


class Anew(World):
    """A workload of three single hosts, its empty pool, and that of the same workload before."""

    def __init__(self, records: Records, workload: WorkloadView) -> None:
        super().__init__(records)
        self.cluster.empty()
        self.workload = dataclasses.replace(workload, created_at=NOW - 4000)
        self.cluster.add(self.workload)
        self.earlier, self.new = self.add_pool(EARLIER_UID), self.add_pool(workload.uid)

    def add_pool(self, uid: str) -> str:
        (shared,) = list_elastic(self.workload)
        home = {"kind": self.workload.kind, "name": self.workload.name, "owner_uid": uid}
        claim = a_claim(**home, slice_key=f"default/{shared.name}")
        pool = a_pool(claim=claim, node_count=PODS, age_seconds=3600)
        self.pools.add(CLUSTER, pool)
        self.cluster.nodes[pool.name] = [f"{pool.name}-n{host}" for host in range(PODS)]
        return pool.name

    def add_pod(self, at: int, pool: str = "") -> PodView:
        """Let one pod run on a pool, or wait."""
        made = sets.a_pod(at) if self.workload.kind == "StatefulSet" else deployments.a_pod()
        node = self.cluster.nodes[pool][at] if pool else ""
        pod = dataclasses.replace(
            made,
            name=f"pod-{at}",
            uid=f"pod-{at}",
            node_name=node,
            unschedulable=not node,
            unschedulable_since=NOW - 3600,
            template=dataclasses.replace(self.workload.groups[0].template, labels=made.template.labels),
        )
        self.cluster.add(pod)
        return pod

    def end(self) -> None:
        """Send the message that a pool may be too many."""
        found = self.workload
        subject = ObjectName(kind=found.kind, namespace="default", name=found.name, uid=found.uid)
        self.collect(an_over_event("drained", subject=subject))


@pytest.fixture(params=list(SINGLE_HOSTS.values()), ids=list(SINGLE_HOSTS))
def anew(records: Records, request: pytest.FixtureRequest) -> Anew:
    return Anew(records, request.param)


@pytest.mark.parametrize("by", ["message", "sweep"])
def test_the_empty_elastic_pool_goes_once_all_pods_run_on_the_earlier_one(anew: Anew, by: str) -> None:
    pods = [anew.add_pod(at, anew.earlier) for at in range(PODS)]

    anew.sweep() if by == "sweep" else anew.end()
    assert anew.alive() == {anew.earlier}
    if by == "sweep":
        messages = [each["message"] for each in anew.records.found if each.get("reason") == "pods_still_bound"]
        assert messages == [f"3 pods of a workload of the same name run on {anew.earlier}"]

    anew.pools.move(CLUSTER, anew.new, "gone")
    for pod in pods:
        anew.deliver(a_demand_event(pod))
    anew.end()
    anew.sweep()
    assert anew.alive() == {anew.earlier}, "neither messages again nor a sweep change anything"
    assert anew.pools.bodies == []


@pytest.mark.parametrize("where", ["is still to be created", "waits", "runs on the new pool"])
def test_the_elastic_pool_stays_for_one_pod(anew: Anew, where: str) -> None:
    for at in range(PODS - 1):
        anew.add_pod(at, anew.earlier)
    if where != "is still to be created":
        anew.add_pod(PODS - 1, "" if where == "waits" else anew.new)

    anew.sweep()
    anew.end()

    assert anew.alive() == {anew.earlier, anew.new}


def test_the_elastic_pool_stays_for_pods_on_a_pool_that_is_being_deleted(anew: Anew) -> None:
    third = anew.add_pool("0a5d2f51-2222-4b7e-9a52-0d9f0f0c1a00")
    anew.pools.move(CLUSTER, anew.earlier, "STOPPING")
    anew.add_pod(0, anew.earlier)
    for at in range(1, PODS):
        anew.add_pod(at, third)

    anew.sweep()
    anew.end()

    assert anew.alive() == {third, anew.new}


def test_the_empty_pool_of_a_pinned_slice_goes_too(records: Records) -> None:
    world = JobSetWorld(records, replicas=1)
    jobset = a_jobset(replicas=1, created_at=NOW - 3600)
    pinned = dataclasses.replace(jobset.groups[0], pods=4, pinned=True)
    world.cluster.add(dataclasses.replace(jobset, groups=(pinned,)))
    earlier, _ = world.add_pool(0, uid=EARLIER_UID), world.add_pool(0)
    world.run(0, earlier)

    world.sweep()

    assert world.alive() == {earlier}
