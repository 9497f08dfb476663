"""A RayJob that waits for its capacity under KubeRay itself.

Its RayCluster has all pools before any pod.

KubeRay makes the RayCluster suspended, because the RayJob's `rayClusterSpec` says so, and copies
the annotations to it. Ray's dashboards are a stand-in (`tests.kinds.ray_dashboards`).
"""

import copy
import math
from typing import Any

import pytest

from demo.stack.clusters import ClusterKind
from demo.stack.commands import StackSettings
from shared.core import labels
from shared.core.times import parse_time
from standins.controlplane.plane import ControlPlane
from tests.clusters import SPEED
from tests.kinds.controllers import with_controllers
from tests.kinds.optional_rights import read_optional_rights
from tests.kinds.ray_dashboards import Dashboards
from tests.kinds.rays import Json, a_group, a_spec
from tests.kinds.real.test_kinds_rayjob_real import COMPLETE, FAILED, SUSPENDED, JobLife
from tests.lives.cloud import Cloud, wait_for

KUBERAY = "kuberay-1.6"
pytestmark = [*with_controllers(KUBERAY), pytest.mark.usefixtures("dashboards")]
FOLDER = "capacity-first"
CLUSTER = "ray.io/cluster"
LATE = 60 * SPEED
"""Virtual seconds: longer than the grace, and than KubeRay takes to see a deadline."""


@pytest.fixture(scope="module")
def plane(plane: ControlPlane) -> ControlPlane:
    plane.apply(read_optional_rights(FOLDER))
    return plane


@pytest.fixture(scope="module")
def stack_settings() -> StackSettings:
    return StackSettings(speed=SPEED, cluster=ClusterKind.REAL, capacity_first=True)


class AskingLife(JobLife):
    """A RayJob with two slices that asks for its capacity."""

    def ask(self, *, held: bool = True, cluster: Json | None = None, **spec: Any) -> None:
        """Create it; `held` is its own suspension, `cluster` more fields of ``rayClusterSpec``."""
        spec |= {"suspend": held, "shutdownAfterJobFinishes": True}
        spec["rayClusterSpec"] = a_spec(a_group(self.name, replicas=2)) | (cluster or {})
        self.begin(annotations={labels.CAPACITY_FIRST: "true"}, **spec)

    def wait_all_running(self) -> set[str]:
        """Return the pools of both slices, once their pods run; all pools came before any pod."""
        pools = set(self.pools_by_replica(self.wait_running(4)).values())
        (cluster,) = self.cloud.items(self.path.rpartition("/")[0])
        resumed_at = parse_time(cluster["metadata"]["annotations"][labels.CAPACITY_FIRST_RESUMED])
        mine = [each for each in self.pods() if each["metadata"]["labels"][CLUSTER] == cluster["metadata"]["name"]]
        created = [parse_time(each["metadata"]["creationTimestamp"]) or 0.0 for each in mine]
        assert resumed_at is not None
        assert len(created) == 5, "a head and four workers"
        assert min(created) >= math.floor(resumed_at)  # Kubernetes keeps whole seconds
        return pools

    def read_job(self) -> tuple[bool, Json]:
        found = self.cloud.get(self.job_path) or {}
        return found["spec"].get("suspend", False), found["metadata"].get("annotations", {})

    def list_messages(self) -> list[str]:
        found = self.cloud.items(f"/api/v1/namespaces/{self.namespace}/events")
        return [each["message"] for each in found if each["involvedObject"]["kind"] == "RayJob"]


def test_a_suspended_rayjob_and_each_retry_have_all_pools_before_any_pod(
    cloud: Cloud, dashboards: Dashboards
) -> None:
    life = AskingLife(cloud, dashboards, "eager")
    life.ask(backoffLimit=1)
    pools = life.wait_all_running()
    assert set(life.pools()) == pools
    held, marks = life.read_job()
    assert (held, labels.CAPACITY_FIRST_HANDED in marks) == (False, True)
    first, job = life.wait_submitted()

    dashboards.end(job, "FAILED")
    second, job = life.wait_submitted(before=first)
    assert not life.wait_all_running() & pools
    assert life.clusters() == [second]
    dashboards.end(job, "SUCCEEDED")
    life.wait_status(COMPLETE)
    life.wait_nothing_left()
    life.expect_given_back(4)


def test_a_person_who_suspends_the_rayjob_later_is_not_overruled(cloud: Cloud, dashboards: Dashboards) -> None:
    life = AskingLife(cloud, dashboards, "paused")
    life.ask()
    life.wait_running(4)
    first, _ = life.wait_submitted()
    life.change(suspend=True)
    life.wait_status(SUSPENDED)
    life.wait_nothing_left()
    assert (life.read_job()[0], life.clusters()) == (True, [])

    life.change(suspend=False)
    life.wait_submitted(before=first)
    life.wait_all_running()
    cloud.delete(life.job_path)
    life.wait_nothing_left()
    life.expect_given_back(4)


def test_a_rayjob_that_fails_while_it_waits_gets_its_pools_given_back(
    cloud: Cloud, dashboards: Dashboards
) -> None:
    life = AskingLife(cloud, dashboards, "hasty")
    fault = cloud.add_fault("duration", pool="hasty-*-g-1-*", operation="create", seconds=LATE)
    life.ask(held=False, cluster={"suspend": True}, activeDeadlineSeconds=30, ttlSecondsAfterFinished=3600)
    wait_for("a pool of each slice", lambda: len(life.pools()) == 2)
    life.wait_status(FAILED)
    life.wait_nothing_left()

    (cluster,) = cloud.items(life.path.rpartition("/")[0])
    assert (cluster["spec"]["suspend"], life.pods()) == (True, [])
    cloud.clear_fault(fault)
    cloud.delete(life.job_path)
    wait_for("the RayCluster is gone", lambda: life.clusters() == [])


def test_without_the_right_to_change_it_the_rayjob_is_told_and_nothing_is_bought(
    cloud: Cloud, dashboards: Dashboards, plane: ControlPlane
) -> None:
    lesser = copy.deepcopy(read_optional_rights(FOLDER))
    role = next(each for each in lesser if each["metadata"]["name"] == "tpu-provisioner-capacity-first-sweep")
    (rule,) = [rule for rule in role["rules"] if "rayjobs" in rule["resources"]]
    rule["verbs"].remove("patch")
    plane.apply([role])
    life = AskingLife(cloud, dashboards, "denied")
    life.ask()

    message = wait_for(
        "an Event about the right", lambda: [each for each in life.list_messages() if "patch" in each]
    )
    assert "permission_denied" in message[0]
    assert (life.calls(), life.read_job()[0]) == ([], True)
    plane.apply(read_optional_rights(FOLDER))
    life.wait_running(4)  # the sweep tries again
    cloud.delete(life.job_path)
    life.wait_nothing_left()
