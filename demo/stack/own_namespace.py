"""The provisioner's own namespace in the local cluster, whose label is the emergency stop."""

from pathlib import Path

import httpx

from standins.processes.kubeconfig import open_client

NAME = "tpu-provisioner"


def create_own_namespace(kubeconfig: Path) -> None:
    """Create the namespace unless it is there, as with the real control plane and its manifests.

    Raises httpx.HTTPStatusError: the API refused it.
    """
    with open_client(kubeconfig) as client:
        created = client.post("/api/v1/namespaces", json={"metadata": {"name": NAME}})
        if created.status_code != httpx.codes.CONFLICT:
            created.raise_for_status()
