"""How a write is refused: a wrong field, a wrong type, or a field that is not played here.

Source: https://github.com/kubernetes/apimachinery (pkg/util/validation/field, pkg/api/errors).
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from standins.cluster.store.errors import ApiError, bad_request, invalid
from standins.cluster.store.kinds import Kind

Json = dict[str, Any]

NOT_PLAYED = (
    "Forbidden: the embedded cluster does not play this. Run it on the real control plane: "
    "CLUSTER=real, docs/local-stack.md"
)


class Problem(NamedTuple):
    """One wrong field, and what would be valid."""

    field: str
    why: str


def not_played(field: str, value: object) -> Problem:
    """Return the refusal of a valid value that this cluster does not play."""
    return Problem(field, f'Invalid value: "{value}": {NOT_PLAYED}')


def unsupported(field: str, value: object, valid: Iterable[str]) -> Problem:
    """Return the refusal of a value that is none of the valid ones."""
    supported = ", ".join(f'"{each}"' for each in valid)
    return Problem(field, f'Unsupported value: "{value}": supported values: {supported}')


def refuse(kind: Kind, name: str, problems: Iterable[Problem]) -> None:
    """Return when there are no problems. Raises ApiError: 422, with every problem."""
    found = list(problems)
    if not found:
        return
    error = invalid(kind, name, *found[0])
    if len(found) > 1:
        head = error.message.partition(" is invalid: ")[0]
        error.message = f"{head} is invalid: [{', '.join(f'{field}: {why}' for field, why in found)}]"
    raise error


def unreadable(kind: Kind, why: str) -> ApiError:
    """Return the 400 for a body that is not of the API's types."""
    return bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}')


def read(kind: Kind, body: Json, shape: type) -> None:
    """Return when all values are of the right types.

    Raises ApiError: 400, with the path of the field.
    """
    try:
        msgspec.convert(body, type=shape)
    except msgspec.ValidationError as error:
        raise unreadable(kind, str(error)) from error
