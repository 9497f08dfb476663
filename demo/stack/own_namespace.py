"""The provisioner's own namespace in the local cluster, whose label is the emergency stop."""

from pathlib import Path

from demo.stack.cpu_node import create_unless_there
from standins.processes.kubeconfig import open_client

NAME = "tpu-provisioner"


def create_own_namespace(kubeconfig: Path) -> None:
    """Create the namespace unless it is there, as with the real control plane and its manifests.

    Raises httpx.HTTPStatusError: the API refused it.
    """
    with open_client(kubeconfig) as client:
        create_unless_there(client, "/api/v1/namespaces", {"metadata": {"name": NAME}})
