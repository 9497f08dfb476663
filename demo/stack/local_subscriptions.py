"""Creates the local Pub/Sub resources over REST, as Terraform does in the cloud.

One topic for the exporter's messages and one for the ends of GKE's operations, each with a push
subscription for each function, and a dead-letter topic with a pull subscription.
"""

from collections.abc import Mapping
from typing import Any

import httpx

from demo.stack.layout import DEAD_LETTER_SUBSCRIPTION, DEAD_LETTER_TOPIC, OPERATIONS_TOPIC, PROJECT, TOPIC

ACK_DEADLINE_SECONDS = 60
DELIVERY_ATTEMPTS_MAX = 20
BACKOFF_MIN_SECONDS = 1
BACKOFF_MAX_SECONDS = 10
REPLAY_SECONDS = 7 * 86_400
PUSH_IDENTITY = f"push@{PROJECT}.iam.gserviceaccount.com"
FILTERS = {
    "provision": 'hasPrefix(attributes.ce-type, "tpuprovisioner.demand.")',
    "collect": 'NOT hasPrefix(attributes.ce-type, "tpuprovisioner.demand.")',
}
"""By function, which messages about workloads it gets."""
ENDS = {name: f"{name}-ends" for name in FILTERS}
"""By function, its subscription to the ends of operations."""


def subscription_path(name: str) -> str:
    """Return the full name of one subscription of the stack."""
    return f"projects/{PROJECT}/subscriptions/{name}"


def create_subscriptions(pubsub_rest: str, functions: Mapping[str, str]) -> None:
    """Create the topics, then a push subscription for each of the functions, by name."""
    # Kept by the topic, so that a replay by time brings back what was acknowledged.
    kept = {"messageRetentionDuration": f"{REPLAY_SECONDS}s"}
    resources: dict[str, Any] = {TOPIC: kept, OPERATIONS_TOPIC: kept, DEAD_LETTER_TOPIC: {}}
    resources[DEAD_LETTER_SUBSCRIPTION] = {"topic": DEAD_LETTER_TOPIC, "expirationPolicy": {}}
    policy = {"deadLetterTopic": DEAD_LETTER_TOPIC, "maxDeliveryAttempts": DELIVERY_ATTEMPTS_MAX}
    for name, expression in FILTERS.items():
        messages = {"filter": expression, "deadLetterPolicy": policy}
        resources[subscription_path(name)] = _push_to(functions[name], TOPIC) | messages
        # Without a dead-letter policy: the tick looks at what an end was about.
        resources[subscription_path(ENDS[name])] = _push_to(functions[name], OPERATIONS_TOPIC)
    with httpx.Client(base_url=pubsub_rest, trust_env=False) as client:
        for path, body in resources.items():
            client.put(f"/v1/{path}", json=body).raise_for_status()


def _push_to(endpoint: str, topic: str) -> dict[str, Any]:
    token = {"serviceAccountEmail": PUSH_IDENTITY, "audience": endpoint}
    return {
        "topic": topic,
        "ackDeadlineSeconds": ACK_DEADLINE_SECONDS,
        "pushConfig": {"pushEndpoint": endpoint, "oidcToken": token},
        "retryPolicy": {"minimumBackoff": f"{BACKOFF_MIN_SECONDS}s", "maximumBackoff": f"{BACKOFF_MAX_SECONDS}s"},
        "expirationPolicy": {},
    }
