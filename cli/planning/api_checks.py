"""Finds in a workload what the API server or a webhook refuses later, in their own words.

A controller copies such a pod template to a Job or a pod, and only an Event there has the refusal:
https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#extended-resources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cli.planning.object_checks import walk
from shared.edges.pod_requests import parse_quantity
from shared.model.errors import ManifestInvalid
from shared.model.labels import GPU_RESOURCE, HUGE_PAGES, TPU_RESOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from shared.model.errors import Rejected

_QUANTITIES = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_SHOWN_MAX = 64
_VALID = "a number with a suffix like m, k, M, G, Mi, Gi or Ti, without a space"


def list_refusals(body: Mapping[str, Any]) -> Iterator[Rejected]:
    """Yield what Kubernetes refuses of an object, or of what its controller makes of it."""
    for path, key, value in walk(body):
        if key in ("resources", "resourcesPerNode") and isinstance(value, dict):
            yield from _list_amounts(f"{path}{key}", value)
        elif key == "leaderWorkerTemplate" and isinstance(value, dict):
            yield from _list_subgroups(f"{path}{key}.subGroupPolicy.subGroupSize", value)


def _list_amounts(path: str, resources: dict[str, Any]) -> Iterator[Rejected]:
    """Yield what ValidateContainerResourceRequirements of Kubernetes refuses."""
    limits, requests = (_read_object(resources, key) for key in ("limits", "requests"))
    for side, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            # What is wrong with an amount of accelerators is refused as for a live pod.
            if name not in (TPU_RESOURCE, GPU_RESOURCE):
                yield from _list_unreadable(f"{path}.{side}.{name}", name, amount)
    for name, amount in requests.items():
        problem, valid = _compare(name, amount, limits.get(name))
        if problem:
            field = f"{path}.requests.{name}"
            yield ManifestInvalid(problem, field=field, value=str(amount), valid=valid)


def _list_unreadable(field: str, name: str, amount: Any) -> Iterator[Rejected]:
    number = parse_quantity(str(amount))
    if number is None:
        yield ManifestInvalid(f"quantity {str(amount)!r} is not valid: {_QUANTITIES}", field=field, valid=_VALID)
    elif _is_extended(name) and number % 1:
        yield ManifestInvalid("must be an integer", field=field, value=str(amount))


def _read_object(body: dict[str, Any], key: str) -> dict[str, Any]:
    value = body.get(key)
    return value if isinstance(value, dict) else {}


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name


def _compare(name: str, request: Any, limit: Any) -> tuple[str, str]:
    """Return what is wrong with a request beside its limit, and what is valid; or nothing."""
    extended = _is_extended(name) or name.startswith(HUGE_PAGES)
    if limit is None:
        problem = "Limit must be set for non overcommitable resources"
        return (problem, f"limits.{name}: {request}") if extended else ("", "")
    asked, most = parse_quantity(str(request)), parse_quantity(str(limit))
    if asked is None or most is None:
        return "", ""
    if extended and asked != most:
        return f"must be equal to {name} limit of {limit}", str(limit)
    if asked > most:
        return f"must be less than or equal to {name} limit of {limit}", f"at most {limit}"
    return "", ""


def _list_subgroups(field: str, template: dict[str, Any]) -> Iterator[Rejected]:
    """Yield what the webhook of sets of leaders and workers refuses: validateUpdateSubGroupPolicy.

    https://github.com/kubernetes-sigs/lws/tree/v0.7.0/pkg/webhooks
    """
    policy, size = _read_object(template, "subGroupPolicy"), template.get("size", 1)
    part = policy.get("subGroupSize")
    if not isinstance(part, int) or not isinstance(size, int):
        return
    excluded = policy.get("subGroupPolicyType") == "LeaderExcluded"
    problem = _find_uneven(size, part, excluded=excluded)
    if problem:
        parts = range(1, min(size, _SHOWN_MAX) + 1)
        valid = ", ".join(str(each) for each in parts if not _find_uneven(size, each, excluded=excluded))
        yield ManifestInvalid(problem, field=f"{field} {part}", valid=valid)


def _find_uneven(size: int, part: int, *, excluded: bool) -> str:
    if part < 1:
        return "subGroupSize must be equal or greater than 1"
    if size < part:
        return f"subGroupSize cannot be larger than size {size}"
    if excluded and (size - 1) % part:
        return f"size-1 must be divisible by it when using LeaderExcluded (size {size})"
    uneven = size % part and (size - 1) % part
    return f"size {size} or size - 1 must be divisible by it" if uneven else ""
