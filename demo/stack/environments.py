"""The variables with which a person's tools and `tpu-provisioner` reach a running stack."""

import json
import shlex

from demo.stack import commands
from demo.stack.clusters import ClusterKind
from demo.stack.commands import Addresses, StackSettings
from demo.stack.layout import CLUSTER, DEAD_LETTER_SUBSCRIPTION, LOCATION, PROJECT, TOPIC, Layout
from demo.stack.local_subscriptions import ENDS, FILTERS, subscription_path


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


def operator_environment(layout: Layout, settings: StackSettings, addresses: Addresses) -> dict[str, str]:
    """Return the functions' own settings, and where the other parts of the stack are.

    On a real control plane the operator comes as its administrator: the functions' account may not
    read all that an operator wants to see.
    """
    real = settings.cluster is ClusterKind.REAL
    function = commands.function(
        layout, settings, "provision", port=0, kubernetes=addresses.kubernetes, gke_rest=addresses.gke_rest
    )
    subscriptions = {name: subscription_path(name) for name in FILTERS}
    subscriptions |= {f"{name}_ends": subscription_path(ends) for name, ends in ENDS.items()}
    subscriptions["dead_letters"] = DEAD_LETTER_SUBSCRIPTION
    return {
        **function.environment,
        "TPU_PROVISIONER_KUBECONFIG": addresses.kubeconfig,
        "TPU_PROVISIONER_PUBSUB_ENDPOINT": addresses.pubsub_rest,
        "TPU_PROVISIONER_TOPIC": TOPIC,
        "TPU_PROVISIONER_SUBSCRIPTIONS": json.dumps(subscriptions),
        "TPU_PROVISIONER_FUNCTION_URIS": json.dumps(addresses.functions),
        "TPU_PROVISIONER_LEASE_NAME": "tpu-provisioner-exporter" if real and settings.lease_seconds else "",
        "TPU_PROVISIONER_LOGGING_ENDPOINT": addresses.logging,
        "TPU_PROVISIONER_MONITORING_ENDPOINT": "",
    }
