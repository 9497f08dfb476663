"""RayJobs and RayServices under KubeRay: which pools go, when, and what the Events say.

KubeRay does all that it does anywhere; only Ray's dashboards are a stand-in
(`tests.kinds.ray_dashboards`), so that jobs end and applications are ready when a test says so.
Nothing is written into a status by a test.
"""

from typing import Any

import pytest

from tests.kinds.controllers import with_controllers
from tests.kinds.ray_dashboards import Dashboards
from tests.kinds.rays import Json, Life, a_group, a_spec
from tests.lives.cloud import Cloud, wait_for

KUBERAY = "kuberay-1.6"
pytestmark = [*with_controllers(KUBERAY), pytest.mark.usefixtures("dashboards")]
COMPLETE, FAILED, SUSPENDED = "Complete", "Failed", "Suspended"
SERVE = "applications:\n- name: app\n  import_path: app:app\n  route_prefix: /\n"


class JobLife(Life):
    """One RayJob in its own namespace, with the RayClusters that it makes one after another."""

    def __init__(self, cloud: Cloud, dashboards: Dashboards, name: str) -> None:
        super().__init__(cloud, name)
        self.dashboards = dashboards

    @property
    def job_path(self) -> str:
        return f"{self.path.rpartition('/rayclusters')[0]}/rayjobs/{self.name}"

    def begin(self, *, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        usual: Json = {"entrypoint": "python train.py", "submissionMode": "HTTPMode"}
        if "clusterSelector" not in spec:
            usual["rayClusterSpec"] = a_spec(a_group(self.name))
        metadata = {"name": self.name, "annotations": annotations or {}}
        body = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata}
        self.cloud.create(self.job_path.rpartition("/")[0], body | {"spec": usual | spec})

    def change(self, **spec: Any) -> None:
        self.cloud.patch(self.job_path, {"spec": spec})

    def status(self) -> Json:
        status: Json = (self.cloud.get(self.job_path) or {}).get("status", {})
        return status

    def wait_submitted(self, *, before: str = "") -> tuple[str, str]:
        """Return RayCluster and id of a submitted job, on another RayCluster than before."""

        def look() -> tuple[str, str] | None:
            answer = self.status()
            cluster, job = answer.get("rayClusterName", ""), answer.get("jobId", "")
            return (cluster, job) if cluster not in ("", before) and self.dashboards.has(job) else None

        return wait_for(f"{self.name}: the job is submitted", look)

    def wait_status(self, wanted: str) -> None:
        wait_for(f"{self.name}: {wanted}", lambda: self.status().get("jobDeploymentStatus") == wanted)

    def end_job(self, outcome: str, deployment: str) -> None:
        _, job = self.wait_submitted()
        self.dashboards.end(job, outcome)
        self.wait_status(deployment)

    def describe_end(self) -> str:
        found = self.cloud.get(self.job_path)
        return self.status().get("jobDeploymentStatus", "live") if found else "gone"

    def clusters(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.cloud.items(self.path.rpartition("/")[0])]

    def told(self) -> dict[str, str]:
        """Return what was said of a cluster that is kept, by the kind of the object."""
        found = self.cloud.items(f"/api/v1/namespaces/{self.namespace}/events")
        return {
            each["involvedObject"]["kind"]: each["message"] for each in found if "[parent_over]" in each["message"]
        }


def rule(outcome: str, policy: str, seconds: int = 0) -> Json:
    condition = {"jobStatus": outcome, "ttlSeconds": seconds}
    return {"deletionStrategy": {"deletionRules": [{"condition": condition, "policy": policy}]}}


def test_a_rayjob_that_ended_keeps_its_pools_and_is_told_what_would_release_them(
    cloud: Cloud, dashboards: Dashboards
) -> None:
    life = JobLife(cloud, dashboards, "kept")
    life.begin()
    life.wait_running(2)
    (pool,) = life.pools()
    assert life.told() == {}

    life.end_job("SUCCEEDED", COMPLETE)
    told = wait_for("told on both", lambda: found if len(found := life.told()) == 2 else None)
    assert set(told) == {"RayJob", "RayCluster"}
    assert "RayJob rays-kept/kept is Complete" in told["RayJob"]
    assert "set shutdownAfterJobFinishes: true" in told["RayJob"]
    assert life.pools() == [pool]

    life.change(shutdownAfterJobFinishes=True)
    life.wait_nothing_left()
    assert life.clusters() == []
    life.expect_given_back(1)


def test_a_suspended_rayjob_gives_its_pools_back_and_a_deleted_one_too(
    cloud: Cloud, dashboards: Dashboards
) -> None:
    life = JobLife(cloud, dashboards, "paused")
    life.begin(shutdownAfterJobFinishes=True)
    life.wait_running(2)
    first, _ = life.wait_submitted()
    life.change(suspend=True)
    life.wait_status(SUSPENDED)
    life.wait_nothing_left()

    life.change(suspend=False)
    life.wait_submitted(before=first)
    life.wait_running(2)
    cloud.delete(life.job_path)
    life.wait_nothing_left()
    life.expect_given_back(2)


def test_deletion_rules_give_the_pools_back_where_they_apply(cloud: Cloud, dashboards: Dashboards) -> None:
    rules = {
        "workers": rule("SUCCEEDED", "DeleteWorkers"),
        "cluster": rule("SUCCEEDED", "DeleteCluster", 1),
        "itself": rule("SUCCEEDED", "DeleteSelf"),
        "other": rule("FAILED", "DeleteCluster"),
    }
    lives = {name: JobLife(cloud, dashboards, name) for name in rules}
    for name, life in lives.items():
        life.begin(**rules[name])
    for life in lives.values():
        life.wait_running(2)
    for life in lives.values():
        _, job = life.wait_submitted()
        dashboards.end(job, "SUCCEEDED")

    for name in ("workers", "cluster", "itself"):
        lives[name].wait_nothing_left()
    assert len(lives["workers"].clusters()) == 1, "DeleteWorkers leaves the head"
    assert lives["cluster"].clusters() == []
    assert cloud.get(lives["itself"].job_path) is None
    told = wait_for("told of the rule that does not apply", lives["other"].told)
    assert "add a deletion rule that applies to this end" in next(iter(told.values()))
    assert len(lives["other"].pools()) == 1
    assert [name for name in ("workers", "cluster", "itself") if lives[name].told()] == []

    for name in ("workers", "other"):
        cloud.delete(lives[name].job_path)
        lives[name].wait_nothing_left()


class ServiceLife(JobLife):
    """One RayService, likewise; two RayClusters at a time while it is upgraded."""

    @property
    def job_path(self) -> str:
        return f"{self.path.rpartition('/rayclusters')[0]}/rayservices/{self.name}"

    def serve(self) -> None:
        spec: Json = {"serveConfigV2": SERVE, "rayClusterConfig": a_spec(a_group(self.name))}
        body = {"apiVersion": "ray.io/v1", "kind": "RayService", "metadata": {"name": self.name}}
        spec |= {"rayClusterDeletionDelaySeconds": 2}
        self.cloud.create(self.job_path.rpartition("/")[0], body | {"spec": spec})

    def active(self) -> str:
        return str(self.status().get("activeServiceStatus", {}).get("rayClusterName", ""))

    def pools_by_cluster(self, pods: list[Json]) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for pod in pods:
            found.setdefault(pod["metadata"]["labels"]["ray.io/cluster"], set()).add(self.pool_of(pod))
        return found


def test_two_clusters_of_a_rayservice_have_pools_of_their_own_until_the_old_one_goes(
    cloud: Cloud, dashboards: Dashboards
) -> None:
    life = ServiceLife(cloud, dashboards, "served")
    life.serve()
    life.wait_running(2)
    blue = wait_for("the first cluster serves", life.active)

    dashboards.deploying = True
    life.change(rayClusterConfig={"rayVersion": "2.53.0"})
    pools = life.pools_by_cluster(life.wait_running(4))
    assert life.active() == blue in pools
    assert len(pools) == len(set.union(*pools.values())) == 2, pools

    dashboards.deploying = False
    (green,) = pools.keys() - {blue}
    wait_for("the second cluster serves", lambda: life.active() == green)
    life.wait_pools(*pools[green])
    assert life.pools_by_cluster(life.wait_running(2)) == {green: pools[green]}
    cloud.delete(life.job_path)
    life.wait_nothing_left()
    life.expect_given_back(2)
