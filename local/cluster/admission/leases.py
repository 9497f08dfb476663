"""Admission of leases, by which one of several processes leads.

Source: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/lease-v1/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from local.cluster.admission.refusals import Problem, refuse
from local.cluster.store.kinds import LEASE

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]


def admit(body: Json) -> None:
    """Check a new or changed lease.

    Raises:
        ApiError: 422, naming the field.
    """
    refuse(LEASE, body["metadata"]["name"], _problems(body.get("spec", {})))


def _problems(spec: Json) -> Iterator[Problem]:
    for field, smallest, why in (
        ("leaseDurationSeconds", 1, "must be greater than 0"),
        ("leaseTransitions", 0, "must be greater than or equal to 0"),
    ):
        value = spec.get(field)
        if isinstance(value, int) and value < smallest:
            yield Problem(f"spec.{field}", f"Invalid value: {value}: {why}")
