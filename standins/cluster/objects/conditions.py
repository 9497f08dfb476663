"""Conditions in the status of an object.

Source: https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md
"""

from typing import Any

Json = dict[str, Any]


def set_condition(status: Json, condition: Json, now: str) -> bool:
    """Set a condition by type and return whether it changed; its time changes with its status."""
    conditions: list[Json] = status.setdefault("conditions", [])
    for index, found in enumerate(conditions):
        if found["type"] != condition["type"]:
            continue
        if all(found.get(field) == condition.get(field) for field in ("status", "reason", "message")):
            return False
        unmoved = found["status"] == condition["status"]
        conditions[index] = condition | {
            "lastTransitionTime": found.get("lastTransitionTime", now) if unmoved else now
        }
        return True
    conditions.append(condition | {"lastTransitionTime": now})
    return True
