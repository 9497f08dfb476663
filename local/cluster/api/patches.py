"""The four patch types.

Merge patch: RFC 7396. JSON patch: RFC 6902 (in `json_patch`). Strategic merge: lists with a merge key are
merged by it, the keys by field name as in the API types. Server-side apply is a strategic merge without
ownership of fields.
Source: https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from local.cluster.api.json_patch import apply_json_patch
from local.cluster.errors import ApiError, bad_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from local.cluster.store.kinds import Kind

Json = dict[str, Any]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_MERGE_KEYS = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "imagePullSecrets": ("name",),
    "conditions": ("type",),
    "addresses": ("type",),
    "ownerReferences": ("uid",),
    "ports": ("containerPort", "port"),
    "hostAliases": ("ip",),
    "schedulingGates": ("name",),
    "topologySpreadConstraints": ("topologyKey",),
    "resourceClaims": ("name",),
}
_MERGED_SETS = {"finalizers"}
_DIRECTIVE = "$patch"
_ORDER = "$setElementOrder/"


def read_patch(kind: Kind, content_type: str, body: bytes) -> Callable[[Json], Json]:
    """Return the change that a patch request asks for, as a function of the stored body.

    Raises:
        ApiError: 400 for a body that cannot be read, 415 for a patch type that the kind does not take.
    """
    media_type = content_type.split(";", maxsplit=1)[0].strip()
    custom = ".x-k8s.io" in kind.group
    accepted = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH] + ([] if custom else [STRATEGIC_PATCH])
    if media_type not in accepted:
        message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(
            accepted
        )
        raise ApiError(415, "UnsupportedMediaType", message, {})
    if media_type == JSON_PATCH:
        operations = _read(body, list)
        return lambda stored: apply_json_patch(stored, operations)
    patch = read_object(body)
    if media_type == MERGE_PATCH:
        return lambda stored: merge(stored, patch)
    patch.get("metadata", {}).pop("managedFields", None)
    return lambda stored: strategic_merge(stored, patch)


def read_object(body: bytes) -> Json:
    """Return a JSON or YAML body that must be an object.

    Raises:
        ApiError: 400.
    """
    if body.lstrip().startswith(b"{"):
        return _read(body, dict)  # type: ignore[no-any-return]  # the type is given
    try:
        found = yaml.safe_load(body)
    except yaml.YAMLError as error:
        raise bad_request(f"the body is neither JSON nor YAML: {error}") from error
    if not isinstance(found, dict):
        raise bad_request("the body must be an object")
    return found


def _read(body: bytes, wanted: type) -> Any:
    try:
        return msgspec.json.decode(body, type=wanted)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise bad_request(f"the body is not a valid JSON {wanted.__name__}: {error}") from error


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
        if key == _DIRECTIVE or key.startswith((_ORDER, "$retainKeys")):
            continue
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.partition("/")[2]
            result[field] = [item for item in result.get(field, []) if item not in value]
        elif value is None or (isinstance(value, dict) and value.get(_DIRECTIVE) == "delete"):
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = strategic_merge(result.get(key), value)
        elif isinstance(value, list):
            result[key] = _merge_lists(key, result.get(key, []), value, patch.get(f"{_ORDER}{key}"))
        else:
            result[key] = value
    return result


def _merge_lists(field: str, target: list[Any], patch: list[Any], order: list[Any] | None) -> list[Any]:
    if field in _MERGED_SETS:
        merged = target + [item for item in patch if item not in target]
        return _in_order(merged, patch if order is None else order, target)
    merge_key = _merge_key(field, patch)
    if merge_key is None or any(item.get(_DIRECTIVE) == "replace" and len(item) == 1 for item in patch):
        return [
            item
            for item in patch
            if not (isinstance(item, dict) and item.get(_DIRECTIVE) == "replace" and len(item) == 1)
        ]
    result = {item.get(merge_key): item for item in target}
    for item in patch:
        name = item.get(merge_key)
        if item.get(_DIRECTIVE) == "delete":
            result.pop(name, None)
        elif name in result:
            result[name] = strategic_merge(result[name], item)
        else:
            result[name] = {key: value for key, value in item.items() if not key.startswith("$")}
    wanted = [item.get(merge_key) for item in (patch if order is None else order)]
    return [result[name] for name in _in_order(list(result), wanted, [item.get(merge_key) for item in target])]


def _in_order(merged: list[Any], wanted: list[Any], before: list[Any]) -> list[Any]:
    """Return the merged names: those of the patch in its order, each before all others that did not precede it.

    Source: https://github.com/kubernetes/kubernetes/blob/v1.34.4/staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch.go
    (`mergeSortedSlice`).
    """
    others = [name for name in merged if name not in wanted]
    result: list[Any] = []
    for name in (name for name in dict.fromkeys(wanted) if name in merged):
        while others and others[0] in before and name in before and before.index(others[0]) < before.index(name):
            result.append(others.pop(0))
        result.append(name)
    return result + others


def _merge_key(field: str, patch: list[Any]) -> str | None:
    if not all(isinstance(item, dict) for item in patch):
        return None
    candidates = _MERGE_KEYS.get(field, ())
    return next((key for key in candidates if all(key in item or _DIRECTIVE in item for item in patch)), None)
