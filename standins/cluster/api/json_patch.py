"""JSON patch, RFC 6902 (https://www.rfc-editor.org/rfc/rfc6902): add, remove, replace and test."""

from typing import Any

from standins.cluster.store.errors import ApiError

Json = dict[str, Any]


def _refused(why: str) -> ApiError:
    return ApiError(422, "Invalid", f"the server rejected our request due to an error in our request: {why}")


def apply_json_patch(document: Json, operations: list[Any]) -> Json:
    """Return the document after all operations, in order.

    Raises ApiError: 422, naming the operation that cannot be applied.
    """
    for operation in operations:
        try:
            _apply(document, operation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise _refused(f"operation {operation!r} cannot be applied: {error}") from error
    return document


def _apply(document: Any, operation: Json) -> None:
    """Apply one operation in place.

    Unlike in the RFC, and as in the API server, replace accepts a member that does not exist.
    """
    name, path = operation["op"], operation["path"]
    if not path.startswith("/"):
        raise ValueError(f"path {path!r} does not start with /")
    *steps, last = (step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:])
    parent = document
    for step in steps:
        parent = parent[int(step)] if isinstance(parent, list) else parent[step]
    if isinstance(parent, list):
        place = len(parent) if last == "-" else int(last)
    if name == "add" and isinstance(parent, list):
        parent.insert(place, operation["value"])
    elif name in {"add", "replace"}:
        parent[place if isinstance(parent, list) else last] = operation["value"]
    elif name == "remove":
        del parent[place if isinstance(parent, list) else last]
    elif name != "test":
        raise ValueError(f"op {name!r} is none of add, remove, replace, test")
    elif parent[place if isinstance(parent, list) else last] != operation["value"]:
        raise ValueError("the stored value is another one")
