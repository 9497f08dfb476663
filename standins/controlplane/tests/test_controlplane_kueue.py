"""What Kueue itself makes of JobSets that name a queue: no quota, no pods; a flavor's selectors;
preemption.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from standins.controlplane.plane import ControlPlane
from standins.controlplane.tests.controlplane_worlds import (
    SELECTOR,
    START_SECONDS_MAX,
    TPU,
    World,
    clearing,
    jobset,
    wait_for,
    wait_for_count,
)

Json = dict[str, Any]

KUEUE, OTHERS = "kueue-0.15", ("kuberay-1.6", "lws-0.7")
pytestmark = [pytest.mark.cluster, pytest.mark.controller(KUEUE), pytest.mark.timeout(START_SECONDS_MAX)]

SLICE_CHIPS = 16
_API = "/apis/kueue.x-k8s.io/v1beta2"
_LABEL = "kueue.x-k8s.io/"


class QueueWorld(World):
    """A namespace with a queue that has quota for one slice of sixteen chips."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane)
        namespace = self.namespace
        self.made: list[str] = []
        self.make("resourceflavors", "ResourceFlavor", {"nodeLabels": SELECTOR})
        quota = {"name": TPU, "nominalQuota": SLICE_CHIPS}
        resources = {"coveredResources": [TPU], "flavors": [{"name": namespace, "resources": [quota]}]}
        queue = {
            "namespaceSelector": {},
            "resourceGroups": [resources],
            "preemption": {"withinClusterQueue": "LowerPriority"},
        }
        self.make("clusterqueues", "ClusterQueue", queue)
        self.make(f"namespaces/{namespace}/localqueues", "LocalQueue", {"clusterQueue": namespace})

    def make(self, plural: str, kind: str, spec: Json) -> None:
        """Create one of Kueue's own objects under the namespace's name."""
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": self.namespace}}
        self.api.post(f"{_API}/{plural}", json=body | {"spec": spec})
        self.made.append(f"{_API}/{plural}/{self.namespace}")

    def queue(self, name: str, **labels: str) -> Json:
        """Submit a JobSet of one slice, without selectors of its own, to the queue."""
        body = jobset(name, slices=1)
        body["metadata"]["labels"] = {f"{_LABEL}queue-name": self.namespace} | labels
        del body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["nodeSelector"]
        return self.submit(body)

    def pods_of(self, name: str) -> list[Json]:
        return [pod for pod in self.pods() if pod["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] == name]

    def reasons(self, name: str, kind: str) -> list[str]:
        """The reasons of a condition of the Workload that Kueue made for a JobSet."""
        found = self.read_all(f"{_API}/namespaces/{self.namespace}/workloads")
        conditions = [
            condition
            for each in found
            if each["metadata"]["ownerReferences"][0]["name"] == name
            for condition in each.get("status", {}).get("conditions", [])
        ]
        return [each["reason"] for each in conditions if each["type"] == kind]

    def clear(self) -> None:
        super().clear()
        for path in reversed(self.made):
            self.api.delete(path)


@pytest.fixture
def queues(plane_with: Callable[..., ControlPlane]) -> Iterator[QueueWorld]:
    with clearing(QueueWorld(plane_with(KUEUE))) as world:
        yield world


@pytest.fixture
def everything(plane_with: Callable[..., ControlPlane]) -> Iterator[QueueWorld]:
    """A queue where all the other controllers run, too."""
    with clearing(QueueWorld(plane_with(KUEUE, *OTHERS))) as world:
        yield world


def test_an_admitted_jobset_asks_with_the_selectors_of_its_flavor(queues: QueueWorld) -> None:
    submitted = queues.queue("first")
    (leader,) = wait_for("an unschedulable leader", queues.unschedulable)

    assert submitted["spec"]["suspend"] is True
    assert SELECTOR.items() <= leader["spec"]["nodeSelector"].items()
    assert queues.stored("first")["spec"]["suspend"] is False


def test_a_jobset_beyond_the_quota_stays_suspended_and_has_no_pods(queues: QueueWorld) -> None:
    queues.queue("first")
    wait_for("the leader of the first", queues.unschedulable)
    queues.queue("second")
    wait_for("word on the second", lambda: "Pending" in queues.reasons("second", "QuotaReserved"))

    assert queues.stored("second")["spec"]["suspend"] is True
    assert queues.pods_of("second") == []


def test_preemption_suspends_the_lower_one_and_takes_its_pods(queues: QueueWorld) -> None:
    urgent = f"{queues.namespace}-urgent"
    path = f"{_API}/workloadpriorityclasses"
    metadata = {"name": urgent}
    body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": metadata}
    queues.api.post(path, json=body | {"value": 1000})
    queues.made.append(f"{path}/{urgent}")
    queues.queue("first")
    wait_for("the leader of the first", lambda: queues.pods_of("first"))
    queues.queue("second", **{f"{_LABEL}priority-class": urgent})
    wait_for("the leader of the second", lambda: queues.pods_of("second"))

    assert queues.stored("first")["spec"]["suspend"] is True
    wait_for("the end of the first's pods", lambda: not queues.pods_of("first"))
    assert queues.reasons("first", "Evicted") == ["Preempted"]


def test_a_jobset_that_names_no_queue_is_none_of_its_business(queues: QueueWorld) -> None:
    queues.submit(jobset("free", slices=1))

    wait_for("its leader", queues.unschedulable)
    assert queues.stored("free")["spec"].get("suspend", False) is False


@pytest.mark.controller(*OTHERS)
def test_a_raycluster_that_names_a_queue_waits_for_its_quota_like_a_jobset(everything: QueueWorld) -> None:
    path = f"/apis/ray.io/v1/namespaces/{everything.namespace}/rayclusters"
    for name in ("first", "second"):
        everything.api.post(path, json=raycluster(name, everything.namespace))
    pods = wait_for_count("the pods of one", 5, everything.pods)
    names = {pod["metadata"]["labels"]["ray.io/cluster"] for pod in pods}
    workers = [pod for pod in pods if pod["metadata"]["labels"]["ray.io/node-type"] == "worker"]

    assert len(names) == 1
    assert all(SELECTOR.items() <= pod["spec"]["nodeSelector"].items() for pod in workers)
    suspended = {
        each["metadata"]["name"]: each["spec"].get("suspend", False) for each in everything.read_all(path)
    }
    assert suspended == {name: name not in names for name in ("first", "second")}
    for name in suspended:
        everything.api.delete(f"{path}/{name}", params={"propagationPolicy": "Background"})


def raycluster(name: str, queue: str) -> Json:
    """Return a RayCluster of one slice of sixteen chips, without selectors of its own."""
    worker = {"name": "worker", "image": "worker", "resources": {"limits": {TPU: "4"}}}
    group = {
        "groupName": "slices",
        "replicas": 1,
        "minReplicas": 1,
        "maxReplicas": 1,
        "numOfHosts": 4,
        "rayStartParams": {},
        "template": {"spec": {"containers": [worker]}},
    }
    head = {"spec": {"containers": [{"name": "head", "image": "head"}]}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name, "labels": {f"{_LABEL}queue-name": queue}},
        "spec": {"headGroupSpec": {"rayStartParams": {}, "template": head}, "workerGroupSpecs": [group]},
    }
