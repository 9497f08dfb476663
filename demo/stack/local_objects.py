"""What a stack puts into its Kubernetes beside the workloads: a CPU node, and its namespace."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from demo.stack.layout import ZONE
from standins.google.gke.model.node_objects import labels_of_host
from standins.kit.kubernetes import open_client

NODE = "cpu-0"
NAMESPACE = "tpu-provisioner"
_RESOURCES = {"cpu": "64", "memory": "256Gi", "pods": "250", "ephemeral-storage": "375Gi"}


def register_cpu_node(kubeconfig: Path) -> None:
    """Create the node, or refresh the one that is there, and report it Ready.

    Raises httpx.HTTPStatusError: the API refused it.
    """
    with open_client(kubeconfig) as client:
        create_unless_there(client, "/api/v1/nodes", describe_node())
        client.patch(
            f"/api/v1/nodes/{NODE}/status",
            json={"status": _status()},
            headers={"Content-Type": "application/merge-patch+json"},
        ).raise_for_status()


def create_unless_there(client: httpx.Client, path: str, body: dict[str, Any]) -> None:
    """Create an object of the Kubernetes API. Raises httpx.HTTPStatusError: it was refused."""
    created = client.post(path, json=body)
    if created.status_code != httpx.codes.CONFLICT:
        created.raise_for_status()


def describe_node() -> dict[str, Any]:
    """Return the node as it is created."""
    labels = {
        **labels_of_host("n2-standard-64", "amd64", ZONE),
        "kubernetes.io/hostname": NODE,
        "cloud.google.com/gke-nodepool": "cpu",
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": labels}}


def _status() -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "the local stack keeps this node",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    return {"capacity": _RESOURCES, "allocatable": _RESOURCES, "conditions": [ready]}


def create_own_namespace(kubeconfig: Path) -> None:
    """Create the namespace unless it is there, as with the real control plane and its manifests.

    Raises httpx.HTTPStatusError: the API refused it.
    """
    with open_client(kubeconfig) as client:
        create_unless_there(client, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
