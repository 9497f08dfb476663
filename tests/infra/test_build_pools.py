"""Removing pools at the end: which are deleted, what blocks them, the countdown, what remains."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from infra.build.remove_pools import Removal, StillThere, find_destroyed, read_clusters, run
from shared.core.errors import Busy, ClusterNotFound, Denied, Unavailable
from shared.core.identity.names import Claim, build_owner_labels
from shared.core.identity.pools import PoolSnapshot, PoolStatus
from shared.core.ports import BoundPod, Namespace, Ports
from shared.core.settings import ClusterSettings, Settings
from shared.core.workloads import SliceGroup, WorkloadView
from standins.fakegke.tests.fakegke_processes import fake_process

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = "projects/a-project/locations/us-east5/clusters/alpha"
UNFINISHED = f"{CLUSTER}-of-a-build-that-failed"
CLAIM = Claim(
    cluster=CLUSTER, kind="JobSet", namespace="team", name="train", owner_uid="u-1", slice_key="team/train-s-0"
)
OURS = build_owner_labels(CLAIM, attempt=0, created_at=1, fingerprint="f")
GO_PROVISIONERS = {
    name: value
    for name, value in OURS.items()
    if not any(part in name for part in ("uid", "claim", "attempt", "created", "fingerprint"))
}


def pool(name: str, labels: dict[str, str] | None = None, status: PoolStatus = PoolStatus.RUNNING) -> PoolSnapshot:
    return PoolSnapshot(name=name, status=status, labels=OURS if labels is None else labels)


@dataclass
class Pools:
    """Node pools that take two looks to go, as GKE's do."""

    held: dict[str, PoolSnapshot]
    deleted: list[str] = field(default_factory=list)
    busy: set[str] = field(default_factory=set)
    errors: list[Exception] = field(default_factory=list)

    def list(self, cluster: str) -> list[PoolSnapshot]:
        assert cluster in (CLUSTER, UNFINISHED)
        if self.errors:
            raise self.errors.pop(0)
        now = list(self.held.values())
        for each in now:
            if each.status == PoolStatus.STOPPING:
                del self.held[each.name]
            elif each.name in self.deleted:
                self.held[each.name] = pool(each.name, each.labels, PoolStatus.STOPPING)
        return now

    def delete(self, cluster: str, name: str) -> None:
        assert cluster == CLUSTER
        if name in self.busy:
            self.busy.remove(name)
            raise Busy(f"node pool {name} is being created")
        self.deleted.append(name)

    def get(self, cluster: str, name: str) -> PoolSnapshot | None:
        raise AssertionError

    def create(self, cluster: str, node_pool: Any) -> None:
        raise AssertionError


@dataclass
class Cluster:
    jobset: WorkloadView | Exception | None = None
    pods: Sequence[BoundPod] | Exception = ()
    nodes: bool = True

    def get_workload(self, kind: str, namespace: str, name: str) -> WorkloadView | None:
        assert (kind, namespace, name) == ("JobSet", "team", "train")
        if isinstance(self.jobset, Exception):
            raise self.jobset
        return self.jobset

    def list_pool_pods(self, name: str) -> list[BoundPod]:
        if isinstance(self.pods, Exception):
            raise self.pods
        return list(self.pods)

    def find_pools_of_nodes(self, pools: Sequence[str], *, some: bool = False) -> dict[str, str]:
        del some
        return {f"a node of {name}": name for name in pools if self.nodes}

    def get_namespace(self, name: str) -> Namespace:
        return Namespace(uid=f"uid-of-{name}", labels={})


@dataclass
class Clock:
    time: float = 0.0

    def now(self) -> float:
        return self.time

    def pause(self, seconds: float) -> None:
        """Nothing here pauses."""

    def sleep(self, seconds: float) -> None:
        self.time += seconds


@dataclass
class Stage:
    pools: Pools
    cluster: Cluster = field(default_factory=Cluster)
    clock: Clock = field(default_factory=Clock)
    said: list[str] = field(default_factory=list)
    destroyed: str = ""

    def run(self, *, check: bool = False, force: bool = False, timeout_seconds: float = 100.0) -> int:
        settings = Settings(clusters={CLUSTER: ClusterSettings(endpoint="https://x")})
        clusters: Any = {CLUSTER: self.cluster}  # both have only what a removal asks for
        pools: Any = self.pools
        ports = Ports(settings=settings, pools=pools, clusters=clusters, clock=self.clock)
        removal = Removal(
            ports, say=self.said.append, sleep=self.clock.sleep, pause_seconds=10, destroyed=self.destroyed
        )
        return run(removal, check=check, force=force, timeout_seconds=timeout_seconds)


def stage(*pools: PoolSnapshot, **more: Any) -> Stage:
    return Stage(Pools({each.name: each for each in pools}), **more)


def running() -> WorkloadView:
    jobs = (SliceGroup(name="s"),)
    return WorkloadView(kind="JobSet", namespace="team", name="train", uid="u-1", groups=jobs)


def test_every_pool_of_ours_goes_and_is_counted_down_and_no_other_is_touched() -> None:
    scene = stage(pool("a"), pool("b"), pool("static", {}), pool("go", GO_PROVISIONERS))

    assert scene.run() == 0
    assert set(scene.pools.deleted) == {"a", "b"}
    assert set(scene.pools.held) == {"static", "go"}
    assert "2 of 2 node pools left" in scene.said
    assert scene.said[-1] == "0 of 2 node pools left"
    assert len([line for line in scene.said if "belongs to the Go TPU Provisioner and is kept" in line]) == 1


def test_a_pool_that_an_operation_holds_is_tried_again() -> None:
    scene = stage(pool("a"))
    scene.pools.busy = {"a"}

    assert scene.run() == 0
    assert "1 cannot be deleted yet, such as a: node pool a is being created" in scene.said
    assert scene.pools.held == {}


def test_no_pools_are_said_to_be_none() -> None:
    scene = stage()
    assert scene.run() == 0
    assert scene.said == ["There are no node pools of the provisioner"]


def test_a_cluster_that_is_gone_has_no_pools() -> None:
    scene = stage()
    scene.pools.errors = [ClusterNotFound("no such cluster")] * 2
    assert scene.run() == 0


def test_a_few_failures_to_list_are_waited_out_and_a_denial_is_not() -> None:
    scene = stage(pool("a"))
    scene.pools.errors = [Unavailable("503"), Unavailable("503")]
    assert scene.run(force=True) == 0
    assert scene.said[0] == "waiting: 503"

    scene = stage(pool("a"))
    scene.pools.errors = [Denied("403")]
    with pytest.raises(Denied):
        scene.run(force=True)


def test_pools_that_stay_end_it_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = stage(pool("a"), pool("b"))
    monkeypatch.setattr(scene.pools, "delete", lambda _cluster, _name: None)  # accepted, and never done

    with pytest.raises(StillThere, match="2 of 2 node pools are left; run this again to continue"):
        scene.run()
    assert scene.clock.time == 100


@pytest.mark.parametrize("check", [True, False])
def test_a_running_workload_is_refused_by_name_before_anything_is_removed(check: bool) -> None:
    scene = stage(pool("a"), cluster=Cluster(jobset=running()))

    assert scene.run(check=check) == 1
    assert scene.pools.deleted == []
    assert scene.said[0] == f"  {CLUSTER}: node pool a: JobSet team/train runs"
    assert scene.said[1].startswith("error: 1 node pools are in use; end the workloads, or set FORCE=true")


def test_pods_of_others_hold_a_pool_too() -> None:
    other = BoundPod(namespace="x", name="y", kind="", workload="", chips=4, deleting_since=None)
    scene = stage(pool("a"), cluster=Cluster(pods=[other]))

    assert scene.run() == 1
    assert scene.said[0].endswith("node pool a: 1 pods run on it")


def test_a_cluster_that_does_not_answer_is_not_taken_for_idle() -> None:
    scene = stage(pool("a"), cluster=Cluster(jobset=Unavailable("timeout")))

    assert scene.run() == 1
    assert scene.said[0].endswith("node pool a: its workload cannot be read: timeout")


def test_an_endpoint_that_is_not_proven_to_be_the_clusters_is_not_asked_about_workloads() -> None:
    """Swapped endpoints: the other cluster has no such workload and no pods on these pools."""
    scene = stage(pool("a"), cluster=Cluster(nodes=False))

    assert scene.run() == 1
    assert "nothing proves that the endpoint is this cluster's" in scene.said[0]
    assert scene.pools.deleted == []
    assert scene.run(force=True) == 0
    assert scene.pools.held == {}


def test_force_removes_in_spite_of_running_workloads_and_without_asking_the_cluster() -> None:
    scene = stage(pool("a"), cluster=Cluster(jobset=Unavailable("timeout")))

    assert scene.run(force=True) == 0
    assert scene.pools.held == {}


def test_checking_alone_removes_nothing() -> None:
    scene = stage(pool("a"))
    assert scene.run(check=True) == 0
    assert scene.said == ["No workload uses a node pool of the provisioner"]
    assert scene.pools.deleted == []


JOB = BoundPod(namespace="team", name="static-0", kind="Job", workload="static", chips=4, deleting_since=None)
AGENT = BoundPod(namespace="kube-system", name="dns", kind="", workload="", chips=0, deleting_since=None)


@pytest.mark.parametrize("labels", [{}, GO_PROVISIONERS], ids=["static", "of the Go TPU Provisioner"])
def test_a_job_on_a_pool_of_others_holds_the_cluster_that_is_destroyed(labels: dict[str, str]) -> None:
    scene = stage(pool("static", labels), cluster=Cluster(pods=[JOB, AGENT]), destroyed=CLUSTER)

    assert scene.run(check=True) == 1
    said = f"  {CLUSTER}: node pool static: 1 pods with accelerators run on it, and this cluster is destroyed"
    assert said in scene.said
    assert scene.run(force=True) == 0
    assert set(scene.pools.held) == {"static"}


def test_a_job_on_a_pool_of_others_holds_no_cluster_that_stays() -> None:
    scene = stage(pool("static", {}), cluster=Cluster(pods=[JOB]))

    assert scene.run(check=True) == 0


def test_what_needs_no_accelerators_goes_with_its_cluster() -> None:
    scene = stage(pool("cpu", {}), cluster=Cluster(pods=[AGENT]), destroyed=CLUSTER)

    assert scene.run(check=True) == 0


def test_a_cluster_that_is_destroyed_and_does_not_answer_is_not_taken_for_idle() -> None:
    scene = stage(pool("static", {}), cluster=Cluster(pods=Unavailable("timeout")), destroyed=CLUSTER)

    assert scene.run(check=True) == 1
    assert scene.said[0].endswith("node pool static: its pods cannot be read: timeout")


def test_only_the_environments_own_cluster_is_destroyed() -> None:
    assert find_destroyed({}, {}) == find_destroyed({"clusters": {"value": {"main": {"path": CLUSTER}}}}, {}) == ""
    assert find_destroyed({"clusters": {"value": {"environment": {"path": CLUSTER}}}}, {}) == CLUSTER


def test_a_cluster_of_a_build_that_failed_is_found_in_the_state() -> None:
    _, project, _, location, _, name = UNFINISHED.split("/")
    attributes = {"project": project, "location": location, "name": name}
    made = {"module": "module.environment", "type": "google_container_cluster", "mode": "managed"}
    instances = [{"status": "tainted", "attributes": attributes}]
    assert find_destroyed({}, {"resources": [made | {"name": "this", "instances": instances}]}) == UNFINISHED


def test_pools_that_somebody_made_in_a_cluster_of_a_build_that_failed_hold_it() -> None:
    """Its address is not known, so nobody can ask it which pods run."""
    scene = stage(pool("default-pool", {}), pool("my-gpus", {}), destroyed=UNFINISHED)

    assert scene.run(check=True) == 1
    why = "its pods cannot be read, because the build that created this cluster failed"
    assert scene.said[0].strip() == f"{UNFINISHED}: node pool my-gpus: {why}"
    assert scene.run(check=True, force=True) == 0


def test_a_cluster_of_a_build_that_failed_with_gkes_own_pool_only_can_go() -> None:
    assert stage(pool("default-pool", {}), destroyed=UNFINISHED).run(check=True) == 0


def test_nothing_deployed_serves_no_clusters() -> None:
    assert read_clusters({}) == {}
    assert read_clusters({"clusters": {"value": None}}) == {}


@pytest.fixture
def gke(tmp_path: Path) -> Iterator[str]:
    with fake_process(tmp_path, "--project=a-project", "--speed=600") as fake:
        yield fake.rest


def test_the_program_empties_a_fake_gke_whose_cluster_does_not_answer(tmp_path: Path, gke: str) -> None:
    for name, labels in (("ours-1", OURS), ("ours-2", OURS), ("static", {})):
        body = {
            "nodePool": {
                "name": name,
                "initialNodeCount": 1,
                "config": {"machineType": "e2-standard-4", "labels": labels},
            }
        }
        httpx.post(f"{gke}/v1/{CLUSTER}/nodePools", json=body).raise_for_status()
    outputs = tmp_path / "outputs.json"
    outputs.write_text(
        json.dumps({"clusters": {"value": {"a": {"path": CLUSTER, "endpoint": "http://127.0.0.1:1"}}}})
    )
    state = tmp_path / "state.json"
    state.write_text("{}")
    command = [
        sys.executable,
        str(ROOT / "infra/build/remove_pools.py"),
        "--outputs",
        str(outputs),
        f"--state={state}",
        "--pause-seconds=0.2",
    ]
    environ = {"TPU_PROVISIONER_CREDENTIALS": "anonymous", "TPU_PROVISIONER_GKE_ENDPOINT": gke}
    kept = tmp_path / "kept-clusters"
    kept.write_text(f"{CLUSTER}\n")
    spared = subprocess.run(
        [*command, "--force", f"--kept={kept}"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    refused = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    done = subprocess.run(
        [*command, "--force"], env=environ, capture_output=True, text=True, timeout=60, check=False
    )

    assert spared.stdout == "There are no node pools of the provisioner\n", "another deployment serves the cluster"
    assert refused.returncode == 1
    assert "node pool ours-1: its workload cannot be read" in refused.stdout
    assert done.returncode == 0, done.stderr
    assert "2 of 2 node pools left" in done.stdout
    assert done.stdout.splitlines()[-1] == "0 of 2 node pools left"
    left = httpx.get(f"{gke}/v1/{CLUSTER}/nodePools").json()["nodePools"]
    assert [each["name"] for each in left] == ["static"]
