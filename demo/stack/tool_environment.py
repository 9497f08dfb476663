"""The environment variables with which a person's own tools talk to a running stack."""

import shlex

from demo.stack.commands import Addresses
from demo.stack.layout import CLUSTER, LOCATION, PROJECT, Layout


def tool_environment(layout: Layout, addresses: Addresses) -> dict[str, str]:
    """Return the variables that point kubectl, gcloud and client libraries at this stack only."""
    return {
        "KUBECONFIG": str(layout.kubeconfig),
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER": addresses.gke_rest.rstrip("/") + "/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_PUBSUB": addresses.pubsub_rest.rstrip("/") + "/",
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CORE_PROJECT": PROJECT,
        "CLOUDSDK_COMPUTE_REGION": LOCATION,
        "CLOUDSDK_CONTAINER_CLUSTER": CLUSTER,
        "PUBSUB_EMULATOR_HOST": addresses.pubsub_grpc,
        "FAKEGKE_URL": addresses.gke_rest,
    }


def export_lines(environment: dict[str, str]) -> str:
    """Return the variables as lines that a shell can evaluate."""
    return "\n".join(f"export {key}={shlex.quote(value)}" for key, value in environment.items())
