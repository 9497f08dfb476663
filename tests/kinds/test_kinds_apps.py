"""Deployments, StatefulSets and bare pods from their first pod to their last pool, through the whole loop.

On the real control plane only: the embedded cluster has no controllers for the first two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from local.stack.clusters import ClusterKind
from tests.kinds.living import CALLS_PER_SLICE_MAX, LONG, Life
from tests.lives.cloud import Cloud, wait_for
from tests.lives.jobset_bodies import GRACE_SECONDS, LIFE, RUN_SECONDS, select

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local.stack.stack import Stack

ON_REAL = pytest.mark.parametrize(
    "cluster_kind",
    [pytest.param(ClusterKind.REAL, marks=pytest.mark.cluster)],
    indirect=True,
    scope="session",
    ids=str,
)
pytestmark = [pytest.mark.timeout(400), pytest.mark.slow, ON_REAL]

Json = dict[str, Any]
DEPLOYMENTS, SETS, PODS = "apis/apps/v1/deployments", "apis/apps/v1/statefulsets", "api/v1/pods"


@pytest.fixture(scope="module")
def cloud(stack: Stack) -> Iterator[Cloud]:
    with Cloud(stack) as cloud:
        yield cloud


class Apps(Life):
    """One workload whose pods are labelled with its name."""

    def pod(self, topology: str) -> Json:
        """A pod template that runs for as long as it is let."""
        chips = {"limits": {"google.com/tpu": 4}}
        spec = {
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "nodeSelector": select(topology) | {LIFE: self.name},
            "containers": [{"name": "server", "image": "server", "resources": chips}],
        }
        said = {"labels": {"app": self.name}, "annotations": {RUN_SECONDS: str(LONG)}}
        return {"metadata": said, "spec": spec}

    def submit(self, kind: str, topology: str, replicas: int, **spec: Any) -> None:
        plain = {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": self.name}},
            "template": self.pod(topology),
        }
        body = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": self.name}, "spec": plain | spec}
        self.create(body)

    def submit_pod(self, topology: str, *owners: Json) -> None:
        body = self.pod(topology)
        body["spec"]["restartPolicy"] = "Never"
        body["metadata"] |= {"name": self.name, "ownerReferences": list(owners)}
        self.create({"apiVersion": "v1", "kind": "Pod"} | body)

    def expect_one_pool(self, pods: list[Json]) -> None:
        assert len(self.pools()) == 1
        assert {self.pool_of(pod) for pod in pods} == set(self.pools())
        assert self.accepted("CreateNodePool") == 1

    def wait_refusal(self) -> Json:
        return wait_for(f"{self.name}: a refusal", self.refusals)[0]


@pytest.mark.proves("Deployment", "pods that speak", on="kubernetes")
@pytest.mark.proves("Deployment", "slice", on="kubernetes")
@pytest.mark.proves("Deployment", "released when", on="kubernetes")
def test_all_replicas_of_a_deployment_share_one_pool_until_there_are_none(cloud: Cloud) -> None:
    life = Apps(cloud, "server", DEPLOYMENTS)
    life.submit("Deployment", "2x2", 2)
    pods = life.wait_running(2)
    life.expect_one_pool(pods)
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
    cloud.patch(life.path, {"spec": {"replicas": 0}})
    life.wait_nothing_left()
    assert life.accepted("DeleteNodePool") == 1
    assert len(life.calls()) <= CALLS_PER_SLICE_MAX
    life.end()


@pytest.mark.proves("StatefulSet", "slice", on="kubernetes")
@pytest.mark.proves("StatefulSet", "released when", on="kubernetes")
def test_the_single_hosts_of_a_stateful_set_share_one_pool_though_they_come_in_turn(cloud: Cloud) -> None:
    life = Apps(cloud, "shards", SETS)
    life.submit("StatefulSet", "2x2", 2, serviceName="shards")
    life.expect_one_pool(life.wait_running(2))
    life.end()
    assert life.accepted("DeleteNodePool") == 1


@pytest.mark.proves("StatefulSet", "pods that speak", on="kubernetes")
@pytest.mark.proves("StatefulSet", "slice", on="kubernetes")
def test_a_parallel_stateful_set_of_as_many_pods_as_hosts_is_one_slice(cloud: Cloud) -> None:
    life = Apps(cloud, "handmade", SETS)
    life.submit("StatefulSet", "2x4", 2, serviceName="handmade", podManagementPolicy="Parallel")
    life.expect_one_pool(life.wait_running(2))
    assert life.slices() == ["handmade"]
    life.end()
    assert len(life.calls()) <= CALLS_PER_SLICE_MAX


@pytest.mark.proves("StatefulSet", "refused", on="kubernetes")
def test_a_slice_whose_pods_would_come_in_turn_is_refused_where_its_owner_looks(cloud: Cloud) -> None:
    life = Apps(cloud, "in-turn", SETS)
    life.submit("StatefulSet", "2x4", 2, serviceName="in-turn")
    assert "podManagementPolicy" in life.wait_refusal()["message"]
    assert life.calls() == []
    cloud.delete(life.path)


@pytest.mark.proves("Pod", "pods that speak", on="kubernetes")
@pytest.mark.proves("Pod", "slice", on="kubernetes")
@pytest.mark.proves("Pod", "over when", on="kubernetes")
@pytest.mark.proves("Pod", "released when", on="kubernetes")
def test_a_bare_pod_has_a_pool_of_one_node_until_it_has_ended(cloud: Cloud) -> None:
    life = Apps(cloud, "lab", PODS)
    life.submit_pod("2x2")
    life.expect_one_pool(life.wait_running(1))
    cloud.succeed(life.namespace, "lab")
    life.wait_nothing_left()
    assert life.accepted("DeleteNodePool") == 1
    assert len(life.calls()) <= CALLS_PER_SLICE_MAX


@pytest.mark.proves("Pod", "refused", on="kubernetes")
def test_a_pod_that_nobody_known_controls_is_told_so_and_gets_nothing(cloud: Cloud) -> None:
    life = Apps(cloud, "orphan", PODS)
    # A live owner of a kind that is not in the table, so that the garbage collector leaves its pod alone.
    config = cloud.create(f"/api/v1/namespaces/{life.namespace}/configmaps", {"metadata": {"name": "driver"}})
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "driver", "uid": config["metadata"]["uid"]}
    life.submit_pod("2x2", owner | {"controller": True})
    found = life.wait_refusal()
    assert found["involvedObject"]["name"] == "orphan"
    assert "owner_kind_unknown" in found["message"]
    assert "ConfigMap driver" in found["message"]
    assert life.calls() == []
    cloud.delete(life.path)
