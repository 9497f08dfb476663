"""What a stack puts into its cloud: Pub/Sub's resources, a CPU node, and a namespace.

The resources of Pub/Sub are those that Terraform makes: one topic for the exporter's messages and
one for the ends of GKE's operations, each with a push subscription for each function, and a
dead-letter topic with a pull subscription.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from demo.settings import DEAD_LETTER_SUBSCRIPTION, DEAD_LETTER_TOPIC, NAME, OPERATIONS_TOPIC, PROJECT, TOPIC, ZONE
from standins.kit.kubernetes import MERGE, labels_of_host, open_client

ACK_DEADLINE_SECONDS = 60
DELIVERY_ATTEMPTS_MAX = 20
FILTERS = {
    "provision": 'hasPrefix(attributes.ce-type, "tpuprovisioner.demand.")',
    "collect": 'NOT hasPrefix(attributes.ce-type, "tpuprovisioner.demand.")',
}
"""By function, which messages about workloads it gets."""
NODE = "cpu-0"
_RESOURCES = {"cpu": "64", "memory": "256Gi", "pods": "250", "ephemeral-storage": "375Gi"}


def create_subscriptions(google_rest: str, functions: Mapping[str, str]) -> None:
    """Create the topics, then a push subscription for each of the functions, by name."""
    # Kept by the topic, so that a replay by time brings back what was acknowledged.
    kept = {"messageRetentionDuration": f"{7 * 86_400}s"}
    resources: dict[str, Any] = {TOPIC: kept, OPERATIONS_TOPIC: kept, DEAD_LETTER_TOPIC: {}}
    resources[DEAD_LETTER_SUBSCRIPTION] = {"topic": DEAD_LETTER_TOPIC, "expirationPolicy": {}}
    policy = {"deadLetterTopic": DEAD_LETTER_TOPIC, "maxDeliveryAttempts": DELIVERY_ATTEMPTS_MAX}
    for name, expression in FILTERS.items():
        messages = {"filter": expression, "deadLetterPolicy": policy}
        path = f"projects/{PROJECT}/subscriptions/{NAME}-{name}"
        resources[path] = _push_to(functions[name], TOPIC) | messages
        # Without a dead-letter policy: the tick looks at what an end was about.
        resources[f"{path}-ends"] = _push_to(functions[name], OPERATIONS_TOPIC)
    with httpx.Client(base_url=google_rest, trust_env=False) as client:
        for path, body in resources.items():
            client.put(f"/v1/{path}", json=body).raise_for_status()


def _push_to(endpoint: str, topic: str) -> dict[str, Any]:
    token = {"serviceAccountEmail": f"push@{PROJECT}.iam.gserviceaccount.com", "audience": endpoint}
    return {
        "topic": topic,
        "ackDeadlineSeconds": ACK_DEADLINE_SECONDS,
        "pushConfig": {"pushEndpoint": endpoint, "oidcToken": token},
        "retryPolicy": {"minimumBackoff": "1s", "maximumBackoff": "10s"},
        "expirationPolicy": {},
    }


def prepare_cluster(kubeconfig: Path) -> None:
    """Create the namespace of the provisioner, and a CPU node that is Ready.

    Raises httpx.HTTPStatusError: the API refused one.
    """
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "the local stack keeps it"}
    status = {"capacity": _RESOURCES, "allocatable": _RESOURCES, "conditions": [ready]}
    labels = labels_of_host("n2-standard-64", "amd64", ZONE)  # drivers ask for them
    labels |= {"kubernetes.io/hostname": NODE, "cloud.google.com/gke-nodepool": "cpu"}
    with open_client(kubeconfig) as client:
        for path, body in (
            ("/api/v1/namespaces", {"metadata": {"name": "tpu-provisioner"}}),
            ("/api/v1/nodes", {"metadata": {"name": NODE, "labels": labels}}),
        ):
            created = client.post(path, json=body)
            if created.status_code != httpx.codes.CONFLICT:
                created.raise_for_status()
        path = f"/api/v1/nodes/{NODE}/status"
        client.patch(path, json={"status": status}, headers=MERGE).raise_for_status()
