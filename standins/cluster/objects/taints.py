"""The taints that the cluster itself writes on nodes.

Source: https://kubernetes.io/docs/reference/labels-annotations-taints/
"""

from typing import Any

NOT_READY_TAINT: dict[str, Any] = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
UNSCHEDULABLE_TAINT: dict[str, Any] = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
