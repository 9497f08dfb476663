"""How a write is refused: all wrong fields at once, or a body that cannot be read into the API's types at all.

Texts follow the real API server, whose types are Go's.
Source: https://github.com/kubernetes/apimachinery (pkg/util/validation/field, pkg/api/errors).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from local.cluster.errors import ApiError, bad_request, invalid
from local.cluster.store.kinds import JOBSET

if TYPE_CHECKING:
    from collections.abc import Iterable

    from local.cluster.store.kinds import Kind

Json = dict[str, Any]

QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
UNCHECKED_RULES = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_WRONG_TYPE = re.compile(r"Expected `(?P<wanted>.+)`, got `(?P<got>\w+)`(?: - at `\$\.?(?P<path>.*)`)?")
_MISSING = re.compile(r"Object missing required field `(?P<field>\w+)`(?: - at `\$\.?(?P<path>.*)`)?")
_GO_VALUES = {"str": "string", "int": "number", "float": "number"}
_GO_NAMES = {"Metadata": "ObjectMeta", "Owner": "OwnerReference", "ResourceList": "ResourceRequirements"}
_LEAVES: dict[type, str] = {
    msgspec.inspect.IntType: "int32",
    msgspec.inspect.StrType: "string",
    msgspec.inspect.BoolType: "bool",
    msgspec.inspect.DictType: "map[string]string",
}


class Problem(NamedTuple):
    """One wrong field, its value and what would be valid."""

    field: str
    why: str


def refuse(kind: Kind, name: str, problems: Iterable[Problem], *, unchecked: bool = False) -> None:
    """Return quietly when there are no problems.

    Args:
        kind: Of the object.
        name: Of the object.
        problems: All of them.
        unchecked: Whether rules are left out when there is a problem, which is then said too.

    Raises:
        ApiError: 422, with every problem.
    """
    found = list(problems)
    if not found:
        return
    error = invalid(kind, name, *found[0])
    texts = [f"{problem.field}: {problem.why}" for problem in found] + ([UNCHECKED_RULES] if unchecked else [])
    if len(texts) > 1:
        head = error.message.partition(" is invalid: ")[0]
        error.message = f"{head} is invalid: [{', '.join(texts)}]"
        causes = [{"reason": "FieldValueInvalid", "message": why, "field": field} for field, why in found]
        error.details = (error.details or {}) | {"causes": causes}
    raise error


def unreadable(kind: Kind, why: str) -> ApiError:
    """Return the 400 for a body that is not of the API's types; of JobSets its webhook says so first."""
    if kind is JOBSET:
        return ApiError(400, "", f'admission webhook "mjobset.kb.io" denied the request: {why}')
    return bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}')


def read(kind: Kind, body: Json, shape: type, *, by_schema: bool = False) -> None:
    """Return quietly when all values are of the right types.

    Args:
        kind: Of the object.
        body: The object.
        shape: What it is read into.
        by_schema: Whether a schema judges it, and not the decoding into Go's types.

    Raises:
        ApiError: 400 for a value of the wrong type (422 by a schema), 422 for a missing one; naming the field.
    """
    try:
        msgspec.convert(body, type=shape)
    except msgspec.ValidationError as error:
        raise _translate(kind, body, shape, str(error), by_schema=by_schema) from error


def _translate(kind: Kind, body: Json, shape: type, text: str, *, by_schema: bool) -> ApiError:
    name = body["metadata"].get("name", "")
    if (missing := _MISSING.fullmatch(text)) is not None:
        field = ".".join(filter(None, (missing["path"], missing["field"])))
        return invalid(kind, name, field, "Required value")
    wrong = _WRONG_TYPE.fullmatch(text)
    if wrong is None:
        return bad_request(text)
    path, got = wrong["path"] or "", _GO_VALUES.get(wrong["got"], wrong["got"])
    owner, wanted = _find_go_type(shape, path)
    if by_schema:
        plain = "integer" if wanted == "int32" else {"bool": "boolean"}.get(wanted, wanted)
        why = f'Invalid value: "{got}": {path} in body must be of type {plain}: "{got}"'
        message = f"{invalid(kind, name, path, why).message}"
        head, _, first = message.partition(" is invalid: ")
        return ApiError(422, "Invalid", f"{head} is invalid: [{first}, {UNCHECKED_RULES}]")
    field = re.sub(r"\[.*?\]", "", path)
    return unreadable(kind, f"json: cannot unmarshal {got} into Go struct field {owner}.{field} of type {wanted}")


def _find_go_type(shape: type, path: str) -> tuple[str, str]:
    """Return the Go name of the struct that holds a field, and of the field's type."""
    found = msgspec.inspect.type_info(shape)
    owner = ""
    for segment in re.findall(r"\[[^\]]*\]|[^.\[\]]+", path):
        if isinstance(found, msgspec.inspect.StructType):
            owner = _go_name(found)
            found = _only(next(each.type for each in found.fields if each.encode_name == segment))
        elif isinstance(found, msgspec.inspect.ListType):
            found = _only(found.item_type)
        elif isinstance(found, msgspec.inspect.DictType):
            found = _only(found.value_type)
    return owner, _go_type(found)


def _only(found: msgspec.inspect.Type) -> msgspec.inspect.Type:
    """Return the type that is not null."""
    if isinstance(found, msgspec.inspect.UnionType):
        return next(each for each in found.types if not isinstance(each, msgspec.inspect.NoneType))
    return found


def _go_name(found: msgspec.inspect.StructType) -> str:
    name = found.cls.__name__.removesuffix("View")
    return _GO_NAMES.get(name, name)


def _go_type(found: msgspec.inspect.Type) -> str:
    if isinstance(found, msgspec.inspect.ListType):
        return f"[]{_go_type(_only(found.item_type))}"
    if isinstance(found, msgspec.inspect.StructType):
        return f"v1.{_go_name(found)}"
    return _LEAVES.get(type(found), "string")
