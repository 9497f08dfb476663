"""What msgspec finds wrong with the shape of plain data, in our own words."""

import re
import typing
from typing import Any

_PLACE = re.compile(r"(.*?)(?: - at `\$\.?([^`]*)`)?")
_TYPE = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")
_FIELD = re.compile(r"Object (contains unknown|missing required) field `([^`]+)`")
_CHOICE = re.compile(r"Invalid enum value (.*)")
_TYPES = {
    "object": "a mapping",
    "array": "a list",
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
}


def describe_shape(error: Exception, kind: type[Any]) -> str:
    """Return what is wrong with data that should be of this kind: the field, and what it may be."""
    found = _PLACE.fullmatch(str(error))
    message, place = (found[1], found[2]) if found else (str(error), "")
    name = place or "it"
    if wrong := _TYPE.fullmatch(message):
        return f"{name} must be {_name_types(wrong[1])}, not {_name_types(wrong[2])}"
    if field := _FIELD.fullmatch(message):
        return f"{name} {'has no' if field[1] == 'contains unknown' else 'needs the'} field {field[2]!r}"
    if strange := _CHOICE.fullmatch(message):
        choices = typing.get_args(typing.get_type_hints(kind).get(place))
        valid = f"; valid: {', '.join(map(str, choices))}" if choices else ""
        return f"{name} cannot be {strange[1]}{valid}"
    return f"{name} is not valid"


def _name_types(types: str) -> str:
    return " or ".join(_TYPES.get(each, each) for each in types.split(" | "))
