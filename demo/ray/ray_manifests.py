"""The RayCluster of the demo: a head, and one group of workers for each kind of accelerator.

Pure. What is there only because all pods share one machine is in `_SHARED_MACHINE` and the head's
ports.
"""

from typing import Any

Json = dict[str, Any]

NAMESPACE, NAME = "default", "demo-ray"
PATH = f"/apis/ray.io/v1/namespaces/{NAMESPACE}/rayclusters"
REPLICA_NAME = "ray.io/worker-group-replica-name"
IDLE_SECONDS = 10
"""Ray's default is a minute. These are real seconds: Ray knows no virtual time."""
GROUPS = {"TPU": "tpus", "GPU": "gpus"}
"""The worker group that brings each kind of resource."""
_SHARED_MACHINE = {"object-store-memory": "80000000", "include-log-monitor": "0"}
"""Ray takes a third of the machine's memory otherwise, and a process whose logs are not used, for
each node. The latter is 0 and not false, since KubeRay writes no option for false."""
_SHARES = {"cpu": "1", "memory": "1Gi"}
_POOL = "cloud.google.com/gke-nodepool"


def image_name(version: str) -> str:
    """Return the image of all containers."""
    return f"rayproject/ray:{version}"


def ray_cluster(version: str, kinds: tuple[str, ...], *, gcs_port: int, client_port: int) -> Json:
    """Return the RayCluster.

    Args:
        version: Of Ray.
        kinds: Which of `GROUPS` it has.
        gcs_port: Where the head listens; in a pod of its own it would be 6379.
        client_port: Where its server for remote drivers does; it would be 10001.
    """
    image = image_name(version)
    start = {
        "num-cpus": "0",
        "dashboard-host": "127.0.0.1",
        "include-dashboard": "false",
        "port": str(gcs_port),
        "ray-client-server-port": str(client_port),
    }
    head = {"containers": [_container("ray-head", image)]}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "rayVersion": version,
            "enableInTreeAutoscaling": True,
            "autoscalerOptions": {
                "version": "v2",
                "idleTimeoutSeconds": IDLE_SECONDS,
                "image": image,
                "env": [{"name": "GCS_ADDRESS", "value": f"127.0.0.1:{gcs_port}"}],
            },
            "headGroupSpec": {"rayStartParams": _SHARED_MACHINE | start, "template": {"spec": head}},
            "workerGroupSpecs": [_GROUP_OF[kind](image) for kind in kinds],
        },
    }


def _tpu_group(image: str) -> Json:
    """Return a group of v6e slices of two hosts with four chips each; a replica is a slice."""
    pod = {
        "nodeSelector": {
            "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
            "cloud.google.com/gke-tpu-topology": "2x4",
        },
        "affinity": _one_replica_per_pool(),
        "containers": [_container("ray-worker", image, {"google.com/tpu": "4"})],
    }
    return _group("TPU", pod, numOfHosts=2)


def _gpu_group(image: str) -> Json:
    """Return a group of single workers with one L4 each."""
    pod = {
        "nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-l4"},
        "containers": [_container("ray-worker", image, {"nvidia.com/gpu": "1"})],
    }
    return _group("GPU", pod, numOfHosts=1)


_GROUP_OF = {"TPU": _tpu_group, "GPU": _gpu_group}


def _group(kind: str, pod: Json, **fields: Any) -> Json:
    bounds = {"replicas": 0, "minReplicas": 0, "maxReplicas": 2}
    start = {"rayStartParams": dict(_SHARED_MACHINE), "template": {"spec": pod}}
    return {"groupName": GROUPS[kind]} | bounds | start | fields


def _container(name: str, image: str, accelerators: Json | None = None) -> Json:
    shares = _SHARES | (accelerators or {})
    return {"name": name, "image": image, "resources": {"limits": shares, "requests": shares}}


def _one_replica_per_pool() -> Json:
    """Return the affinities that GKE's Ray TPU webhook adds: one pool for one replica."""
    term = "requiredDuringSchedulingIgnoredDuringExecution"
    together = {
        "topologyKey": _POOL,
        "labelSelector": {"matchLabels": {"ray.io/node-type": "worker"}},
        "matchLabelKeys": [REPLICA_NAME],
    }
    apart = {
        "topologyKey": _POOL,
        "labelSelector": {"matchExpressions": [{"key": REPLICA_NAME, "operator": "Exists"}]},
        "mismatchLabelKeys": [REPLICA_NAME],
        "namespaceSelector": {},
    }
    return {"podAffinity": {term: [together]}, "podAntiAffinity": {term: [apart]}}
