"""Admission of nodes: a new node has the taint not-ready until its controller has seen it.

Source: https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#taintnodesbycondition
"""

from typing import Any

from standins.cluster.admission.refusals import unreadable
from standins.cluster.objects.label_names import NOT_READY_TAINT
from standins.cluster.objects.quantities import canonical
from standins.cluster.store.kinds import NODE

Json = dict[str, Any]


def admit_new(body: Json) -> None:
    """Add the taint not-ready and check quantities.

    Raises ApiError: 400, for a capacity that is not a quantity.
    """
    admit_change(body)
    body.setdefault("status", {})
    taints = body.setdefault("spec", {}).setdefault("taints", [])
    if not any(taint.get("key") == NOT_READY_TAINT["key"] for taint in taints):
        taints.append(dict(NOT_READY_TAINT))


def admit_change(body: Json) -> None:
    """Write quantities as text, in place.

    Raises ApiError: 400, for a capacity that is not a quantity.
    """
    status = body.get("status", {})
    for field in {"capacity", "allocatable"} & set(status):
        try:
            status[field] = {resource: canonical(quantity) for resource, quantity in status[field].items()}
        except ValueError as error:
            raise unreadable(NODE, str(error)) from error
