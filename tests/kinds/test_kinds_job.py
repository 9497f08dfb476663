"""Plain Jobs from their first pod to their last pool: exporter, functions, GKE and kubelet, on both clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from local.stack.layout import TOPIC
from tests.lives.cloud import Cloud, wait_for
from tests.lives.jobset_bodies import GRACE_SECONDS, HOSTS, LIFE, RUN_SECONDS, Job, alone, jobset, select

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local.stack.stack import Stack

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]

Json = dict[str, Any]
LONG = 36_000
"""Virtual seconds: until somebody ends the pods."""
CALLS_PER_SLICE_MAX = 8
"""As for the slice of any other kind: docs/lives.md."""


@pytest.fixture(scope="module")
def cloud(stack: Stack) -> Iterator[Cloud]:
    with Cloud(stack) as cloud:
        yield cloud


class Life:
    """One Job in a namespace of its own; its pools are told from others' by its name."""

    def __init__(self, cloud: Cloud, name: str) -> None:
        self.cloud, self.name, self.namespace = cloud, name, f"job-{name}"
        cloud.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        if cloud.is_real:  # without its account a namespace can have no pods
            account = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default"
            wait_for("the namespace's default account", lambda: cloud.get(account))

    @property
    def path(self) -> str:
        return f"/apis/batch/v1/namespaces/{self.namespace}/jobs/{self.name}"

    def submit(self, topology: str, *, pods: int = 0, **spec: Any) -> None:
        """Create the Job; one pod for each host of the topology unless a number is given."""
        count = pods or HOSTS[topology]
        container = {"name": "worker", "image": "worker", "resources": {"limits": {"google.com/tpu": 4}}}
        pod = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "nodeSelector": select(topology) | {LIFE: self.name},
            "containers": [container],
        }
        template = {"metadata": {"annotations": {RUN_SECONDS: str(LONG)}}, "spec": pod}
        usual = {"completionMode": "Indexed", "parallelism": count, "completions": count, "backoffLimit": 0}
        body = {"metadata": {"name": self.name}, "spec": usual | {"template": template} | spec}
        self.cloud.create(self.path.rpartition("/")[0], body)

    def wait_running(self, count: int) -> list[Json]:
        return wait_for(f"{self.name}: {count} running pods", lambda: self._running(count))

    def wait_nothing_left(self) -> None:
        """Return once the Job has neither pools nor nodes."""
        wait_for(f"{self.name}: no pools", lambda: not self.pools())
        nodes = {"labelSelector": f"{LIFE}={self.name}"}
        wait_for(f"{self.name}: no nodes", lambda: not self.cloud.items("/api/v1/nodes", **nodes))

    def finish(self) -> None:
        """Report that every pod has succeeded, and return once the Job is complete."""
        for pod in self.pods():
            self.cloud.succeed(self.namespace, pod["metadata"]["name"])
        wait_for(f"{self.name}: Complete", lambda: "Complete" in self.conditions())

    def pods(self) -> list[Json]:
        return self.cloud.items(f"/api/v1/namespaces/{self.namespace}/pods")

    def conditions(self) -> set[str]:
        found = (self.cloud.get(self.path) or {}).get("status", {}).get("conditions", ())
        return {each["type"] for each in found if each["status"] == "True"}

    def pools(self) -> list[str]:
        return sorted(name for name in self.cloud.pools() if name.startswith(f"{self.name}-"))

    def pool_of(self, pod: Json) -> str:
        node = self.cloud.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")
        assert node is not None
        return str(node["metadata"]["labels"]["cloud.google.com/gke-nodepool"])

    def refusals(self) -> list[str]:
        found = self.cloud.items(f"/api/v1/namespaces/{self.namespace}/events")
        return [each["message"] for each in found if each["reason"] == "NodePoolRefused"]

    def calls(self, method: str = "") -> list[Json]:
        mine = [each for each in self.cloud.calls() if each["pool"].startswith(f"{self.name}-")]
        return [each for each in mine if method in ("", each["method"])]

    def accepted(self, method: str) -> int:
        return sum(each["code"] == "OK" for each in self.calls(method))

    def _running(self, count: int) -> list[Json]:
        found = [
            pod
            for pod in self.pods()
            if pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
        ]
        return found if len(found) == count else []


@pytest.mark.proves("Job", "pods that speak", on=("kubernetes", "embedded"))
@pytest.mark.proves("Job", "slice", on=("kubernetes", "embedded"))
@pytest.mark.proves("Job", "over when", on=("kubernetes", "embedded"))
def test_an_indexed_job_of_several_hosts_has_one_pool_until_it_is_complete(cloud: Cloud) -> None:
    life = Life(cloud, "whole")
    life.submit("4x4")
    pods = life.wait_running(4)
    assert {life.pool_of(pod) for pod in pods} == set(life.pools())
    assert len(life.pools()) == 1
    life.finish()
    life.wait_nothing_left()
    assert (life.accepted("CreateNodePool"), life.accepted("DeleteNodePool")) == (1, 1)
    assert len(life.calls()) <= CALLS_PER_SLICE_MAX


@pytest.mark.proves("Job", "pods that speak", on=("kubernetes", "embedded"))
@pytest.mark.proves("Job", "slice", on=("kubernetes", "embedded"))
@pytest.mark.proves("Job", "over when", on=("kubernetes", "embedded"))
def test_on_single_hosts_each_index_has_a_pool_of_its_own_until_the_last_is_done(cloud: Cloud) -> None:
    life = Life(cloud, "hosts")
    life.submit("2x2", pods=3)
    pods = life.wait_running(3)
    assert [name.rsplit("-", 2)[0] for name in life.pools()] == ["hosts-0", "hosts-1", "hosts-2"]
    assert {life.pool_of(pod) for pod in pods} == set(life.pools())
    life.finish()
    life.wait_nothing_left()
    assert (life.accepted("CreateNodePool"), life.accepted("DeleteNodePool")) == (3, 3)
    assert len(life.calls()) <= 3 * CALLS_PER_SLICE_MAX


@pytest.mark.proves("Job", "slice", on=("kubernetes", "embedded"))
@pytest.mark.proves("Job", "refused", on=("kubernetes", "embedded"))
def test_several_pods_without_index_are_refused_where_their_owner_looks(cloud: Cloud) -> None:
    life = Life(cloud, "unindexed")
    life.submit("2x4", completionMode="NonIndexed")
    (message, *_) = wait_for("a refusal", life.refusals)
    assert "completionMode" in message
    assert "slice_unknown" in message
    assert life.calls() == []
    cloud.delete(life.path)


@pytest.mark.proves("Job", "released when", on=("kubernetes", "embedded"))
def test_a_suspended_job_gives_its_pool_back_and_gets_one_again(cloud: Cloud) -> None:
    life = Life(cloud, "halted")
    life.submit("2x4")
    life.wait_running(2)
    cloud.patch(life.path, {"spec": {"suspend": True}})
    wait_for("halted: suspended", lambda: "Suspended" in life.conditions())
    life.wait_nothing_left()
    cloud.patch(life.path, {"spec": {"suspend": False}})
    life.wait_running(2)
    cloud.delete(life.path)
    life.wait_nothing_left()
    assert (life.accepted("CreateNodePool"), life.accepted("DeleteNodePool")) == (2, 2)


def test_the_jobs_of_another_workload_are_spoken_of_as_that_workload_alone(cloud: Cloud) -> None:
    life = Life(cloud, "part")
    path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{life.namespace}/jobsets"
    cloud.create(path, alone(jobset(life.name, Job(does={RUN_SECONDS: str(LONG)}))))
    life.wait_running(2)
    cloud.delete(f"{path}/{life.name}")
    life.wait_nothing_left()
    said = [each for each in cloud.messages(TOPIC) if each["namespace"] == life.namespace]
    assert {each["workload"]["kind"] for each in said if "workload" in each} == {"JobSet"}
    assert {each["kind"] for each in said} == {"Pod", "JobSet"}
    assert life.accepted("CreateNodePool") == 1
