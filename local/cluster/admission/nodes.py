"""Admission of nodes: every new node starts tainted as not ready, until the node controller has looked at it.

Source: https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#taintnodesbycondition
"""

from __future__ import annotations

from typing import Any

from local.cluster.admission.refusals import QUANTITY, Problem, refuse, unreadable
from local.cluster.quantities import canonical
from local.cluster.store.kinds import NODE

Json = dict[str, Any]
NOT_READY_TAINT: Json = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_INFO = (
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
)


def admit_new(body: Json) -> None:
    """Add the not-ready taint and check quantities.

    Raises:
        ApiError: 400, for a capacity that is not a quantity; 422, for a taint of an unknown effect.
    """
    admit_change(body)
    spec = body.setdefault("spec", {})
    taints = spec.setdefault("taints", [])
    if not any(taint.get("key") == NOT_READY_TAINT["key"] for taint in taints):
        taints.append(dict(NOT_READY_TAINT))
    status = body.setdefault("status", {})
    info = status.setdefault("nodeInfo", {})
    for field in _INFO:
        # The real server always writes all of them, and typed clients insist on that.
        info.setdefault(field, "")
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})


def admit_change(body: Json) -> None:
    """Check taints and write quantities as text, in place.

    Raises:
        ApiError: 400 or 422, as for a new node.
    """
    problems = []
    for index, taint in enumerate(body.get("spec", {}).get("taints", [])):
        if taint["effect"] not in _EFFECTS:
            valid = ", ".join(f'"{each}"' for each in _EFFECTS)
            why = f'Unsupported value: "{taint["effect"]}": supported values: {valid}'
            problems.append(Problem(f"metadata.taints[{index}].effect", why))
    refuse(NODE, body["metadata"]["name"], problems)
    status = body.get("status", {})
    for field in {"capacity", "allocatable"} & set(status):
        try:
            status[field] = {resource: canonical(quantity) for resource, quantity in status[field].items()}
        except ValueError as error:
            raise unreadable(NODE, QUANTITY) from error
