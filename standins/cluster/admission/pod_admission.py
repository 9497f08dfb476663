"""Admission of pods: defaults and the built-in plugins.

The plugins are priority, default tolerations and extended resources.
JobSet's webhooks for its pods come last; they are in `jobset_pod_webhook`.
Sources: https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/
and, for gated pods,
https://kubernetes.io/docs/concepts/scheduling-eviction/pod-scheduling-readiness/
"""

from collections.abc import Iterator
from typing import Any

from standins.cluster.admission import jobset_pod_webhook
from standins.cluster.admission.pod_spec_rules import (
    containers,
    default_requests,
    default_spec,
    is_extended,
    spec_problems,
    write_quantities,
)
from standins.cluster.admission.refusals import Problem, refuse, unsupported
from standins.cluster.store.errors import forbidden, invalid
from standins.cluster.store.kinds import POD, PRIORITY_CLASS
from standins.cluster.store.object_store import Store

Json = dict[str, Any]

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_CHANGEABLE = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates")
_CHANGEABLE_WHILE_GATED = ("nodeSelector", "affinity")


def admit_new(store: Store, body: Json, now: str) -> None:
    """Default and check a new pod in place.

    Raises ApiError: 400 (quantities), 403 (priority class, JobSet's webhooks) or 422.
    """
    spec = body.setdefault("spec", {})
    name = body["metadata"]["name"]
    write_quantities(POD, spec)
    default_requests(spec)
    refuse(POD, name, _problems(spec))
    default_spec(spec)
    _set_priority(store, name, spec)
    _add_tolerations(spec)
    body["status"] = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        body["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastTransitionTime": now,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    jobset_pod_webhook.admit_new(store, body)


def _problems(spec: Json) -> Iterator[Problem]:
    yield from spec_problems(spec, "spec")
    policy = spec.get("restartPolicy", "Always")
    if policy not in _RESTART_POLICIES:
        yield unsupported("spec.restartPolicy", policy, _RESTART_POLICIES)


def admit_change(old: Json, new: Json) -> None:
    """Refuse changes of a pod's spec other than the few that are allowed; put tolerations back.

    Raises ApiError: 400 (quantities) or 422.
    """
    name = new["metadata"]["name"]
    write_quantities(POD, new.setdefault("spec", {}))
    _add_tolerations(new["spec"])
    gates_before = {gate["name"] for gate in old["spec"].get("schedulingGates", [])}
    gates_after = {gate["name"] for gate in new.get("spec", {}).get("schedulingGates", [])}
    if gates_after - gates_before:
        added = min(gates_after - gates_before)
        why = f"Forbidden: only deletion is allowed, but found new scheduling gate '{added}'"
        raise invalid(POD, name, "spec.schedulingGates", why)
    allowed = _CHANGEABLE + (_CHANGEABLE_WHILE_GATED if gates_before else ())
    if _fixed_part(old["spec"], allowed) != _fixed_part(new.get("spec", {}), allowed):
        why = f"Forbidden: pod updates may not change fields other than images and {', '.join(allowed)}"
        raise invalid(POD, name, "spec", why)


def _fixed_part(spec: Json, allowed: tuple[str, ...]) -> Json:
    fixed = {key: value for key, value in spec.items() if key not in allowed}
    for group in ("containers", "initContainers"):
        if group in fixed:
            fixed[group] = [{k: v for k, v in container.items() if k != "image"} for container in fixed[group]]
    return fixed


def _set_priority(store: Store, name: str, spec: Json) -> None:
    class_name = spec.get("priorityClassName", "")
    spec["priority"] = _SYSTEM_PRIORITIES.get(class_name, 0)
    if class_name and class_name not in _SYSTEM_PRIORITIES:
        found = store.get(PRIORITY_CLASS, "", class_name)
        if found is None:
            raise forbidden(POD, name, f"no PriorityClass with name {class_name} was found")
        spec["priority"] = found.body().get("value", 0)


def _add_tolerations(spec: Json) -> None:
    tolerations = spec.setdefault("tolerations", [])
    for taint in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        toleration = {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        if not any(each.get("key") in {None, taint} and _covers_no_execute(each) for each in tolerations):
            tolerations.append(toleration)
    wanted = {resource for each in containers(spec) for resource in each.get("resources", {}).get("requests", {})}
    for resource in sorted(filter(is_extended, wanted)):
        toleration = {"key": resource, "operator": "Exists", "effect": "NoSchedule"}
        if toleration not in tolerations:
            tolerations.append(toleration)


def _covers_no_execute(toleration: Json) -> bool:
    return bool(toleration.get("effect", "NoExecute") == "NoExecute")
