"""What KubeRay itself makes of a RayCluster, in a version whose pods tell their slice and in one
whose do not.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from standins.controlplane.plane import ControlPlane
from standins.controlplane.tests.controlplane_worlds import (
    AT_ONCE,
    SELECTOR,
    START_SECONDS_MAX,
    TPU,
    World,
    clearing,
    label,
    wait_for,
    wait_for_count,
)

Json = dict[str, Any]

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(START_SECONDS_MAX)]

OLD, NEW = "kuberay-1.5", "kuberay-1.6"
VERSIONS = {name: pytest.param(name, marks=pytest.mark.controller(name), id=name) for name in (OLD, NEW)}
on_both = pytest.mark.parametrize("version", VERSIONS.values())
on_old = pytest.mark.parametrize("version", [VERSIONS[OLD]])
on_new = pytest.mark.parametrize("version", [VERSIONS[NEW]])

REPLICA, REPLICA_NAME, HOST = (
    "ray.io/worker-group-replica-index",
    "ray.io/worker-group-replica-name",
    "ray.io/replica-host-index",
)
SLICE_LABELS = {REPLICA, REPLICA_NAME, HOST}


class RayWorld(World):
    """A namespace with RayClusters."""

    LIST = "/apis/ray.io/v1/namespaces/{}/rayclusters"

    def workers(self, group: str) -> list[Json]:
        """The pods of a worker group that are not being deleted."""
        return [
            pod
            for pod in self.pods()
            if label(pod, "ray.io/group") == group and "deletionTimestamp" not in pod["metadata"]
        ]


@pytest.fixture
def rays(version: str, plane_with: Callable[..., ControlPlane]) -> Iterator[RayWorld]:
    with clearing(RayWorld(plane_with(version))) as world:
        yield world


def group(name: str, *, hosts: int, replicas: int) -> Json:
    container = {"name": "worker", "image": "worker", "resources": {"limits": {TPU: "4"}}}
    template = {"spec": {"nodeSelector": SELECTOR, "containers": [container]}}
    return {
        "groupName": name,
        "replicas": replicas,
        "minReplicas": 0,
        "maxReplicas": 4,
        "numOfHosts": hosts,
        "rayStartParams": {},
        "template": template,
    }


def raycluster(name: str, *groups: Json) -> Json:
    head = {"spec": {"containers": [{"name": "head", "image": "head"}]}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name},
        "spec": {
            "rayVersion": "2.52.0",
            "headGroupSpec": {"rayStartParams": {}, "template": head},
            "workerGroupSpecs": list(groups),
        },
    }


def slices_of(pods: list[Json]) -> dict[str, list[str]]:
    """The host indexes of each replica name, in order."""
    found: dict[str, list[str]] = {}
    for pod in pods:
        found.setdefault(label(pod, REPLICA_NAME), []).append(label(pod, HOST))
    return {name: sorted(hosts) for name, hosts in found.items()}


@on_both
def test_a_raycluster_has_a_head_and_all_workers_at_once(rays: RayWorld) -> None:
    rays.submit(raycluster("train", group("slices", hosts=2, replicas=2)))
    pods = wait_for_count("five pods", 5, rays.pods)

    assert sorted(label(pod, "ray.io/node-type") for pod in pods) == ["head"] + ["worker"] * 4
    assert {label(pod, "ray.io/cluster") for pod in pods} == {"train"}
    owner = rays.stored("train")["metadata"]["uid"]
    for pod in pods:
        (reference,) = pod["metadata"]["ownerReferences"]
        assert (reference["kind"], reference["uid"], reference["controller"]) == ("RayCluster", owner, True)
    # All ask at once: there is no leader that the others wait for.
    wait_for("four unschedulable workers", lambda: len(unschedulable_workers(rays)) == 4)


def unschedulable_workers(rays: RayWorld) -> list[Json]:
    return [pod for pod in rays.unschedulable() if label(pod, "ray.io/node-type") == "worker"]


@on_old
def test_the_old_versions_pods_do_not_tell_their_slice(rays: RayWorld) -> None:
    rays.submit(raycluster("train", group("slices", hosts=2, replicas=2), group("singles", hosts=1, replicas=1)))
    pods = wait_for_count("six pods", 6, rays.pods)

    assert [SLICE_LABELS & pod["metadata"]["labels"].keys() for pod in pods] == [set()] * 6


@on_new
def test_the_new_versions_pods_tell_replica_and_host(rays: RayWorld) -> None:
    rays.submit(raycluster("train", group("slices", hosts=2, replicas=2), group("singles", hosts=1, replicas=1)))
    wait_for_count("six pods", 6, rays.pods)
    workers = rays.workers("slices")

    assert list(slices_of(workers).values()) == [["0", "1"], ["0", "1"]]
    assert {(label(pod, REPLICA), label(pod, HOST)) for pod in workers} == {
        (replica, host) for replica in "01" for host in "01"
    }
    assert all(label(pod, REPLICA_NAME).startswith("slices-") for pod in workers)
    (single,) = rays.workers("singles")
    assert SLICE_LABELS & single["metadata"]["labels"].keys() == {REPLICA}


@on_new
def test_a_replica_that_loses_a_host_comes_back_whole_under_a_new_name_and_the_old_index(rays: RayWorld) -> None:
    rays.submit(raycluster("train", group("slices", hosts=2, replicas=1)))
    workers = wait_for_count("two workers", 2, lambda: rays.workers("slices"))
    before = {label(pod, REPLICA_NAME) for pod in workers}
    # KubeRay waits until its cache has each pod that it created. If one is deleted before, it waits
    # for 30 s, and then until something else wakes it, which may take 5 minutes.
    wait_for("two unschedulable workers", lambda: len(unschedulable_workers(rays)) == 2)
    rays.api.delete(f"/api/v1/namespaces/{rays.namespace}/pods/{workers[0]['metadata']['name']}", params=AT_ONCE)

    def replaced() -> list[Json]:
        found = rays.workers("slices")
        return found if len(found) == 2 and not before & slices_of(found).keys() else []

    found = wait_for("another replica", replaced)
    assert list(slices_of(found).values()) == [["0", "1"]]
    assert {label(pod, REPLICA) for pod in found} == {"0"}


@on_new
def test_scaling_down_takes_a_whole_replica(rays: RayWorld) -> None:
    rays.submit(raycluster("train", group("slices", hosts=2, replicas=3)))
    workers = wait_for_count("six workers", 6, lambda: rays.workers("slices"))
    rays.change("train", workerGroupSpecs=[group("slices", hosts=2, replicas=2)])
    left = wait_for_count("four workers", 4, lambda: rays.workers("slices"))

    assert list(slices_of(left).values()) == [["0", "1"], ["0", "1"]]
    assert slices_of(left).keys() < slices_of(workers).keys()


@on_both
def test_a_suspended_raycluster_has_no_pods_and_says_so(rays: RayWorld) -> None:
    rays.submit(raycluster("train", group("slices", hosts=2, replicas=1)))
    wait_for_count("three pods", 3, rays.pods)
    rays.change("train", suspend=True)

    def suspended() -> bool:
        conditions = rays.stored("train").get("status", {}).get("conditions", [])
        return any(each["type"] == "RayClusterSuspended" and each["status"] == "True" for each in conditions)

    wait_for("suspension", lambda: suspended() and not rays.pods())
