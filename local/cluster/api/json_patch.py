"""JSON patch, RFC 6902: https://www.rfc-editor.org/rfc/rfc6902."""

from __future__ import annotations

import copy
from typing import Any

from local.cluster.errors import ApiError

Json = dict[str, Any]

_VALID = ("add", "remove", "replace", "move", "copy", "test")


def _refused(why: str) -> ApiError:
    return ApiError(422, "Invalid", f"the server rejected our request due to an error in our request: {why}", {})


def apply_json_patch(document: Json, operations: list[Any]) -> Json:
    """Return the document after all operations, in order.

    Raises:
        ApiError: 422, naming the operation that cannot be applied.
    """
    result: Any = document
    for operation in operations:
        try:
            result = _apply(result, operation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise _refused(f"operation {operation!r} cannot be applied: {error}") from error
    if not isinstance(result, dict):
        raise _refused("the result is not an object")
    return result


def _apply(document: Any, operation: Json) -> Any:
    name = operation["op"]
    path = _steps(operation["path"])
    if name == "add":
        return _add(document, path, operation["value"])
    if name == "replace":
        return _replace(document, path, operation["value"])
    if name == "remove":
        return _remove(document, path)
    if name == "test":
        if _lookup(document, path) != operation["value"]:
            raise _refused(f"testing value {operation['path']} failed")
        return document
    if name in {"move", "copy"}:
        source = _steps(operation["from"])
        value = copy.deepcopy(_lookup(document, source))
        return _add(_remove(document, source) if name == "move" else document, path, value)
    raise ValueError(f"op {name!r} is not one of {', '.join(_VALID)}")


def _steps(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise ValueError(f"path {pointer!r} does not start with /")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _lookup(document: Any, path: list[str]) -> Any:
    for step in path:
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, last = _lookup(document, path[:-1]), path[-1]
    if isinstance(parent, list):
        place = len(parent) if last == "-" else int(last)
        if place > len(parent):
            raise IndexError(f"index {place} is beyond the list")
        parent.insert(place, value)
    else:
        parent[last] = value
    return document


def _replace(document: Any, path: list[str], value: Any) -> Any:
    """Unlike the RFC, and like the library of the API server, accept a member that an object does not have yet."""
    parent = _lookup(document, path[:-1])
    if isinstance(parent, list):
        document = _remove(document, path)
    return _add(document, path, value)


def _remove(document: Any, path: list[str]) -> Any:
    parent, last = _lookup(document, path[:-1]), path[-1]
    del parent[int(last) if isinstance(parent, list) else last]
    return document
