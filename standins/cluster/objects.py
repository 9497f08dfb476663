"""What the cluster reads of its objects: label names, conditions, owners; and its time.

Sources: https://jobset.sigs.k8s.io/docs/reference/,
https://kubernetes.io/docs/reference/labels-annotations-taints/ and
https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from standins.cluster.kinds import Json
from standins.kit.fitting import read_quantity

JOBSET_PREFIX = "jobset.sigs.k8s.io/"
JOBSET_NAME = f"{JOBSET_PREFIX}jobset-name"
REPLICATED_JOB_NAME = f"{JOBSET_PREFIX}replicatedjob-name"
JOB_KEY = f"{JOBSET_PREFIX}job-key"
RESTART_ATTEMPT = f"{JOBSET_PREFIX}restart-attempt"
PRIORITY = f"{JOBSET_PREFIX}priority"

EXCLUSIVE_TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR_STRATEGY = "alpha.jobset.sigs.k8s.io/node-selector"

BATCH_PREFIX = "batch.kubernetes.io/"
COMPLETION_INDEX = f"{BATCH_PREFIX}job-completion-index"
JOB_TRACKING = f"{BATCH_PREFIX}job-tracking"

NOT_READY_TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def find_condition(body: Json, *types: str) -> Json | None:
    """Return the first condition of one of these types whose status is True, if there is one."""
    conditions = (body.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] in types and each["status"] == "True"), None)


def set_condition(status: Json, condition: Json, now: str) -> bool:
    """Set a condition by type and return whether it changed; its time changes with its status."""
    conditions: list[Json] = status.setdefault("conditions", [])
    for index, old in enumerate(conditions):
        if old["type"] != condition["type"]:
            continue
        if all(old.get(field) == condition.get(field) for field in ("status", "reason", "message")):
            return False
        since = old.get("lastTransitionTime", now) if old["status"] == condition["status"] else now
        conditions[index] = condition | {"lastTransitionTime": since}
        return True
    conditions.append(condition | {"lastTransitionTime": now})
    return True


def find_controller(body: Json) -> Json:
    """Return the owner that manages an object; empty when none does."""
    owners: list[Json] = body["metadata"].get("ownerReferences", [])
    return next((owner for owner in owners if owner.get("controller")), {})


def list_containers(pod_spec: Json) -> list[Json]:
    """Return the containers of a pod spec, those for its start too."""
    return [*pod_spec.get("containers", []), *pod_spec.get("initContainers", [])]


def list_resources(pod_spec: Json) -> Iterator[tuple[Json, str]]:
    """Yield the resources of each container that has limits or requests, and which of both."""
    for container in list_containers(pod_spec):
        resources = container.get("resources", {})
        yield from ((resources, group) for group in ("limits", "requests") if group in resources)


def write_quantity(quantity: str | float) -> str:
    """Return a quantity as the text that the API server stores; fractions are in thousandths.

    Raises ValueError: when it is not a quantity.
    """
    thousandths = read_quantity(quantity)
    if isinstance(quantity, str):
        return quantity
    return f"{thousandths}m" if thousandths % 1_000 else str(thousandths // 1_000)


def write_quantities(pod_spec: Json) -> None:
    """Write the quantities of a pod spec as text, in place. Raises ValueError: one is none."""
    for resources, group in list_resources(pod_spec):
        resources[group] = {name: write_quantity(quantity) for name, quantity in resources[group].items()}


class Clock:
    """The time of a running cluster: timestamps are real, durations are virtual.

    Timestamps in objects are real, because clients compare them with their own clocks. Durations
    such as a TTL, a grace or a back-off are virtual seconds: `speed` of them pass per real second.
    """

    def __init__(self, speed: float) -> None:
        self.speed = speed

    def now(self) -> float:
        """Return virtual seconds on a clock that never goes back."""
        return time.monotonic() * self.speed

    def timestamp(self, *, after_seconds: float = 0) -> str:
        """Return an RFC 3339 stamp with whole seconds, as `metav1.Time` is written."""
        return (datetime.now(UTC) + timedelta(seconds=after_seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def seconds_since(self, timestamp: str) -> float:
        """Return the virtual seconds since an RFC 3339 stamp.

        Stamps have whole seconds, so the answer is up to one real second too large.
        """
        return (datetime.now(UTC) - datetime.fromisoformat(timestamp)).total_seconds() * self.speed
