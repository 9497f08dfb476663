"""Admission of pods: defaults and the built-in plugins (priority, tolerations, extended resources).

JobSet's webhooks for its pods come last, as webhooks do, and are in `jobset_pods`.
Sources: https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/
(ExtendedResourceToleration, DefaultTolerationSeconds, Priority); conditions of gated pods:
https://kubernetes.io/docs/concepts/scheduling-eviction/pod-scheduling-readiness/
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from local.cluster.admission import jobset_pods
from local.cluster.admission.pod_specs import (
    containers,
    default_requests,
    default_spec,
    gate_problems,
    is_extended,
    restart_policy_problems,
    spec_problems,
    write_quantities,
)
from local.cluster.admission.refusals import refuse
from local.cluster.errors import forbidden, invalid
from local.cluster.store.kinds import POD, PRIORITY_CLASS

if TYPE_CHECKING:
    from local.cluster.store.store import Store

Json = dict[str, Any]

_DEFAULT_TOLERATION_SECONDS = 300
_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_CHANGEABLE = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates")
_CHANGEABLE_WHILE_GATED = ("nodeSelector", "affinity")


def admit_new(store: Store, body: Json, now: str) -> None:
    """Default and check a new pod in place.

    Raises:
        ApiError: 400 (quantities), 403 (priority class, JobSet's webhooks) or 422.
    """
    spec = body.setdefault("spec", {})
    name = body["metadata"]["name"]
    write_quantities(POD, spec)
    default_requests(spec)
    problems = (spec_problems(spec, "spec"), restart_policy_problems(spec, "spec"), gate_problems(spec))
    refuse(POD, name, itertools.chain(*problems))
    default_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    spec["serviceAccount"] = spec.setdefault("serviceAccountName", "default")
    _set_priority(store, name, spec)
    _add_tolerations(spec)
    body["status"] = {"phase": "Pending", "qosClass": _quality_class(spec)}
    if spec.get("schedulingGates"):
        body["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastTransitionTime": now,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            },
        ]
    jobset_pods.admit_new(store, body)


def admit_change(old: Json, new: Json) -> None:
    """Refuse changes of a pod's spec other than the few that are allowed; put tolerations back.

    Raises:
        ApiError: 400 (quantities) or 422.
    """
    name = new["metadata"]["name"]
    write_quantities(POD, new.setdefault("spec", {}))
    _add_tolerations(new["spec"])
    gates_before = {gate["name"] for gate in old["spec"].get("schedulingGates", [])}
    gates_after = {gate["name"] for gate in new.get("spec", {}).get("schedulingGates", [])}
    if gates_after - gates_before:
        added = min(gates_after - gates_before)
        why = f"Forbidden: only deletion is allowed, but found new scheduling gate '{added}'"
        index = next(i for i, gate in enumerate(new["spec"]["schedulingGates"]) if gate["name"] == added)
        raise invalid(POD, name, f"spec.schedulingGates[{index}].name", why)
    allowed = _CHANGEABLE + (_CHANGEABLE_WHILE_GATED if gates_before else ())
    if _fixed_part(old["spec"], allowed) != _fixed_part(new.get("spec", {}), allowed):
        why = (
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
            "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
            "previously negative)"
        )
        raise invalid(POD, name, "spec", why)


def _fixed_part(spec: Json, allowed: tuple[str, ...]) -> Json:
    fixed = {key: value for key, value in spec.items() if key not in allowed}
    for group in ("containers", "initContainers"):
        if group in fixed:
            fixed[group] = [{k: v for k, v in container.items() if k != "image"} for container in fixed[group]]
    return fixed


def _set_priority(store: Store, name: str, spec: Json) -> None:
    class_name = spec.get("priorityClassName", "")
    if class_name in _SYSTEM_PRIORITIES:
        spec["priority"] = _SYSTEM_PRIORITIES[class_name]
    elif class_name:
        found = store.get(PRIORITY_CLASS, "", class_name)
        if found is None:
            raise forbidden(POD, name, f"no PriorityClass with name {class_name} was found")
        spec["priority"] = found.body().get("value", 0)
    else:
        classes = (candidate.body() for candidate in store.objects(PRIORITY_CLASS))
        default = next((found for found in classes if found.get("globalDefault")), None)
        if default is not None:
            spec["priorityClassName"] = default["metadata"]["name"]
        spec["priority"] = default.get("value", 0) if default is not None else 0
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _add_tolerations(spec: Json) -> None:
    tolerations = spec.setdefault("tolerations", [])
    for taint in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_covers_no_execute(toleration, taint) for toleration in tolerations):
            tolerations.append(
                {
                    "key": taint,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _DEFAULT_TOLERATION_SECONDS,
                },
            )
    wanted = {resource for each in containers(spec) for resource in each.get("resources", {}).get("requests", {})}
    for resource in sorted(filter(is_extended, wanted)):
        toleration = {"key": resource, "operator": "Exists", "effect": "NoSchedule"}
        if toleration not in tolerations:
            tolerations.append(toleration)


def _covers_no_execute(toleration: Json, taint: str) -> bool:
    return bool(toleration.get("key", taint) == taint and toleration.get("effect", "NoExecute") == "NoExecute")


def _quality_class(spec: Json) -> str:
    containers = spec.get("containers", [])
    resources = [container.get("resources", {}) for container in containers]
    compute = [
        ({k: v for k, v in r.get("requests", {}).items() if k in {"cpu", "memory"}},
         {k: v for k, v in r.get("limits", {}).items() if k in {"cpu", "memory"}})
        for r in resources
    ]  # fmt: skip
    if not any(requests or limits for requests, limits in compute):
        return "BestEffort"
    if all(set(limits) == {"cpu", "memory"} and requests == limits for requests, limits in compute):
        return "Guaranteed"
    return "Burstable"
