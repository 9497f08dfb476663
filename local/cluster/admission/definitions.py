"""Admission of CustomResourceDefinitions: stored, reported as established, but their kinds are not served.

The kinds of this cluster come from its table, so that `kubectl apply` of JobSet's own manifests succeeds and
`kubectl wait --for=condition=established` ends.
"""

from __future__ import annotations

from typing import Any

from local.cluster.errors import invalid
from local.cluster.store.kinds import DEFINITION

Json = dict[str, Any]


def admit_new(body: Json, now: str) -> None:
    """Check the names and report the definition as established.

    Raises:
        ApiError: 422, when the name is not `plural.group`.
    """
    spec = body.get("spec", {})
    names = spec.get("names", {})
    name = body["metadata"]["name"]
    wanted = f"{names.get('plural', '')}.{spec.get('group', '')}"
    if name != wanted:
        raise invalid(
            DEFINITION, name, "metadata.name", f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group'
        )
    body["status"] = {
        "acceptedNames": names,
        "storedVersions": [version["name"] for version in spec.get("versions", []) if version.get("storage")],
        "conditions": [
            {
                "type": "NamesAccepted",
                "status": "True",
                "reason": "NoConflicts",
                "message": "no conflicts found",
                "lastTransitionTime": now,
            },
            {
                "type": "Established",
                "status": "True",
                "reason": "InitialNamesAccepted",
                "message": "the initial names have been accepted",
                "lastTransitionTime": now,
            },
        ],
    }
