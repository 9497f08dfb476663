"""What a write becomes before it is stored: names, labels, defaults, checks.

Pods, Jobs, nodes and namespaces are here; JobSets and JobSet's webhooks are in `jobset_admission`.
The real API server refuses more. Sources:
https://kubernetes.io/docs/concepts/overview/working-with-objects/names/,
https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set,
https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/,
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/ and, for gated pods,
https://kubernetes.io/docs/concepts/scheduling-eviction/pod-scheduling-readiness/
"""

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from standins.cluster import jobset_admission
from standins.cluster.kinds import JOB, JOBSET, NAMESPACE, NODE, POD, PRIORITY_CLASS, Json, Kind
from standins.cluster.objects import (
    BATCH_PREFIX,
    NOT_READY_TAINT,
    list_containers,
    list_resources,
    set_condition,
    write_quantities,
    write_quantity,
)
from standins.cluster.refusals import (
    PLAYED_OF_JOBS,
    ApiError,
    Problem,
    forbidden,
    invalid,
    list_not_played,
    refuse,
)
from standins.cluster.store import Store
from standins.kit.fitting import read_node, read_pod, read_quantity

_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_PREFIX_MAX = 58
_NAME_MAX, _LABEL_MAX = 253, 63
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_NAME_RULE = "must be lower case letters, digits, '-' and '.', and start and end with a letter or a digit"
_LABEL_RULE = "must be letters, digits, '-', '_' and '.', 63 at most, and start and end with a letter or a digit"
_SERVER_OWNED = (
    *("namespace", "name", "generateName", "uid", "generation"),
    *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
)
"""What the server writes, whatever a client sends."""
_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_CHANGEABLE = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates")
_CHANGEABLE_WHILE_GATED = ("nodeSelector", "affinity")
_NAME_OF_JOB_MAX = 63
_JOB_DEFAULTS = {
    "parallelism": 1,
    "completionMode": "NonIndexed",
    "backoffLimit": 6,
    "suspend": False,
    "manualSelector": False,
    "podReplacementPolicy": "TerminatingOrFailed",
}


def without_nulls(value: Any) -> Any:
    """Return a JSON value without null members, as after decoding into typed structs."""
    if isinstance(value, dict):
        return {key: without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [without_nulls(member) for member in value]
    return value


def settle_name(kind: Kind, metadata: Json, source: random.Random) -> str:
    """Set the name from `generateName` when there is none, and return it.

    Raises ApiError: 422, when there is no name at all or one that is not valid.
    """
    prefix = metadata.get("generateName")
    if not metadata.get("name") and prefix:
        suffix = "".join(source.choices(_SUFFIX_ALPHABET, k=_SUFFIX_LENGTH))
        metadata["name"] = f"{prefix[:_PREFIX_MAX]}{suffix}"
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        raise invalid(kind, "", ("metadata.name", "Required value: name or generateName is required"))
    if not _NAME.fullmatch(name) or len(name) > _NAME_MAX:
        raise invalid(kind, name, ("metadata.name", f'Invalid value: "{name}": {_NAME_RULE}'))
    return name


def settle_namespace(kind: Kind, metadata: Json, namespace: str) -> None:
    """Set the namespace of the path. Raises ApiError: 400, when the object names another one."""
    own = metadata.pop("namespace", "")
    if not kind.namespaced:
        return
    if own and own != namespace:
        raise ApiError(400, f"the namespace of the object, {own}, does not match that of the request, {namespace}")
    metadata["namespace"] = namespace


def list_label_problems(labels: Any, field: str) -> Iterator[Problem]:
    """Yield what is wrong with labels, or with a node selector."""
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key) or len(key.rpartition("/")[2]) > _LABEL_MAX:
            yield field, f'Invalid value: "{key}": the name {_LABEL_RULE}'
        if not isinstance(value, str) or len(value) > _LABEL_MAX or not _LABEL_VALUE.fullmatch(value):
            yield field, f'Invalid value: "{value}": a label {_LABEL_RULE}'


def check_metadata(kind: Kind, metadata: Json) -> None:
    """Refuse metadata of the wrong form. Raises ApiError: 422, naming the field."""
    name = str(metadata.get("name", ""))
    for field in ("labels", "annotations"):
        texts = metadata.get(field, {})
        if not isinstance(texts, dict) or not all(isinstance(value, str) for value in texts.values()):
            raise invalid(kind, name, (f"metadata.{field}", "Invalid value: must be an object of text to text"))
    refuse(kind, name, list_label_problems(metadata.get("labels", {}), "metadata.labels"))


def carry_over(old: Json, new: Json) -> None:
    """Keep the server's own fields of the stored metadata."""
    for field in (*_SERVER_OWNED, "managedFields"):
        new.pop(field, None)
    new |= {field: old[field] for field in _SERVER_OWNED if field in old}


def drop_empty(metadata: Json) -> None:
    """Leave out empty maps and lists, as the API server does when it writes metadata."""
    for field in ("labels", "annotations", "finalizers", "ownerReferences"):
        if field in metadata and not metadata[field]:
            del metadata[field]


def admit_new(store: Store, kind: Kind, body: Json, now: str) -> None:
    """Default and check a new object in place. Raises ApiError: 400, 403 or 422."""
    with _refusing_wrong_types(kind):
        if kind is POD:
            _admit_new_pod(store, body, now)
        elif kind is NODE:
            _admit_new_node(body)
        elif kind is JOB:
            _admit_new_job(body)
        elif kind is JOBSET:
            jobset_admission.admit_new(body)
        elif kind is NAMESPACE:
            body["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = body["metadata"]["name"]
            body |= {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}


def admit_change(kind: Kind, old: Json, new: Json) -> None:
    """Default and check a changed object in place. Raises ApiError: 400, 403 or 422."""
    with _refusing_wrong_types(kind):
        if kind is POD:
            _admit_changed_pod(old, new)
        elif kind is NODE:
            _write_offer(new)
        elif kind is JOB:
            new["spec"] = _JOB_DEFAULTS | new["spec"]
            refuse(JOB, new["metadata"]["name"], list_not_played(PLAYED_OF_JOBS, new["spec"], "spec"))
        elif kind is JOBSET:
            jobset_admission.admit_change(old, new)
        elif kind is NAMESPACE:
            new.setdefault("spec", {})


@contextmanager
def _refusing_wrong_types(kind: Kind) -> Iterator[None]:
    """Refuse a body in which a rule, or a reader of the scheduler, meets another type."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        head = f'{kind.kind} in version "{kind.api_version}" cannot be handled as a {kind.kind}'
        raise ApiError(400, f"{head}: {error!r}") from error


def _admit_new_pod(store: Store, body: Json, now: str) -> None:
    spec = body.setdefault("spec", {})
    name = body["metadata"]["name"]
    write_quantities(spec)
    for container in list_containers(spec):
        resources = container.get("resources", {})
        if resources.get("limits"):
            resources["requests"] = resources["limits"] | resources.get("requests", {})
    refuse(POD, name, _list_problems(spec, "spec"))
    _default_pod_spec(spec)
    spec["priority"] = _find_priority(store, name, spec.get("priorityClassName", ""))
    _add_tolerations(spec)
    body["status"] = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        gated = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        set_condition(body["status"], gated, now)
    read_pod(body)
    jobset_admission.admit_new_pod(store, body)


def _default_pod_spec(spec: Json) -> None:
    """Fill in the defaults that something here reads, in place; for templates of Jobs too."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    for container in list_containers(spec):
        container.setdefault("resources", {})


def _list_problems(spec: Json, field: str) -> Iterator[Problem]:
    """Yield what the API server would not store of a pod spec; its quantities are texts."""
    if not spec.get("containers"):
        yield f"{field}.containers", "Required value"
    for container in list_containers(spec):
        yield from _list_resource_problems(
            container.get("resources", {}), f"{field}.{container['name']}.resources"
        )
    yield from list_label_problems(spec.get("nodeSelector", {}), f"{field}.nodeSelector")


def _list_resource_problems(resources: Json, field: str) -> Iterator[Problem]:
    """Yield what is wrong with extended resources: they are whole, and the request is the limit."""
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for resource, quantity in filter(lambda item: is_extended(item[0]), (limits | requests).items()):
        if read_quantity(quantity) % 1_000:
            yield f"{field}.limits[{resource}]", f'Invalid value: "{quantity}": must be an integer'
        if resource not in limits:
            yield f"{field}.limits", "Required value: Limit must be set for non overcommitable resources"
        elif read_quantity(quantity) != read_quantity(limits[resource]):
            why = f'Invalid value: "{quantity}": must be equal to {resource} limit of {limits[resource]}'
            yield f"{field}.requests", why


def is_extended(resource: str) -> bool:
    """Return whether a resource is no resource of Kubernetes' own, such as `google.com/tpu`."""
    domain, slash, _ = resource.rpartition("/")
    return bool(slash) and not domain.endswith("kubernetes.io")


def _find_priority(store: Store, name: str, class_name: str) -> int:
    if not class_name or class_name in _SYSTEM_PRIORITIES:
        return _SYSTEM_PRIORITIES.get(class_name, 0)
    priority_class = store.get(PRIORITY_CLASS, "", class_name)
    if priority_class is None:
        raise forbidden(POD, name, f"no PriorityClass with name {class_name} was found")
    return int(priority_class.json.get("value", 0))


def _add_tolerations(spec: Json) -> None:
    """Tolerate lost nodes for a while, and the taints of the extended resources that are used."""
    tolerations = spec.setdefault("tolerations", [])
    for taint in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not _stays(tolerations, taint):
            toleration = {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            tolerations.append(toleration)
    used = {name for resources, group in list_resources(spec) if group == "requests" for name in resources[group]}
    for resource in sorted(filter(is_extended, used)):
        toleration = {"key": resource, "operator": "Exists", "effect": "NoSchedule"}
        if toleration not in tolerations:
            tolerations.append(toleration)


def _stays(tolerations: list[Json], taint: str) -> bool:
    """Return whether tolerations say how long a pod stays on a node with this taint."""
    own = (each for each in tolerations if each.get("key") in {None, taint})
    return any(each.get("effect", "NoExecute") == "NoExecute" for each in own)


def _admit_changed_pod(old: Json, new: Json) -> None:
    """Refuse changes of a pod's spec other than the few that are allowed; put tolerations back."""
    name, spec = new["metadata"]["name"], new.setdefault("spec", {})
    write_quantities(spec)
    _add_tolerations(spec)
    before, after = ({gate["name"] for gate in each.get("schedulingGates", [])} for each in (old["spec"], spec))
    if after - before:
        why = f"Forbidden: only deletion is allowed, but found new scheduling gate '{min(after - before)}'"
        raise invalid(POD, name, ("spec.schedulingGates", why))
    allowed = _CHANGEABLE + (_CHANGEABLE_WHILE_GATED if before else ())
    fields = (old["spec"].keys() | spec.keys()) - set(allowed)
    if changed := sorted(field for field in fields if old["spec"].get(field) != spec.get(field)):
        why = f"Forbidden: pod updates may change only {', '.join(allowed)}"
        raise invalid(POD, name, (f"spec.{changed[0]}", why))
    read_pod(new)


def _admit_new_job(body: Json) -> None:
    name, uid = body["metadata"]["name"], body["metadata"]["uid"]
    spec = body.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec |= _JOB_DEFAULTS | spec
    template = spec.setdefault("template", {})
    pod_spec = template.setdefault("spec", {})
    write_quantities(pod_spec)
    refuse(JOB, name, _list_job_problems(name, spec))
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    for prefix in (BATCH_PREFIX, ""):
        labels |= {f"{prefix}controller-uid": uid, f"{prefix}job-name": name}
    if not body["metadata"].get("labels"):
        body["metadata"]["labels"] = dict(labels)
    spec["selector"] = {"matchLabels": {f"{BATCH_PREFIX}controller-uid": uid}}
    _default_pod_spec(pod_spec)
    body["status"] = {}


def _list_job_problems(name: str, spec: Json) -> Iterator[Problem]:
    yield from list_not_played(PLAYED_OF_JOBS, spec, "spec")
    for field in ("parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished"):
        if spec.get(field, 0) < 0:
            yield f"spec.{field}", f"Invalid value: {spec[field]}: must be greater than or equal to 0"
    if spec["completionMode"] == "Indexed" and "completions" not in spec:
        yield "spec.completions", "Required value: when completion mode is Indexed"
    if len(name) > _NAME_OF_JOB_MAX:
        why = f'Invalid value: "{name}": must be no more than {_NAME_OF_JOB_MAX} characters'
        yield "spec.template.labels", why
    pod_spec = spec["template"]["spec"]
    yield from _list_problems(pod_spec, "spec.template.spec")
    # A Job has no default here: the default of pods, Always, is not valid for it.
    if pod_spec.get("restartPolicy") not in ("OnFailure", "Never"):
        why = f'Unsupported value: "{pod_spec.get("restartPolicy", "")}": supported values: "OnFailure", "Never"'
        yield "spec.template.spec.restartPolicy", why


def _admit_new_node(body: Json) -> None:
    """Add the taint not-ready, which a new node has until its controller has seen it."""
    _write_offer(body)
    body.setdefault("status", {})
    taints = body.setdefault("spec", {}).setdefault("taints", [])
    if not any(taint.get("key") == NOT_READY_TAINT["key"] for taint in taints):
        taints.append(dict(NOT_READY_TAINT))
    read_node(body)


def _write_offer(body: Json) -> None:
    status = body.get("status", {})
    for field in {"capacity", "allocatable"} & set(status):
        status[field] = {resource: write_quantity(quantity) for resource, quantity in status[field].items()}
