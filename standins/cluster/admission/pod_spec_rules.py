"""Pod specs, alone and in the templates of Jobs: their defaults, and what the API refuses.

Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#PodSpec
"""

from collections.abc import Iterator
from typing import Any

from standins.cluster.admission.metadata_rules import label_problems
from standins.cluster.admission.refusals import Problem, unreadable
from standins.cluster.objects.quantities import canonical, milli_units
from standins.cluster.store.kinds import Kind

Json = dict[str, Any]


def default_spec(spec: Json) -> None:
    """Fill in the defaults that something here reads, in place; for templates of Jobs too."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    for container in containers(spec):
        container.setdefault("resources", {})


def default_requests(spec: Json) -> None:
    """Request what is limited and not requested, in place: of pods, not of templates."""
    for container in containers(spec):
        resources = container.get("resources", {})
        if resources.get("limits"):
            resources["requests"] = resources["limits"] | resources.get("requests", {})


def containers(spec: Json) -> list[Json]:
    """Return the containers of a pod spec, those for its start too."""
    return [*spec.get("containers", []), *spec.get("initContainers", [])]


def write_quantities(kind: Kind, spec: Json) -> None:
    """Write the quantities of a pod spec as text, in place.

    Raises ApiError: 400, when one is no quantity.
    """
    for container in containers(spec):
        resources = container.get("resources", {})
        for group in ("limits", "requests"):
            if group in resources:
                try:
                    resources[group] = {name: canonical(quantity) for name, quantity in resources[group].items()}
                except ValueError as error:
                    raise unreadable(kind, str(error)) from error


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
    yield from label_problems(spec.get("nodeSelector", {}), f"{field}.nodeSelector")


def _resource_problems(resources: Json, field: str) -> Iterator[Problem]:
    """Yield what is wrong with extended resources: they are whole, and the request is the limit."""
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for resource, quantity in filter(lambda item: is_extended(item[0]), (limits | requests).items()):
        if milli_units(quantity) % 1_000:
            yield Problem(f"{field}.limits[{resource}]", f'Invalid value: "{quantity}": must be an integer')
        if resource not in limits:
            yield Problem(f"{field}.limits", "Required value: Limit must be set for non overcommitable resources")
        elif milli_units(quantity) != milli_units(limits[resource]):
            why = f'Invalid value: "{quantity}": must be equal to {resource} limit of {limits[resource]}'
            yield Problem(f"{field}.requests", why)


def is_extended(resource: str) -> bool:
    """Return whether a resource is no resource of Kubernetes' own, such as `google.com/tpu`."""
    domain, slash, _ = resource.rpartition("/")
    return bool(slash) and not domain.endswith("kubernetes.io")
