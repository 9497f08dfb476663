"""Which pools a workload needs: a slice that waits gets one, none is bought twice, a spare goes."""

import dataclasses
import re
from typing import Any

import pytest

from shared.core import labels
from shared.core.identity.names import build_pool_name
from shared.core.workloads import PodView
from tests.builders import CLUSTER, JOBSET_UID, NOW, a_demand_event, a_jobset, a_pod, a_pool
from tests.component.world import Records, World, claim_of, slice_name

HOSTS = 4


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


# --- a second pool for one claim ------------------------------------------------------------------


@pytest.mark.parametrize("young", [True, False], ids=["young", "its pods started again"])
def test_a_first_pool_is_one_list_and_one_create(jobsets: JobSetWorld, *, young: bool) -> None:
    if young:
        jobsets.cluster.add(a_jobset(created_at=NOW - 7))
    leader = jobsets.wait(0, created_at=NOW - (5 if young else 60))

    jobsets.deliver(a_demand_event(leader))

    assert jobsets.pools.calls == [("list", ""), ("create", slice_name(0))]


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
