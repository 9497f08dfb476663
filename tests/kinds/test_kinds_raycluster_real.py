"""RayClusters under KubeRay itself, from the first pod of a replica to its last pool: the whole loop."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from local.stack.clusters import ClusterKind
from local.stack.commands import StackSettings
from local.stack.stack import Stack
from tests.conftest import SPEED
from tests.lives.cloud import Cloud, wait_for
from tests.lives.jobset_bodies import HOSTS, LIFE, RUN_SECONDS, select

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from local.controlplane.plane import ControlPlane

KUBERAY = "kuberay-1.6"
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.controller(KUBERAY),
    pytest.mark.timeout(400),
    pytest.mark.slow,
]

Json = dict[str, Any]
LONG = 36_000
"""Virtual seconds: until somebody ends the pods."""
CALLS_PER_SLICE_MAX = 8
"""As for the slice of any other kind: docs/lives.md."""
REPLICA_INDEX, REPLICA_NAME = "ray.io/worker-group-replica-index", "ray.io/worker-group-replica-name"
APART = {
    "podAffinity": {
        "labelSelector": {"matchLabels": {"ray.io/node-type": "worker"}},
        "matchLabelKeys": [REPLICA_NAME],
    },
    "podAntiAffinity": {
        "labelSelector": {"matchExpressions": [{"key": REPLICA_NAME, "operator": "Exists"}]},
        "mismatchLabelKeys": [REPLICA_NAME],
        "namespaceSelector": {},
    },
}
"""What GKE's Ray TPU webhook comes to: the hosts of a replica on one pool, and those of no two."""


@pytest.fixture(scope="module")
def cloud(plane_with: Callable[..., ControlPlane], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    settings = StackSettings(speed=SPEED, cluster=ClusterKind.REAL)
    with (
        Stack(tmp_path_factory.mktemp("rays"), settings, plane=plane_with(KUBERAY)) as stack,
        Cloud(stack) as cloud,
    ):
        yield cloud


def a_group(life: str, topology: str = "2x4", *, apart: bool = True, **fields: Any) -> Json:
    """One worker group; its nodes are told from other tests' by a label."""
    container = {"name": "ray-worker", "image": "ray", "resources": {"limits": {"google.com/tpu": 4}}}
    pod: Json = {"nodeSelector": select(topology) | {LIFE: life}, "containers": [container]}
    if apart:
        term = "requiredDuringSchedulingIgnoredDuringExecution"
        pool = {"topologyKey": "cloud.google.com/gke-nodepool"}
        pod["affinity"] = {name: {term: [pool | each]} for name, each in APART.items()}
    template = {"metadata": {"annotations": {RUN_SECONDS: str(LONG)}}, "spec": pod}
    usual = {"groupName": "g", "replicas": 1, "minReplicas": 0, "maxReplicas": 4, "numOfHosts": HOSTS[topology]}
    return usual | {"rayStartParams": {}, "template": template} | fields


class Life:
    """One RayCluster in a namespace of its own; its pools are told from others' by its name."""

    def __init__(self, cloud: Cloud, name: str) -> None:
        self.cloud, self.name, self.namespace = cloud, name, f"rays-{name}"
        cloud.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        account = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default"
        wait_for("the namespace's default account", lambda: cloud.get(account))

    @property
    def path(self) -> str:
        return f"/apis/ray.io/v1/namespaces/{self.namespace}/rayclusters/{self.name}"

    def submit(self, *groups: Json) -> None:
        head = {"spec": {"containers": [{"name": "ray-head", "image": "ray"}]}}
        head["metadata"] = {"annotations": {RUN_SECONDS: str(LONG)}}
        spec = {
            "rayVersion": "2.52.0",
            "headGroupSpec": {"rayStartParams": {}, "template": head},
            "workerGroupSpecs": list(groups or [a_group(self.name)]),
        }
        body = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": self.name}, "spec": spec}
        self.cloud.create(self.path.rpartition("/")[0], body)

    def scale(self, replicas: int, *, without: str = "") -> None:
        """Change the first group's replicas, as a person does; with the pod to leave, as Ray's autoscaler does."""
        groups = copy.deepcopy((self.cloud.get(self.path) or {})["spec"]["workerGroupSpecs"])
        groups[0]["replicas"] = replicas
        groups[0]["scaleStrategy"] = {"workersToDelete": [without] if without else []}
        self.cloud.patch(self.path, {"spec": {"workerGroupSpecs": groups}})

    def lose_host(self, index: str, pods: list[Json]) -> None:
        """Delete a pod of a replica, and return once KubeRay has taken down the others of it."""
        mine = [pod for pod in pods if pod["metadata"]["labels"][REPLICA_INDEX] == index]
        self.cloud.delete(f"/api/v1/namespaces/{self.namespace}/pods/{mine[0]['metadata']['name']}")
        wait_for(f"replica {index} is replaced", lambda: not _names(self.workers()) & _names(mine))

    def cordon(self, pool: str) -> None:
        """Keep new pods off a pool's nodes."""
        for node in self.cloud.items("/api/v1/nodes", labelSelector=f"cloud.google.com/gke-nodepool={pool}"):
            self.cloud.patch(f"/api/v1/nodes/{node['metadata']['name']}", {"spec": {"unschedulable": True}})

    def suspend(self, *, suspended: bool) -> None:
        self.cloud.patch(self.path, {"spec": {"suspend": suspended}})

    def delete(self) -> None:
        self.cloud.delete(self.path)

    def wait_running(self, count: int) -> list[Json]:
        """Return the workers once so many run, and no others are there."""
        return wait_for(f"{self.name}: {count} running workers", lambda: self._running(count))

    def wait_pools(self, *names: str) -> None:
        wait_for(f"{self.name}: pools {names}", lambda: self.pools() == sorted(names))

    def wait_nothing_left(self) -> None:
        self.wait_pools()
        nodes = {"labelSelector": f"{LIFE}={self.name}"}
        wait_for(f"{self.name}: no nodes", lambda: not self.cloud.items("/api/v1/nodes", **nodes))

    def workers(self) -> list[Json]:
        selector = "ray.io/node-type=worker"
        return self.cloud.items(f"/api/v1/namespaces/{self.namespace}/pods", labelSelector=selector)

    def replica(self, index: str) -> list[Json]:
        """Return the pods of a replica, those that end among them."""
        return [pod for pod in self.workers() if pod["metadata"]["labels"][REPLICA_INDEX] == index]

    def pools(self) -> list[str]:
        return sorted(name for name in self.cloud.pools() if name.startswith(f"{self.name}-"))

    def pool_of(self, pod: Json) -> str:
        node = self.cloud.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")
        assert node is not None
        return str(node["metadata"]["labels"]["cloud.google.com/gke-nodepool"])

    def pools_by_replica(self, pods: list[Json]) -> dict[str, str]:
        """Return the one pool of each replica, by its index."""
        found: dict[str, set[str]] = {}
        for pod in pods:
            found.setdefault(pod["metadata"]["labels"][REPLICA_INDEX], set()).add(self.pool_of(pod))
        assert all(len(pools) == 1 for pools in found.values()), f"a replica on several pools: {found}"
        return {index: pool for index, (pool,) in found.items()}

    def refusals(self) -> list[str]:
        found = self.cloud.items(f"/api/v1/namespaces/{self.namespace}/events")
        return [each["message"] for each in found if each["reason"] == "NodePoolRefused"]

    def accepted(self, method: str) -> int:
        return sum(each["code"] == "OK" and each["method"] == method for each in self.calls())

    def calls(self) -> list[Json]:
        return [each for each in self.cloud.calls() if each["pool"].startswith(f"{self.name}-")]

    def _running(self, count: int) -> list[Json]:
        found = self.workers()
        whole = all(_runs(pod) for pod in found)
        return found if whole and len(found) == count else []


def _runs(pod: Json) -> bool:
    return pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")


@pytest.mark.proves("RayCluster", "pods that speak", on=KUBERAY)
@pytest.mark.proves("RayCluster", "slice", on=KUBERAY)
@pytest.mark.proves("RayCluster", "over when", on=KUBERAY)
@pytest.mark.proves("RayCluster", "released when", on=KUBERAY)
def test_each_replica_has_a_pool_and_only_the_one_that_leaves_gives_it_back(cloud: Cloud) -> None:
    life = Life(cloud, "elastic")
    life.submit()
    first = life.pools_by_replica(life.wait_running(2))
    assert set(first) == {"0"}
    life.wait_pools(*first.values())

    life.scale(2)
    both = life.pools_by_replica(life.wait_running(4))
    assert set(both) == {"0", "1"}
    assert both["0"] == first["0"] != both["1"]

    life.scale(1)
    left = life.pools_by_replica(life.wait_running(2))
    life.wait_pools(*left.values())
    assert set(left.items()) < set(both.items()), "the replica that stays keeps its pool"

    life.delete()
    life.wait_nothing_left()
    assert (life.accepted("CreateNodePool"), life.accepted("DeleteNodePool")) == (2, 2)
    assert len(life.calls()) <= 2 * CALLS_PER_SLICE_MAX


@pytest.mark.proves("RayCluster", "released when", on=KUBERAY)
def test_a_suspended_cluster_gives_its_pools_back_and_gets_them_again(cloud: Cloud) -> None:
    life = Life(cloud, "halted")
    life.submit(a_group("halted", replicas=2))
    life.wait_running(4)
    life.suspend(suspended=True)
    life.wait_nothing_left()
    life.suspend(suspended=False)
    life.pools_by_replica(life.wait_running(4))
    life.delete()
    life.wait_nothing_left()
    assert (life.accepted("CreateNodePool"), life.accepted("DeleteNodePool")) == (4, 4)


@pytest.mark.proves("RayCluster", "slice", on=KUBERAY)
def test_a_replica_that_lost_a_host_comes_again_under_another_name_on_the_same_pool(cloud: Cloud) -> None:
    life = Life(cloud, "replaced")
    life.submit()
    before = life.wait_running(2)
    pools = life.pools_by_replica(before)
    life.lose_host("0", before)
    assert life.pools_by_replica(life.wait_running(2)) == pools
    assert life.accepted("CreateNodePool") == 1
    life.delete()
    life.wait_nothing_left()


@pytest.mark.proves("RayCluster", "released when", on=KUBERAY)
def test_a_replica_on_another_one_s_pool_keeps_it_and_the_empty_one_goes(cloud: Cloud) -> None:
    life = Life(cloud, "swapped")
    life.submit(a_group("swapped", replicas=2))
    life.wait_running(4)
    life.scale(3)
    pods = life.wait_running(6)
    pools = life.pools_by_replica(pods)
    # Nothing but pool 2 will do for the next replica 0, and pool 2 is freed: what chance brings about elsewhere.
    life.cordon(pools["0"])
    life.lose_host("0", pods)
    wait_for("replica 0 waits", lambda: [pod for pod in life.replica("0") if not pod["spec"].get("nodeName")])
    life.scale(2, without=life.replica("2")[0]["metadata"]["name"])
    wait_for("replica 2 left", lambda: not life.replica("2"))
    after = life.pools_by_replica(life.wait_running(4))
    assert after == {"0": pools["2"], "1": pools["1"]}
    life.wait_pools(*after.values())

    life.scale(3)
    again = life.pools_by_replica(life.wait_running(6))
    assert set(after.items()) < set(again.items())
    life.wait_pools(*again.values())
    life.delete()
    life.wait_nothing_left()
    assert (life.accepted("CreateNodePool"), life.accepted("DeleteNodePool")) == (4, 4)


@pytest.mark.proves("RayCluster", "slice", on=KUBERAY)
def test_on_single_hosts_each_worker_has_a_pool(cloud: Cloud) -> None:
    life = Life(cloud, "solo")
    life.submit(a_group("solo", "2x2", apart=False, replicas=3))
    pods = life.wait_running(3)
    assert {life.pool_of(pod) for pod in pods} == set(life.pools())
    life.delete()
    life.wait_nothing_left()
    assert (life.accepted("CreateNodePool"), life.accepted("DeleteNodePool")) == (3, 3)


@pytest.mark.proves("RayCluster", "released when", on=KUBERAY)
def test_clusters_of_one_name_after_another_all_run_and_leave_nothing(cloud: Cloud) -> None:
    life = Life(cloud, "again")
    for _ in range(3):
        life.submit()
        life.wait_running(2)  # on a pool of its own, or on its predecessor's if that is not gone yet
        assert len(life.pools()) <= 2
        life.delete()
        wait_for("again: the cluster is gone", lambda: cloud.get(life.path) is None and not life.workers())
    life.wait_nothing_left()
    assert 1 <= life.accepted("CreateNodePool") == life.accepted("DeleteNodePool") <= 3


@pytest.mark.proves("RayCluster", "refused", on=KUBERAY)
@pytest.mark.parametrize(
    ("name", "group", "reason"),
    [
        ("mixing", {"replicas": 2, "apart": False}, "slices_may_mix"),
        ("hosts", {"numOfHosts": 3}, "hosts_differ"),
    ],
)
def test_what_can_never_be_whole_is_refused_where_its_owner_looks(
    cloud: Cloud, name: str, group: Json, reason: str
) -> None:
    life = Life(cloud, name)
    life.submit(a_group(name, **group))
    assert reason in wait_for("a refusal", life.refusals)[0]
    assert life.calls() == []
    life.delete()


def _names(pods: list[Json]) -> set[str]:
    return {pod["metadata"]["labels"][REPLICA_NAME] for pod in pods}
