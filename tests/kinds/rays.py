"""What the scenarios of Ray share: worker groups, and one RayCluster with its pods and pools.

What lives here: bodies, looking and bounded waiting. What is done with them is in the scenarios.
"""

import copy
from collections.abc import Sequence
from typing import Any

from tests.kinds.living import LONG, is_running
from tests.kinds.living import Life as AnyLife
from tests.lives.cloud import Cloud, wait_for
from tests.lives.jobset_bodies import HOSTS, LIFE, RUN_SECONDS, select

Json = dict[str, Any]
REPLICA_INDEX, REPLICA_NAME = "ray.io/worker-group-replica-index", "ray.io/worker-group-replica-name"


def keep_apart(key: str) -> Json:
    """What GKE's Ray TPU webhook comes to: the hosts of a replica on one pool, and those of no two.

    Args:
        key: Of the label that tells the replicas apart.
    """
    term = "requiredDuringSchedulingIgnoredDuringExecution"
    pool = {"topologyKey": "cloud.google.com/gke-nodepool", "namespaceSelector": {}}
    workers = {"labelSelector": {"matchLabels": {"ray.io/node-type": "worker"}}}
    every = {"labelSelector": {"matchExpressions": [{"key": key, "operator": "Exists"}]}}
    return {
        "podAffinity": {term: [pool | workers | {"matchLabelKeys": ["ray.io/cluster", key]}]},
        "podAntiAffinity": {term: [pool | every | {"mismatchLabelKeys": [key]}]},
    }


def a_group(life: str, topology: str = "2x4", *, apart: bool = True, **fields: Any) -> Json:
    """One worker group; its nodes are told from other tests' by a label."""
    container = {"name": "ray-worker", "image": "ray", "resources": {"limits": {"google.com/tpu": 4}}}
    pod: Json = {"nodeSelector": select(topology) | {LIFE: life}, "containers": [container]}
    if apart:
        pod["affinity"] = keep_apart(REPLICA_NAME)
    template = {"metadata": {"annotations": {RUN_SECONDS: str(LONG)}}, "spec": pod}
    usual = {"groupName": "g", "replicas": 1, "minReplicas": 0, "maxReplicas": 4, "numOfHosts": HOSTS[topology]}
    return usual | {"rayStartParams": {}, "template": template} | fields


def a_spec(*groups: Json) -> Json:
    """The spec of a RayCluster, with a head that goes on until it is ended."""
    head: Json = {"spec": {"containers": [{"name": "ray-head", "image": "ray"}]}}
    head["metadata"] = {"annotations": {RUN_SECONDS: str(LONG)}}
    return {
        "rayVersion": "2.52.0",
        "headGroupSpec": {"rayStartParams": {}, "template": head},
        "workerGroupSpecs": list(groups),
    }


class Life(AnyLife):
    """One RayCluster; its pods are its workers."""

    prefix = "rays"

    def __init__(self, cloud: Cloud, name: str) -> None:
        super().__init__(cloud, name, "RayCluster")

    def submit(self, *groups: Json, **spec: Any) -> None:
        body = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": self.name}}
        spec = a_spec(*(groups or [a_group(self.name)])) | spec
        self.create(body | {"spec": spec})

    def scale(self, replicas: int, *, without: Sequence[str] = ()) -> None:
        """Change the first group's replicas as people do, or with pods to leave as Ray does."""
        groups = copy.deepcopy((self.cloud.get(self.path) or {})["spec"]["workerGroupSpecs"])
        groups[0]["replicas"] = replicas
        groups[0]["scaleStrategy"] = {"workersToDelete": list(without)}
        self.cloud.patch(self.path, {"spec": {"workerGroupSpecs": groups}})

    def lose_host(self, index: str, pods: list[Json]) -> None:
        """Delete a pod of a replica, and return once KubeRay has taken down the others of it."""
        mine = [pod for pod in pods if pod["metadata"]["labels"][REPLICA_INDEX] == index]
        self.cloud.delete(f"/api/v1/namespaces/{self.namespace}/pods/{mine[0]['metadata']['name']}")
        wait_for(f"replica {index} is replaced", lambda: not names(self.workers()) & names(mine))

    def cordon(self, pool: str) -> None:
        """Keep new pods off a pool's nodes."""
        for node in self.cloud.items("/api/v1/nodes", labelSelector=f"cloud.google.com/gke-nodepool={pool}"):
            self.cloud.patch(f"/api/v1/nodes/{node['metadata']['name']}", {"spec": {"unschedulable": True}})

    def suspend(self, *, suspended: bool) -> None:
        self.cloud.patch(self.path, {"spec": {"suspend": suspended}})

    def wait_pools(self, *names: str) -> None:
        wait_for(f"{self.name}: pools {names}", lambda: self.pools() == sorted(names))

    def workers(self) -> list[Json]:
        selector = "ray.io/node-type=worker"
        return self.cloud.items(f"/api/v1/namespaces/{self.namespace}/pods", labelSelector=selector)

    def replica(self, index: str) -> list[Json]:
        """Return the pods of a replica, those that end among them."""
        return [pod for pod in self.workers() if pod["metadata"]["labels"][REPLICA_INDEX] == index]

    def pools_by_replica(self, pods: list[Json], key: str = REPLICA_INDEX) -> dict[str, str]:
        """Return the one pool of each replica, by the label that tells it."""
        found: dict[str, set[str]] = {}
        for pod in pods:
            found.setdefault(pod["metadata"]["labels"][key], set()).add(self.pool_of(pod))
        assert all(len(pools) == 1 for pools in found.values()), f"a replica on several pools: {found}"
        return {index: pool for index, (pool,) in found.items()}

    def lose(self, *pods: Json) -> None:
        """Delete pods, and return once they are gone."""
        paths = [f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}" for pod in pods]
        for path in paths:
            self.cloud.delete(path)
        wait_for(f"{self.name}: the pods are gone", lambda: not any(self.cloud.get(path) for path in paths))

    def _running(self, count: int) -> list[Json]:
        """Return the workers once so many run, and no others are there."""
        found = self.workers()
        return found if len(found) == count and all(map(is_running, found)) else []


def names(pods: list[Json]) -> set[str]:
    """Return the names of the replicas that some pods are of."""
    return {pod["metadata"]["labels"][REPLICA_NAME] for pod in pods}
