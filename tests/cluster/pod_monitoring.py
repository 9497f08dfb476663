"""The kind PodMonitoring, which GKE clusters with managed collection have.

As strict as the published definition about what our manifest says
(https://github.com/GoogleCloudPlatform/prometheus-engine/blob/main/doc/api.md#podmonitoring).
"""

from typing import Any

NAME = "podmonitorings.monitoring.googleapis.com"
_ENDPOINT = {
    "type": "object",
    "required": ["port", "interval"],
    "properties": {
        "port": {"x-kubernetes-int-or-string": True},
        "path": {"type": "string"},
        "interval": {"type": "string"},
    },
}
_SPEC = {
    "type": "object",
    "required": ["selector", "endpoints"],
    "properties": {
        "selector": {
            "type": "object",
            "properties": {"matchLabels": {"type": "object", "additionalProperties": {"type": "string"}}},
        },
        "endpoints": {"type": "array", "items": _ENDPOINT},
    },
}
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": NAME},
    "spec": {
        "group": "monitoring.googleapis.com",
        "scope": "Namespaced",
        "names": {"kind": "PodMonitoring", "plural": "podmonitorings"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC}}},
            }
        ],
    },
}
