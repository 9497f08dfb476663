"""Admission of nodes: every new node starts tainted as not ready, until the node controller sees it Ready.

Source: https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#taintnodesbycondition
"""

from __future__ import annotations

from typing import Any

from local.cluster.errors import invalid
from local.cluster.quantities import canonical
from local.cluster.store.kinds import NODE

Json = dict[str, Any]
NOT_READY_TAINT: Json = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}

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
        ApiError: 422, for a capacity that is not a quantity.
    """
    spec = body.setdefault("spec", {})
    taints = spec.setdefault("taints", [])
    if not any(taint.get("key") == NOT_READY_TAINT["key"] for taint in taints):
        taints.append(dict(NOT_READY_TAINT))
    status = body.setdefault("status", {})
    info = status.setdefault("nodeInfo", {})
    for field in _INFO:
        # The real server always writes all of them, and typed clients insist on that.
        info.setdefault(field, "")
    info["kubeletVersion"] = info["kubeletVersion"] or "v1.34.4-simulated"
    for field in ("capacity", "allocatable"):
        offered = status.get(field, {})
        for resource, quantity in offered.items():
            try:
                offered[resource] = canonical(quantity)
            except ValueError as error:
                raise invalid(NODE, body["metadata"]["name"], f"status.{field}[{resource}]", str(error)) from error
