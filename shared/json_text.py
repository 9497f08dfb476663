"""Names what msgspec raises for a text from outside that is not the JSON that was expected."""

from __future__ import annotations

import re

import msgspec

JSON_ERRORS = (msgspec.DecodeError, UnicodeError, RecursionError)
"""Not JSON, or of another shape; not UTF-8; nested more deeply than the stack, which takes about
1,000 levels."""

_WRONG_TYPE = re.compile(r"Expected `([^`]+)`, got `([^`]+)`(?: - at `([^`]+)`)?")
_MISSING = re.compile(r"Object missing required field `([^`]+)`(?: - at `([^`]+)`)?")
_NO_CHOICE = re.compile(r"Invalid enum value '?([^'`]*)'?(?: - at `([^`]+)`)?")
_NO_BASE64 = re.compile(r"Invalid base64 encoded string - at `([^`]+)`")
_BYTE = re.compile(r"\(byte (\d+)\)")
_TYPES = {
    "object": "a map",
    "array": "a list",
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
}


def describe_json_error(error: Exception) -> str:
    """Return what is wrong with a text, in our words, for one of `JSON_ERRORS`."""
    text = str(error)
    if isinstance(error, UnicodeError):
        return "it is not UTF-8"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if not isinstance(error, msgspec.ValidationError):
        byte = _BYTE.search(text)
        return (
            f"it is not JSON (see character {int(byte[1]) + 1})"
            if byte
            else "it is not JSON, or not all of it"
        )
    return _describe_shape(text)


def _describe_shape(text: str) -> str:
    """Return in our words what msgspec finds wrong with the shape of a JSON text."""
    if wrong := _WRONG_TYPE.fullmatch(text):
        return (
            f"{_name_place(wrong[3])} must be {_name_types(wrong[1])}, not {_name_types(wrong[2])}"
        )
    if strange := _NO_CHOICE.fullmatch(text):
        return f"{_name_place(strange[2])} cannot be {strange[1]!r}"
    if damaged := _NO_BASE64.fullmatch(text):
        return f"{_name_place(damaged[1])} is not base64"
    if missing := _MISSING.fullmatch(text):
        return f"{_name_place(missing[2])} lacks the key {missing[1]!r}"
    return text


def _name_place(path: str | None) -> str:
    """Return a path of msgspec, for example ``$[...].endpoint``, as people write it."""
    shown = (path or "$").removeprefix("$").replace("[...]", ".a value").lstrip(".")
    return shown or "it"


def _name_types(types: str) -> str:
    return " or ".join(_TYPES.get(each, each) for each in types.split(" | "))
