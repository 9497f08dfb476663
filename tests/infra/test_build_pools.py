"""Removing pools at the end: which are deleted, what blocks them, the countdown, what remains."""

import json
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from infra.build.remove_pools import Removal, StillThere, find_destroyed, read_clusters, run
from shared.model.errors import Busy, Unavailable
from shared.model.names import Claim, Try, build_owner_labels
from shared.model.pools import NodePool, PoolNode, PoolStatus
from shared.model.workloads import PodTemplate, PodView, SliceGroup, WorkloadView
from standins.google.tests.fakegke_worlds import fake_process
from tests.clocks import StepClock
from tests.engine.world import FakeCluster, FakeGke
from tests.infra.build_scripts import BUILD
from tests.infra.pretended_deployment import CLUSTER as CLUSTER_ADDRESS
from tests.infra.pretended_deployment import a_resource, a_state
from tests.program_runs import run_python

CLUSTER = "projects/a-project/locations/us-east5/clusters/alpha"
UNFINISHED = f"{CLUSTER}-of-a-build-that-failed"
CLAIM = Claim(cluster=CLUSTER, kind="JobSet", namespace="team", name="train", owner_uid="u-1", need="n", slot=0)
OURS = build_owner_labels(CLAIM, Try(), created_at=1)
GO_PROVISIONERS = {
    name: value
    for name, value in OURS.items()
    if not any(part in name for part in ("uid", "need", "slot", "attempt", "created"))
}
BLUE, GREEN = "a-project_blue", "a-project_green"


def pool(name: str, labels: dict[str, str] = OURS, deployment: str = "") -> NodePool:
    return NodePool(name=name, status=PoolStatus.RUNNING, labels=labels, deployment=deployment)


class Gke(FakeGke):
    """Refuses a deletion where it was told to."""

    def delete(self, cluster: str, name: str) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        super().delete(cluster, name)


class Nodes(FakeCluster):
    """Has one node for each pool, with the pods of `bound`, and fails where it was told to."""

    def __init__(self, gke: FakeGke) -> None:
        super().__init__(gke)
        self.bound: dict[str, list[PodView]] = {}
        self.failures: list[Exception] = []

    def list_nodes(self, pools: Sequence[str] = ()) -> list[PoolNode]:
        if self.failures:
            raise self.failures.pop(0)
        return [PoolNode(name=name, pool=name, ready=True) for name in pools]

    def list_bound_pods(self, node: str) -> Sequence[PodView]:
        return self.bound.get(node, [])


class Stage:
    """Node pools that go at the pause after their deletion, and a cluster whose nodes are there."""

    def __init__(self, *pools: NodePool, destroyed: str = "") -> None:
        self.home, self.destroyed = destroyed or CLUSTER, destroyed
        self.pools, self.clock = Gke(), StepClock(0.0)
        self.cluster = Nodes(self.pools)
        self.pools.pools = {each.name: each for each in pools}
        self.lines: list[str] = []

    @property
    def held(self) -> set[str]:
        return set(self.pools.pools)

    @property
    def deleted(self) -> set[str]:
        return {call.removeprefix("delete ") for call in self.pools.calls if call.startswith("delete ")}

    def sleep(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for name in self.held:
            if self.pools.pools[name].status == PoolStatus.STOPPING:
                del self.pools.pools[name]

    def run(self, *, check: bool = False, force: bool = False) -> int:
        removal = Removal(
            self.pools,
            {CLUSTER: self.cluster},
            say=self.lines.append,
            clock=self.clock,
            sleep=self.sleep,
            pause_seconds=10,
            destroyed=self.destroyed,
            deployment=BLUE,
        )
        return run(removal, check=check, force=force, timeout_seconds=100.0)


RUNNING = WorkloadView(kind="JobSet", namespace="team", name="train", uid="u-1", groups=(SliceGroup(name="s"),))


def test_every_pool_of_ours_goes_and_is_counted_down_and_no_other_is_touched() -> None:
    scene = Stage(pool("a"), pool("b"), pool("static", {}), pool("go", GO_PROVISIONERS))

    assert scene.run() == 0
    assert scene.deleted == {"a", "b"}
    assert scene.held == {"static", "go"}
    assert "2 of 2 node pools left" in scene.lines
    assert scene.lines[-1] == "0 of 2 node pools left"
    assert len([line for line in scene.lines if "belongs to the Go TPU Provisioner and is kept" in line]) == 1


def test_pools_of_another_deployment_neither_go_nor_hold_this_one() -> None:
    """Also by force, which asks no cluster whose exporter it has."""
    scene = Stage(*(pool(f"of-{each}", OURS, each) for each in (BLUE, GREEN)), pool("also-green", OURS, GREEN))
    scene.cluster.workloads["JobSet", "team", "train"] = RUNNING

    assert scene.run(check=True) == 1
    assert [each for each in scene.lines if "runs" in each] == [
        f"  {CLUSTER}: node pool of-{BLUE}: JobSet team/train runs"
    ]
    assert scene.run(force=True) == 0
    assert scene.held == {f"of-{GREEN}", "also-green"}
    kept = [line for line in scene.lines if line.endswith(f"belongs to the deployment {GREEN} and is kept")]
    assert len(kept) == 4, "one line of each, in each of the two runs"


def test_a_pool_that_an_operation_holds_is_tried_again() -> None:
    scene = Stage(pool("a"))
    scene.pools.refusals.append(Busy("node pool a is being created"))

    assert scene.run() == 0
    assert "1 cannot be deleted yet, such as a: node pool a is being created" in scene.lines
    assert scene.held == set()


def test_pools_that_stay_end_it_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Stage(pool("a"), pool("b"))
    monkeypatch.setattr(scene.pools, "delete", lambda _cluster, _name: None)  # accepted, and never done

    with pytest.raises(StillThere, match="2 of 2 node pools are left; run this again to continue"):
        scene.run()
    assert scene.clock.now() == 100


def pod(namespace: str, name: str, *, chips: int = 0, deleting_since: float | None = None) -> PodView:
    template = PodTemplate(chips=chips)
    return PodView(namespace=namespace, name=name, uid=name, template=template, deleting_since=deleting_since)


JOB, DATABASE = pod("team", "static-0", chips=4), pod("gmp-apps", "postgres-0")
HOMES = ("kube-system", "gke-managed-cim", "gmp-system", "jobset-system", "kueue-system", "tpu-provisioner")
OF_GKE = [pod(each, "dns") for each in HOMES]
LEFT_FOR_LONG = pod("data", "old-0", deleting_since=-10_000.0)
UNPROVEN = "its pods cannot be read, because the build that created this cluster failed"
HOLDS = {
    "a workload of ours": ("", OURS, "", [], "JobSet team/train runs"),
    "a pod of others": ("", OURS, "", [JOB], "1 pods run on it"),
    "a job on a static pool": (CLUSTER, {}, "", [JOB], "1 pods run on it, such as team/static-0"),
    "the Go provisioner's pool": (CLUSTER, GO_PROVISIONERS, "", [JOB], "1 pods run on it, such as team/static-0"),
    "another deployment's pool": (CLUSTER, OURS, GREEN, [JOB], "1 pods run on it, such as team/static-0"),
    "a database": (
        CLUSTER,
        {},
        "",
        [LEFT_FOR_LONG, DATABASE, *OF_GKE],
        "1 pods run on it, such as gmp-apps/postgres-0",
    ),
    "pools of a failed build": (UNFINISHED, {}, "", [], UNPROVEN),
}


@pytest.mark.parametrize("case", HOLDS)
def test_what_is_in_use_holds_the_build_before_anything_is_removed_unless_forced(case: str) -> None:
    destroyed, labels, deployment, pods, why = HOLDS[case]
    scene = Stage(pool("a", labels, deployment), destroyed=destroyed)
    scene.cluster.bound["a"] = pods
    if "runs" in why:
        scene.cluster.workloads["JobSet", "team", "train"] = RUNNING

    assert scene.run(check=True) == scene.run() == 1
    assert scene.deleted == set()
    end = ", and this cluster is destroyed" if destroyed == CLUSTER else ""
    assert scene.lines[-2] == f"  {scene.home}: node pool a: {why}{end}"
    assert scene.lines[-1].startswith("error: 1 node pools are in use; end the workloads, or set FORCE=true")
    assert scene.run(force=True) == 0


def test_a_cluster_that_cannot_be_asked_is_not_taken_for_idle_unless_forced() -> None:
    scene = Stage(pool("a"))
    scene.cluster.failures.append(Unavailable("timeout"))
    assert scene.run() == 1
    assert scene.lines[0].endswith("node pool a: its workload cannot be read: timeout")
    assert scene.deleted == set()
    assert scene.run(force=True) == 0
    assert scene.held == set()

    scene = Stage(pool("static", {}), destroyed=CLUSTER)
    scene.cluster.failures.append(Unavailable("timeout"))
    assert scene.run(check=True) == 1
    assert scene.lines[0].endswith("node pool static: its pods cannot be read: timeout")


def test_what_goes_with_its_cluster_or_stays_with_it_holds_nothing() -> None:
    cases: dict[str, tuple[str, list[PodView]]] = {
        "cpu": (CLUSTER, OF_GKE),
        "static": ("", [JOB]),
        "default-pool": (UNFINISHED, []),
    }
    for name, (destroyed, pods) in cases.items():
        scene = Stage(pool(name, {}), destroyed=destroyed)
        scene.cluster.bound[name] = pods
        assert scene.run(check=True) == 0
        assert scene.lines[-1] == "No workload uses a node pool of the provisioner"


def test_only_the_environments_own_cluster_is_destroyed_also_if_its_build_failed() -> None:
    assert read_clusters({}) == read_clusters({"clusters": {"value": None}}) == {}
    assert find_destroyed({}, {}) == find_destroyed({"clusters": {"value": {"main": {"path": CLUSTER}}}}, {}) == ""
    assert find_destroyed({"clusters": {"value": {"environment": {"path": CLUSTER}}}}, {}) == CLUSTER
    _, project, _, location, _, name = UNFINISHED.split("/")
    made = a_resource(CLUSTER_ADDRESS, project=project, location=location, name=name)
    made["instances"][0]["status"] = "tainted"
    assert find_destroyed({}, a_state(made)) == UNFINISHED


def test_the_program_empties_a_fake_gke_whose_cluster_does_not_answer(tmp_path: Path) -> None:
    served = {"a": {"path": CLUSTER, "private": False}}
    texts = {"outputs": json.dumps({"clusters": {"value": served}}), "state": "{}", "kept": f"{CLUSTER}\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    files = (f"--outputs={tmp_path / 'outputs'}", f"--state={tmp_path / 'state'}", f"--deployment={BLUE}")
    with fake_process(tmp_path, "--project=a-project", "--speed=600") as fake:
        pools = f"{fake.rest}/v1/{CLUSTER}/nodePools"
        for name, deployment in (("ours", BLUE), ("green", GREEN)):
            machines = {"tpu-provisioner-deployment": deployment}
            config = {"machineType": "e2-standard-4", "labels": OURS, "resourceLabels": machines}
            body = {"nodePool": {"name": name, "initialNodeCount": 1, "config": config}}
            httpx.post(pools, json=body).raise_for_status()
        environ = {"TPU_PROVISIONER_CREDENTIALS": "anonymous", "TPU_PROVISIONER_GKE_ENDPOINT": fake.rest}
        words = (BUILD / "remove_pools.py", *files, "--pause-seconds=0.2")
        spared = run_python(*words, "--force", f"--kept={tmp_path / 'kept'}", env=environ)
        refused = run_python(*words, env=environ)
        done = run_python(*words, "--force", env=environ)
        left = [each["name"] for each in httpx.get(pools).json()["nodePools"]]

    assert spared.stdout == "There are no node pools of the provisioner\n", "another deployment serves the cluster"
    assert refused.returncode == 1
    assert "node pool ours: its workload cannot be read" in refused.stdout
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "0 of 1 node pools left"
    assert left == ["green"]
