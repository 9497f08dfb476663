"""Three patch types: merge (RFC 7396), JSON (RFC 6902) and strategic merge.

A strategic merge merges lists by their merge key. Server-side apply is refused: this cluster keeps
no ownership of fields.
Source: https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/
"""

from collections.abc import Callable
from typing import Any

import msgspec
import yaml

from standins.cluster.kinds import Json, Kind
from standins.cluster.refusals import ApiError

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

_MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "conditions": "type",
    "addresses": "type",
    "ownerReferences": "uid",
    "schedulingGates": "name",
}
_MERGED_SETS = {"finalizers"}
_DIRECTIVE = "$patch"


def read_media_type(content_type: str) -> str:
    """Return a content type without its parameters."""
    return content_type.split(";", maxsplit=1)[0].strip()


def read_patch(kind: Kind, wanted: str, body: bytes) -> Callable[[Json], Json]:
    """Return the change that a patch request asks for, as a function of the stored body.

    Raises ApiError: 400 for an unreadable body, 415 for a patch type that the kind does not take.
    """
    accepted = [JSON_PATCH, MERGE_PATCH] + ([] if kind.group.endswith(".x-k8s.io") else [STRATEGIC_PATCH])
    if wanted not in accepted:
        why = "the body of the request was in an unknown format - the embedded cluster accepts: "
        raise ApiError(415, why + ", ".join(accepted))
    if wanted == JSON_PATCH:
        operations = _read(body, list)
        return lambda stored: apply_json_patch(stored, operations)
    patch = read_object(body)
    if wanted == MERGE_PATCH:
        return lambda stored: merge(stored, patch)
    return lambda stored: strategic_merge(stored, patch)


def read_object(body: bytes) -> Json:
    """Return a JSON or YAML body that must be an object. Raises ApiError: 400."""
    if body.lstrip().startswith(b"{"):
        return _read(body, dict)  # type: ignore[no-any-return]  # the type is given
    try:
        found = yaml.safe_load(body)
    except yaml.YAMLError as error:
        raise ApiError(400, f"the body is neither JSON nor YAML: {error}") from error
    if not isinstance(found, dict):
        raise ApiError(400, "the body must be an object")
    return found


def _read(body: bytes, wanted: type) -> Any:
    try:
        return msgspec.json.decode(body, type=wanted)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ApiError(400, f"the body is not a valid JSON {wanted.__name__}: {error}") from error


def merge(target: Any, patch: Any) -> Any:
    """Return a merge patch applied: members replace, null removes, lists are replaced whole."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def strategic_merge(target: Any, patch: Json) -> Json:
    """Return a strategic merge patch applied."""
    if patch.get(_DIRECTIVE) == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    result: Json = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if not key.startswith((_DIRECTIVE, "$setElementOrder/", "$retainKeys")):
            _merge_member(result, key, value)
    return result


def _merge_member(result: Json, key: str, value: Any) -> None:
    if key.startswith("$deleteFromPrimitiveList/"):
        field = key.partition("/")[2]
        result[field] = [item for item in result.get(field, []) if item not in value]
    elif value is None or _read_directive(value) == "delete":
        result.pop(key, None)
    elif isinstance(value, dict):
        result[key] = strategic_merge(result.get(key), value)
    elif isinstance(value, list):
        result[key] = _merge_lists(key, result.get(key, []), value)
    else:
        result[key] = value


def _read_directive(value: Any) -> str:
    """Return what a patch says about a whole object, empty where it says nothing."""
    return str(value.get(_DIRECTIVE, "")) if isinstance(value, dict) else ""


def _merge_lists(field: str, target: list[Any], patch: list[Any]) -> list[Any]:
    """Return a list merged; new items come first, as in the real server."""
    if field in _MERGED_SETS:
        return [item for item in patch if item not in target] + target
    key = _MERGE_KEYS.get(field)
    if key is None or not all(isinstance(item, dict) and key in item for item in patch):
        # Also a list with the item `$patch: replace`.
        return [item for item in patch if not _read_directive(item)]
    return _merge_by_key(key, target, patch)


def _merge_by_key(key: str, target: list[Json], patch: list[Json]) -> list[Json]:
    patched = {item[key]: item for item in patch}
    present = {item.get(key) for item in target}
    result = [item for name, item in patched.items() if name not in present and not _read_directive(item)]
    for item in target:
        change = patched.get(item.get(key), {})
        if _read_directive(change) != "delete":
            result.append(strategic_merge(item, change))
    return result


def apply_json_patch(document: Json, operations: list[Any]) -> Json:
    """Return the document after all operations, in order.

    Raises ApiError: 422, naming the operation that cannot be applied.
    """
    for operation in operations:
        try:
            _apply(document, operation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ApiError(422, f"the operation {operation!r} cannot be applied: {error}") from error
    return document


def _apply(document: Any, operation: Json) -> None:
    """Apply one operation in place.

    Unlike in the RFC, and as in the API server, replace accepts a member that does not exist.
    """
    name, (parent, place) = operation["op"], _find_place(document, operation["path"])
    if name == "remove":
        del parent[place]
    elif name == "add" and isinstance(parent, list):
        parent.insert(place, operation["value"])
    elif name in {"add", "replace"}:
        parent[place] = operation["value"]
    elif name != "test":
        raise ValueError(f"op {name!r} is none of add, remove, replace, test")
    elif parent[place] != operation["value"]:
        raise ValueError("the stored value is another one")


def _find_place(document: Any, path: str) -> tuple[Any, Any]:
    """Return the object or list that a path leads to, and the place in it."""
    if not path.startswith("/"):
        raise ValueError(f"path {path!r} does not start with /")
    *steps, last = (step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:])
    parent = document
    for step in steps:
        parent = parent[int(step)] if isinstance(parent, list) else parent[step]
    if not isinstance(parent, list):
        return parent, last
    return parent, len(parent) if last == "-" else int(last)
