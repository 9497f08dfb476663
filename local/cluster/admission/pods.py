"""Admission of pods: API defaults and the built-in plugins (priority, tolerations, extended resources).

JobSet's webhooks for its pods come last, as webhooks do, and are in `jobset_pods`.
Sources: https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/
(ExtendedResourceToleration, DefaultTolerationSeconds, Priority); conditions of gated pods:
https://kubernetes.io/docs/concepts/scheduling-eviction/pod-scheduling-readiness/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from local.cluster.admission import jobset_pods
from local.cluster.errors import forbidden, invalid
from local.cluster.metadata import check_labels
from local.cluster.quantities import canonical, milli_units
from local.cluster.store.kinds import POD, PRIORITY_CLASS

if TYPE_CHECKING:
    from local.cluster.store.store import Store

Json = dict[str, Any]

_DEFAULT_TOLERATION_SECONDS = 300
_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_CHANGEABLE = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates")
_CHANGEABLE_WHILE_GATED = ("nodeSelector", "affinity")


def default_spec(spec: Json) -> None:
    """Fill in what the API defaults of a pod spec, in place; also used for the templates of Jobs."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    write_quantities(spec)
    for container in (*spec.get("containers", []), *spec.get("initContainers", [])):
        container.setdefault("imagePullPolicy", "IfNotPresent")
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        resources = container.setdefault("resources", {})
        if resources.get("limits"):
            resources["requests"] = resources["limits"] | resources.get("requests", {})


def write_quantities(spec: Json) -> None:
    """Write the quantities of a pod spec as text, in place; they must have been checked."""
    for container in (*spec.get("containers", []), *spec.get("initContainers", [])):
        resources = container.get("resources", {})
        for group in ("limits", "requests"):
            if group in resources:
                resources[group] = {name: canonical(quantity) for name, quantity in resources[group].items()}


def check_spec(name: str, spec: Json, field: str) -> None:
    """Refuse a pod spec that the API server would not store.

    Raises:
        ApiError: 422, naming the field.
    """
    if not spec.get("containers"):
        raise invalid(POD, name, f"{field}.containers", "Required value: at least one container")
    check_labels(POD, name, spec.get("nodeSelector", {}), f"{field}.nodeSelector")
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group, [])):
            _check_resources(name, container, f"{field}.{group}[{index}].resources")


def _check_resources(name: str, container: Json, field: str) -> None:
    resources = container.get("resources", {})
    for group in ("requests", "limits"):
        for resource, quantity in resources.get(group, {}).items():
            try:
                milli_units(quantity)
            except ValueError as error:
                raise invalid(POD, name, f"{field}.{group}[{resource}]", str(error)) from error
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    for resource in filter(_is_extended, requests):
        if milli_units(requests[resource]) != milli_units(limits.get(resource, 0)):
            limit = limits.get(resource, 0)
            why = f'Invalid value: "{requests[resource]}": must be equal to {resource} limit of {limit}'
            raise invalid(POD, name, f"{field}.requests", why)


def _is_extended(resource: str) -> bool:
    domain, slash, _ = resource.rpartition("/")
    return bool(slash) and not domain.endswith("kubernetes.io")


def admit_new(store: Store, body: Json, now: str) -> None:
    """Default and check a new pod in place.

    Raises:
        ApiError: 403 (priority class, JobSet's webhooks) or 422.
    """
    spec = body.setdefault("spec", {})
    name = body["metadata"]["name"]
    check_spec(name, spec, "spec")
    default_spec(spec)
    spec.setdefault("serviceAccountName", "default")
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
    """Refuse changes of a pod's spec other than the few that are allowed.

    Raises:
        ApiError: 422.
    """
    name = new["metadata"]["name"]
    gates_before = {gate["name"] for gate in old["spec"].get("schedulingGates", [])}
    gates_after = {gate["name"] for gate in new.get("spec", {}).get("schedulingGates", [])}
    if gates_after - gates_before:
        added = min(gates_after - gates_before)
        why = f"Forbidden: only deletion is allowed, but found new scheduling gate '{added}'"
        raise invalid(POD, name, "spec.schedulingGates", why)
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
    wanted: set[str] = set()
    for container in (*spec.get("containers", []), *spec.get("initContainers", [])):
        wanted.update(filter(_is_extended, container.get("resources", {}).get("requests", {})))
    for resource in sorted(wanted):
        toleration = {"key": resource, "operator": "Exists"}
        if toleration not in tolerations:
            tolerations.append(toleration)
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
