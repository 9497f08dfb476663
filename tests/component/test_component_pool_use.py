"""Slices come, go and swap pools while their workload lives: none is stranded or bought twice."""

import dataclasses
from typing import Any

import pytest

from shared.core.errors import Unavailable
from shared.core.identity.names import SliceClaim, build_pool_name
from shared.core.identity.pools import PoolSnapshot
from shared.core.messages import ObjectName
from tests.builders import CLUSTER, NOW, a_claim, a_pool, an_over_event, settings
from tests.component.fake_queues import reserve_quota
from tests.component.world import Records, World
from tests.unit.rayclusters import UID, a_group, a_raycluster, a_worker, indexed, webhooked

NODES = 2
RAYCLUSTER = ObjectName(kind="RayCluster", namespace="default", name="llm", uid=UID)


def claim_of(slot: int) -> SliceClaim:
    return a_claim(kind="RayCluster", name="llm", owner_uid=UID, slice_key=f"default/llm-tpu-{slot}")


def name_of_slot(slot: int, attempt: int = 0) -> str:
    return build_pool_name(claim_of(slot), attempt)


class RayWorld(World):
    """RayCluster ``default/llm`` with two-host replicas; each slot's pool has two nodes."""

    def __init__(self, records: Records) -> None:
        super().__init__(records)
        self.cluster.empty()
        self.want(2)

    def want(self, replicas: int, **group: Any) -> None:
        self.cluster.add(a_raycluster(a_group(replicas=replicas, **group)))

    def add_pool(self, slot: int, status: str = "RUNNING", *, owner_uid: str = UID, **fields: Any) -> str:
        claim = a_claim(kind="RayCluster", name="llm", owner_uid=owner_uid, slice_key=f"default/llm-tpu-{slot}")
        pool: PoolSnapshot = a_pool(
            status, claim=claim, **{"fingerprint": "", "node_count": NODES, "topology": "2x4", **fields}
        )
        self.pools.add(CLUSTER, pool)
        if status == "RUNNING":
            self.cluster.nodes[pool.name] = [f"{pool.name}-{host}" for host in range(NODES)]
        return pool.name

    def run(self, slot: int, pool: str, given: dict[str, str] | None = None) -> None:
        """Let a replica run on a pool."""
        for host, node in enumerate(self.cluster.nodes[pool]):
            name = f"llm-tpu-worker-{slot}{host}-{pool[-3:]}"
            labels = indexed(slot, host) if given is None else given
            self.cluster.add(
                a_worker(name=name, pod_labels=labels, affinity=True, node_name=node, phase="Running")
            )

    def wait(self, slot: int, **fields: Any) -> None:
        """Let a replica's first host wait for nodes."""
        name = f"llm-tpu-worker-w{slot}"
        pod = a_worker(name=name, pod_labels=indexed(slot), affinity=True, unschedulable=True, **fields)
        self.cluster.add(pod)

    def list_deleted(self) -> list[tuple[str, str, str]]:
        """Return pool, reason and message of each deletion that was logged."""
        found = [each for each in self.records.found if each.get("decision") == "delete"]
        return [(each["pool"], each["reason"], each["message"]) for each in found]

    def queue(self, slot: int) -> None:
        """Let a replica's hosts wait at the gate of a queue from now on."""
        for host in range(NODES):
            held: dict[str, Any] = {"gates": ("example.com/hold",), "queued_since": self.clock.now()}
            self.cluster.add(
                a_worker(name=f"q{slot}{host}", pod_labels=indexed(slot, host), affinity=True, **held)
            )


@pytest.fixture
def rays(records: Records) -> RayWorld:
    return RayWorld(records)


def test_nobody_is_asked_who_stands_where_while_pools_and_slices_agree(rays: RayWorld) -> None:
    for slot in (0, 1):
        rays.run(slot, rays.add_pool(slot))
    rays.cluster.fail_next("find_pools_of_nodes", Unavailable("asked"))

    assert rays.sweep()[1]["errors"] == 0
    assert rays.pools.calls == [("list", "")]


@pytest.mark.parametrize("by", ["message", "sweep"])
@pytest.mark.parametrize("status", ["RUNNING", "ERROR"])
def test_the_owner_of_a_pool_too_many_reads_that_it_is_not_needed(rays: RayWorld, by: str, status: str) -> None:
    surplus = rays.add_pool(1, status)
    rays.run(1, rays.add_pool(0))
    rays.want(1)

    rays.collect(an_over_event("drained", subject=RAYCLUSTER)) if by == "message" else rays.sweep()

    message = f"deleting node pool {surplus}: its workload is live and does not need this pool"
    assert rays.list_deleted() == [(surplus, "pool_surplus", message)]
    notice = next(each for each in rays.cluster.notices if each.reason == "NodePoolDeletionStarted")
    assert (notice.kind, notice.message) == ("RayCluster", f"{message} [pool_surplus]")


@pytest.mark.parametrize("by", ["message", "sweep"])
def test_a_slice_that_was_scaled_away_is_told_from_a_workload_that_is_gone(rays: RayWorld, by: str) -> None:
    away = rays.add_pool(1)
    rays.run(0, rays.add_pool(0))
    rays.want(1)

    rays.collect(an_over_event("scaled", subject=RAYCLUSTER)) if by == "message" else rays.sweep()

    message = f"deleting node pool {away}: its workload is still there and no longer asks for this pool"
    assert rays.list_deleted() == [(away, "owner_gone", message)]


@pytest.mark.parametrize(
    ("waits", "seconds", "kept"), [(True, 301, 2), (True, 299, 4), (False, 301, 1), (False, 299, 4)]
)
def test_a_raycluster_that_has_quota_and_is_scaled_down_gives_a_pool_back(
    rays: RayWorld, *, waits: bool, seconds: float, kept: int
) -> None:
    """Seed 7930722. KubeRay gives the replicas that come after it the lowest indexes."""
    rays.use(kueue_admission_check=True)
    suspended = a_raycluster(a_group(replicas=2), suspend=True)
    queues = reserve_quota(rays, suspended)
    queues.reserve(suspended, at=NOW, api="ray.io/v1")
    if not waits:
        queues.workloads.clear()
    rays.cluster.add(dataclasses.replace(suspended, suspended_since=NOW - seconds))
    for slot, status in enumerate(("PROVISIONING", "RUNNING", "ERROR", "RUNNING")):
        rays.add_pool(slot, status)

    rays.sweep()

    assert rays.alive() == {name_of_slot(slot) for slot in range(kept)}


def test_the_second_set_of_an_upgraded_operator_is_explained_and_not_bought(rays: RayWorld) -> None:
    rays.want(1)
    rays.run(0, rays.add_pool(0), given=webhooked(0))
    rays.wait(0)

    rays.sweep()

    assert rays.pools.bodies == []
    rays.records.expect_in_order({"decision": "refuse", "reason": "slice_doubled"})
    assert ("Pod", "NodePoolRefused", True) in rays.notices()


def test_a_slice_that_a_queue_holds_by_its_pods_gives_its_pool_back_after_the_grace(rays: RayWorld) -> None:
    pool = rays.add_pool(0)
    rays.want(1)
    rays.queue(0)

    rays.sweep()
    assert rays.alive() == {pool}

    rays.clock.advance(settings().grace_seconds)
    rays.sweep()
    assert rays.alive() == set()
    assert rays.pools.bodies == []
