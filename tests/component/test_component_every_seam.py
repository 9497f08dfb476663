"""Whatever a port raises about one object in a sweep, every other object is answered as without it.

A rich world has each thing twice, once with a bad name. Each method of a port that is called for a
bad object alone is found by one sweep, and then fails in a sweep of its own.
"""

import dataclasses
from typing import Any

import pytest

from shared.core import labels
from shared.core.errors import Unavailable
from shared.core.identity.pools import PoolSnapshot, PoolStatus
from shared.core.kinds import jobset as jobset_keys
from shared.core.kinds.elastic import name_elastic
from shared.core.kueue import Check
from shared.core.workloads import Parent, WorkloadView
from tests.builders import CLUSTER, NOW, a_claim, a_jobset, a_pod, a_pool
from tests.component.fake_queues import CHECK, FakeQueues
from tests.component.world import Records, World
from tests.unit.test_elastic import a_gpu_job

BAD, GOOD = "bad", "good"
LONG_AGO = NOW - 900
SEAMS = {
    *("create", "delete", "measure", "read_machines"),
    *("find_pools_of_nodes", "get_parent", "get_workload", "list_workload_pods"),
    *("list_pool_nodes", "list_pool_pods", "list_scale_ups", "list_surplus_marks", "mark_surplus", "write_notice"),
    *("mark_active", "view_owner", "write_state"),
}
"""At least these are called for one object alone; the test finds any other one by itself."""


def is_about(who: str, thing: object) -> bool:
    return f"{who}-" in repr(thing)


class Seam:
    """A port that notes its methods which are called for a bad object alone, and lets one fail."""

    def __init__(self, port: object, *, failing: str, error: Exception) -> None:
        self._port, self._failing, self._error = port, failing, error
        self.found: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if not callable(method):
            return method

        def call(*given: object, **named: object) -> object:
            if is_about(BAD, given) and not is_about(GOOD, given):
                self.found.add(name)
                if name == self._failing:
                    raise self._error
            return method(*given, **named)

        return call


class TwoOfEach:
    """A world in which each thing that a sweep does is due twice: for a bad and a good object."""

    def __init__(self, records: Records, *, failing: str = "", error: Exception | None = None) -> None:
        self.world = World(records, idle_seconds=1800, kueue_admission_check=True)
        self.cluster, self.queues = self.world.cluster, FakeQueues(self.world.cluster)
        self.cluster.empty()
        self.queues.checks = []
        for who in (BAD, GOOD):
            self._add_slices(who)
            self._add_empty(who)
            self._add_ended(who)
            self._add_elastic(who)
            self._add_suspended(who)
        self.seams = [
            Seam(port, failing=failing, error=error or RuntimeError(failing))
            for port in (self.world.pools, self.cluster, self.queues)
        ]
        pools, cluster, queues = self.seams
        self.world.ports = dataclasses.replace(
            self.world.ports, pools=pools, clusters={CLUSTER: cluster}, queues={CLUSTER: queues}
        )
        records.found.clear()
        self.world.sweep()

    def _add_slices(self, who: str) -> None:
        """Add a leader that waits, and a slice of which a follower waits."""
        self._add_jobset(f"{who}-new")
        self.cluster.add(self._pod(f"{who}-new"))
        parent = Parent(kind="RayJob", namespace="default", name=f"{who}-maker", uid=f"uid-{who}-maker")
        self._add_jobset(f"{who}-part", parent=parent)
        pool = self._add_pool(f"{who}-part")
        leader = self._pod(f"{who}-part", node_name=f"node-{pool.name}", unschedulable=False)
        follower = self._pod(f"{who}-part", pod_labels={labels.COMPLETION_INDEX: "1"})
        self.cluster.add(leader, dataclasses.replace(follower, name=f"{who}-follower", uid=f"{who}-follower"))

    def _add_empty(self, who: str) -> None:
        """Add a leader whose pool GKE is creating, and one whose pool the autoscaler fills."""
        for name, status in ((f"{who}-slow", PoolStatus.PROVISIONING), (f"{who}-empty", PoolStatus.RUNNING)):
            self._add_jobset(name)
            self.cluster.add(self._pod(name))
            runs = status == PoolStatus.RUNNING
            pool = dataclasses.replace(self._add_pool(name), status=status, autoscaled=runs)
            self.world.pools.add(CLUSTER, pool)
            del self.cluster.nodes[pool.name]

    def _add_ended(self, who: str) -> None:
        """Add pools of a workload that is over, of one whose pool may stay idle, and of none."""
        for name in (f"{who}-over", f"{who}-idle"):
            self._add_jobset(name, terminal="Completed", terminal_since=LONG_AGO)
        self._add_pool(f"{who}-over")
        self._add_pool(f"{who}-idle", {labels.IDLE: "1800"})
        self._add_pool(f"{who}-gone")
        self._add_jobset(f"{who}-foreign")
        self.cluster.bind(self._add_pool("kept").name, workload=f"{who}-foreign")

    def _add_elastic(self, who: str) -> None:
        """Add an elastic pool with more nodes than its workload needs."""
        job = dataclasses.replace(
            a_gpu_job(parallelism=1, completions=1), name=f"{who}-gpus", uid=f"uid-{who}-gpus"
        )
        slice_name = name_elastic(job.name, job.groups[0].template)
        claim = a_claim(kind="Job", name=job.name, owner_uid=job.uid, slice_key=f"default/{slice_name}")
        pool = a_pool(claim=claim, fingerprint="", node_count=2)
        self.cluster.add(job)
        self.world.pools.add(CLUSTER, pool)
        self.cluster.nodes[pool.name] = [f"{pool.name}-{at}" for at in range(2)]

    def _add_suspended(self, who: str) -> None:
        """Add a workload that Kueue has given quota to."""
        queued = self._add_jobset(f"{who}-queued", suspended=True)
        self.queues.checks.append(Check(name=CHECK if who == GOOD else f"{who}-check", active=False))
        self.queues.reserve(queued, at=NOW)

    def _add_jobset(self, name: str, **options: Any) -> WorkloadView:
        found = a_jobset(**{"name": name, "uid": f"uid-{name}", "replicas": 1, "created_at": LONG_AGO, **options})
        self.cluster.add(found)
        return found

    def _pod(self, jobset: str, *, pod_labels: dict[str, str] | None = None, **options: Any) -> Any:
        return a_pod(
            jobset=jobset,
            pod_labels={jobset_keys.JOBSET_UID_ON_POD: f"uid-{jobset}", **(pod_labels or {})},
            **{"uid": f"uid-of-{jobset}-0", "created_at": LONG_AGO, "unschedulable_since": LONG_AGO, **options},
        )

    def _add_pool(self, jobset: str, extra_labels: dict[str, str | None] | None = None) -> PoolSnapshot:
        claim = a_claim(name=jobset, owner_uid=f"uid-{jobset}", slice_key=f"default/{jobset}-workers-0")
        found = a_pool(claim=claim, age_seconds=2000, extra_labels=extra_labels)
        self.world.pools.add(CLUSTER, found)
        self.cluster.nodes[found.name] = [f"node-{found.name}"]
        return found

    @property
    def found(self) -> set[str]:
        return {name for seam in self.seams for name in seam.found}

    def list_done(self) -> set[str]:
        """Return what was done for all but the bad objects: acts, answers and Events."""
        messages = [
            {key: each.get(key) for key in ("decision", "reason", "pool", "claim", "message")}
            for each in self.world.records.found
            if each.get("decision")
        ]
        done = [*messages, *self.cluster.notices, *self.world.pools.pools.values(), *self.cluster.marks.items()]
        done += [*self.cluster.workloads.values(), *self.queues.workloads.values(), *self.queues.checks]
        return {repr(each) for each in done if not is_about(BAD, each)}


def test_each_seam_is_reached_for_one_object_alone(records: Records) -> None:
    assert SEAMS - TwoOfEach(records).found == set()


@pytest.mark.parametrize("error", [RuntimeError("a bug"), Unavailable("no answer")], ids=["a bug", "no answer"])
def test_an_error_about_one_object_changes_nothing_for_any_other(records: Records, error: Exception) -> None:
    whole = TwoOfEach(records)
    done, found = whole.list_done(), whole.found
    lost: dict[str, set[str]] = {}
    for failing in sorted(found):
        broken = TwoOfEach(records, failing=failing, error=error)
        told = [each for each in records.found if str(error) in repr(each) and is_about(BAD, each)]
        if missing := done - broken.list_done():
            lost[failing] = missing
        assert told, f"no record names the object about which {failing} failed"

    assert lost == {}
