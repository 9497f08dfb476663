"""Pod specs, alone and in the templates of Jobs: what the API defaults in them, and what it refuses.

Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#PodSpec
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from local.cluster.admission.refusals import QUANTITY, Problem, unreadable
from local.cluster.metadata import LABEL_KEY, LABEL_KEY_RULE, LABEL_VALUE, LABEL_VALUE_RULE
from local.cluster.quantities import canonical, milli_units

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local.cluster.store.kinds import Kind

Json = dict[str, Any]

_MAX_LABEL = 63
_RESTART_POLICIES = ("Always", "OnFailure", "Never")


def default_spec(spec: Json) -> None:
    """Fill in what the API defaults of a pod spec, in place; also used for the templates of Jobs."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    for container in containers(spec):
        container.setdefault("imagePullPolicy", "Always" if _is_latest(container["image"]) else "IfNotPresent")
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        container.setdefault("resources", {})
        for variable in container.get("env", []):
            reference = variable.get("valueFrom", {}).get("fieldRef")
            if reference is not None:
                reference.setdefault("apiVersion", "v1")


def default_requests(spec: Json) -> None:
    """Request what is limited and not requested, in place: of pods, not of templates."""
    for container in containers(spec):
        resources = container.get("resources", {})
        if resources.get("limits"):
            resources["requests"] = resources["limits"] | resources.get("requests", {})


def containers(spec: Json) -> list[Json]:
    """Return the containers of a pod spec, those for its start too."""
    return [*spec.get("containers", []), *spec.get("initContainers", [])]


def _is_latest(image: str) -> bool:
    if "@" in image:
        return False
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return not colon or tag == "latest"


def write_quantities(kind: Kind, spec: Json) -> None:
    """Write the quantities of a pod spec as text, in place.

    Raises:
        ApiError: 400, when one is no quantity.
    """
    for container in containers(spec):
        resources = container.get("resources", {})
        for group in ("limits", "requests"):
            if group in resources:
                try:
                    resources[group] = {name: canonical(quantity) for name, quantity in resources[group].items()}
                except ValueError as error:
                    raise unreadable(kind, QUANTITY) from error


def spec_problems(spec: Json, field: str) -> Iterator[Problem]:
    """Yield what the API server would not store; quantities must have been written as text."""
    if not spec.get("containers"):
        yield Problem(f"{field}.containers", "Required value")
    names: set[str] = set()
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group, [])):
            place = f"{field}.{group}[{index}]"
            if container["name"] in names:
                yield Problem(f"{place}.name", f'Duplicate value: "{container["name"]}"')
            names.add(container["name"])
            if not container.get("image"):
                yield Problem(f"{place}.image", "Required value")
            yield from _resource_problems(container.get("resources", {}), f"{place}.resources")
    yield from _selector_problems(spec.get("nodeSelector", {}), f"{field}.nodeSelector")


def restart_policy_problems(spec: Json, field: str) -> Iterator[Problem]:
    """Yield what is wrong with the restart policy of a pod."""
    policy = spec.get("restartPolicy", "Always")
    if policy not in _RESTART_POLICIES:
        valid = ", ".join(f'"{each}"' for each in _RESTART_POLICIES)
        yield Problem(f"{field}.restartPolicy", f'Unsupported value: "{policy}": supported values: {valid}')


def gate_problems(spec: Json) -> Iterator[Problem]:
    """Yield what is wrong with the names of the scheduling gates of a pod."""
    for index, gate in enumerate(spec.get("schedulingGates", [])):
        name, field = gate.get("name", ""), f"spec.schedulingGates[{index}]"
        if not name:
            yield Problem(field, 'Invalid value: "": name part must be non-empty')
        if not LABEL_KEY.fullmatch(name):
            yield Problem(field, f'Invalid value: "{name}": {LABEL_KEY_RULE}')


def _selector_problems(selector: dict[str, str], field: str) -> Iterator[Problem]:
    for key, value in selector.items():
        if not LABEL_KEY.fullmatch(key) or len(key.rpartition("/")[2]) > _MAX_LABEL:
            yield Problem(field, f'Invalid value: "{key}": {LABEL_KEY_RULE}')
        if len(value) > _MAX_LABEL:
            yield Problem(field, f'Invalid value: "{value}": must be no more than {_MAX_LABEL} characters')
        if not LABEL_VALUE.fullmatch(value):
            yield Problem(field, f'Invalid value: "{value}": {LABEL_VALUE_RULE}')


def _resource_problems(resources: Json, field: str) -> Iterator[Problem]:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for group, amounts in (("limits", limits), ("requests", requests)):
        for resource, quantity in amounts.items():
            if is_extended(resource) and milli_units(quantity) % 1_000:
                yield Problem(f"{field}.{group}[{resource}]", f'Invalid value: "{quantity}": must be an integer')
    for resource, quantity in requests.items():
        if resource not in limits:
            if is_extended(resource):
                why = "Required value: Limit must be set for non overcommitable resources"
                yield Problem(f"{field}.limits", why)
            continue
        limit, amount = limits[resource], milli_units(quantity)
        if is_extended(resource) and amount != milli_units(limit):
            why = f'Invalid value: "{quantity}": must be equal to {resource} limit of {limit}'
            yield Problem(f"{field}.requests", why)
        elif amount > milli_units(limit):
            why = f'Invalid value: "{quantity}": must be less than or equal to {resource} limit of {limit}'
            yield Problem(f"{field}.requests", why)


def is_extended(resource: str) -> bool:
    """Return whether a resource is somebody's own, such as `google.com/tpu`."""
    domain, slash, _ = resource.rpartition("/")
    return bool(slash) and not domain.endswith("kubernetes.io")
