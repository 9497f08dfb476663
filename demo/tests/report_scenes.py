"""Runs as fixed data, for drawings and pages: one failed, one that never gets a pool, one big."""

from dataclasses import dataclass, field

from demo.loop.observations import (
    Called,
    Decided,
    JobSetSeen,
    NodeSeen,
    Observation,
    PodSeen,
    PoolsListed,
    SliceSpec,
)
from demo.loop.run_outcome import Outcome
from demo.loop.timeline import Timeline

STARTED_AT = 1000.0
STOCKOUT = "no capacity in us-east5-b <b>at all</b>"
LONG = "an-experiment-with-a-name-as-long-as-kubernetes-lets-a-label-be"
"""63 letters."""


@dataclass
class Scene:
    """What is observed of some workloads, in seconds since they were applied."""

    workloads: dict[str, list[str]]
    hosts: int = 4
    seen: list[Observation] = field(default_factory=list)
    pools: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, jobs in self.workloads.items():
            specs = tuple(SliceSpec(job=job, pods=self.hosts) for job in jobs)
            self.seen.append(JobSetSeen(at=STARTED_AT, namespace="default", name=name, slices=specs))

    def wait(self, job: str, at: float) -> None:
        """The leader pod is unschedulable."""
        self._see_pod(job, 0, at, unschedulable="0/1 nodes are available")

    def decide(
        self,
        job: str,
        at: float,
        decision: str,
        reason: str,
        *,
        pool: str = "",
        failure: str = "",
        message: str = "",
        function: str = "provision",
    ) -> None:
        """A function decides."""
        made = Decided(
            at=STARTED_AT + at,
            function=function,
            decision=decision,
            reason=reason,
            message=message or f"because of {reason}",
            namespace="default",
            workload=next(name for name, jobs in self.workloads.items() if job in jobs),
            job=job,
            pool=pool,
            machine_type="ct6e-standard-4t",
            node_count=self.hosts,
            topology="4x4",
            placement="COMPACT 4x4",
            tier="on-demand",
            failure=failure,
        )
        self.seen.append(made)

    def create(self, job: str, at: float, attempt: int = 0, *, failure: str = "") -> None:
        """GKE accepts a pool; a failure is that of the attempt before."""
        pool = f"{job}-{attempt}"
        told = {"failure": failure, "message": f"attempt {attempt - 1} failed: {STOCKOUT}"} if failure else {}
        self.decide(job, at, "create", "pool_failed" if failure else "pool_absent", pool=pool, **told)
        self.call(pool, at, "CreateNodePool")
        self.list(at, pool, "PROVISIONING")

    def call(self, pool: str, at: float, method: str, code: str = "OK") -> None:
        """GKE is called."""
        self.seen.append(Called(at=STARTED_AT + at, method=method, pool=pool, code=code))

    def list(self, at: float, pool: str, status: str) -> None:
        """GKE lists a pool with another status, or none without one."""
        self.pools = {name: was for name, was in self.pools.items() if name != pool}
        if status:
            self.pools[pool] = status
        self.seen.append(PoolsListed(at=STARTED_AT + at, pools=dict(self.pools)))

    def run(self, job: str, at: float, attempt: int = 0) -> None:
        """The nodes of a pool come, and all pods run on them."""
        for index in range(self.hosts):
            self.node(f"{job}-{attempt}", at, index)
            self.bind(job, at + 1, index, node=f"{job}-{attempt}-node-{index}")

    def node(self, pool: str, at: float, index: int = 0, *, gone: bool = False) -> None:
        """A node of a pool is ready, or gone."""
        name = f"{pool}-node-{index}"
        self.seen.append(NodeSeen(at=STARTED_AT + at, name=name, pool=pool, ready=not gone, gone=gone))

    def bind(self, job: str, at: float, index: int = 0, *, node: str, phase: str = "Running") -> None:
        """A pod runs on a node."""
        self._see_pod(job, index, at, node=node, phase=phase)

    def lose(self, job: str, at: float, attempt: int = 0) -> None:
        """The nodes of a pool are taken back, and the pods on them are gone."""
        for index in range(self.hosts):
            self.node(f"{job}-{attempt}", at, index, gone=True)
            self._see_pod(job, index, at, gone=True)

    def end(self, name: str, at: float, gone_at: float) -> None:
        """A workload completes, and its last pools are deleted."""
        self.seen.append(JobSetSeen(at=STARTED_AT + at, namespace="default", name=name, terminal="Completed"))
        for job in self.workloads[name]:
            pool = max(each for each in self.pools if each.startswith(f"{job}-"))
            self.decide(job, at + 0.5, "delete", "workload_over", pool=pool, function="collect")
            self.call(pool, at + 1, "DeleteNodePool")
            for index in range(self.hosts):
                self.node(pool, gone_at, index, gone=True)
            self.list(gone_at, pool, "")

    def conclude(self, ended_at: float, *problems: str) -> Outcome:
        """The run ends."""
        timeline = Timeline([("default", name) for name in self.workloads], STARTED_AT)
        for each in self.seen:
            timeline.observe(each)
        return Outcome(
            timeline=timeline,
            ended_at=STARTED_AT + ended_at,
            speed=60.0,
            problems=problems,
            pools_left=len(self.pools),
        )

    def _see_pod(
        self,
        job: str,
        index: int,
        at: float,
        *,
        unschedulable: str = "",
        node: str = "",
        phase: str = "Pending",
        gone: bool = False,
    ) -> None:
        seen = PodSeen(
            at=STARTED_AT + at,
            namespace="default",
            name=f"{job}-{index}",
            uid=f"{job}-{index}",
            job=job,
            index=str(index),
            phase=phase,
            node=node,
            unschedulable=unschedulable,
            gone=gone,
        )
        self.seen.append(seen)


def a_failed_run() -> Outcome:
    """One slice runs in its second attempt.

    The other one has failed twice when the run is given up.
    """
    scene = Scene({"train": ["train-slice-0", "train-slice-1"]})
    for job in scene.workloads["train"]:
        scene.wait(job, 1)
        scene.create(job, 2)
        scene.list(6, f"{job}-0", "ERROR")
        scene.create(job, 7, attempt=1, failure="stockout")
    scene.run("train-slice-0", 20, attempt=1)
    scene.list(27, "train-slice-1-1", "ERROR")
    failed = {"pool": "train-slice-1-1", "failure": "quota", "message": "attempt 1 failed: CHIPS is used up"}
    scene.decide("train-slice-1", 28, "wait", "quota", function="settle", **failed)
    return scene.conclude(60, "not finished within 60 s: train-slice-1")


def a_run_without_pools() -> Outcome:
    """GKE refuses each request for a pool, so that no creation ever begins."""
    scene = Scene({"train": ["train-slice-0"]})
    scene.wait("train-slice-0", 1)
    for at in (2, 4, 8, 16):
        scene.call("train-slice-0-0", at, "CreateNodePool", "RESOURCE_EXHAUSTED")
        scene.decide("train-slice-0", at, "none", "throttled", message="Insufficient quota (HTTP 429)")
    return scene.conclude(30, "not finished within 30 s: train-slice-0")


def a_big_run() -> Outcome:
    """Twelve slices of three workloads with the longest names, each with a failed creation."""
    workloads = {f"w{number}-{LONG}"[:63]: list[str]() for number in range(3)}
    for name, jobs in workloads.items():
        jobs += [f"{name[:53]}-slice-{number:03}" for number in range(4)]
    scene = Scene(workloads)
    for number, job in enumerate(job for jobs in workloads.values() for job in jobs):
        scene.wait(job, 1 + number)
        scene.create(job, 2 + number)
        scene.list(5 + number, f"{job}-0", "ERROR")
        scene.create(job, 6 + number, attempt=1, failure="stockout")
        scene.list(9 + number, f"{job}-0", "")
        scene.run(job, 20 + number, attempt=1)
    for name in workloads:
        scene.end(name, 60, 70)
    return scene.conclude(72)
