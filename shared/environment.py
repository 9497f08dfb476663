"""Reads settings from environment variables, for the functions, the exporter and the command line.

A settings class is a dataclass. Each field is one variable: its type, its rules (`Valid`) and its
default are read from the class. A wrong setting stops the start: `Misconfigured` names every wrong,
missing or unknown variable, and what is valid.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import json
import typing
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from shared.capacity_texts import CapacityPolicy, UnreadableList, read_policies
from shared.json_text import JSON_ERRORS, describe_json_error
from shared.model.errors import Misconfigured
from shared.settings import Settings, Valid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PREFIX = "TPU_PROVISIONER_"
_SHOWN_LENGTH_MAX = 80
_TEXT_LENGTH_MAX = 300
_VALID_OF_TYPE = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    tuple: "a comma-separated list, or a JSON list of texts",
    dict: "a JSON object",
}

S = TypeVar("S")


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Return the functions' settings."""
    return read(environ, Settings)


def read(environ: Mapping[str, str], kind: type[S]) -> S:
    """Return one settings class from the variables ``TPU_PROVISIONER_<FIELD>``.

    Lists are comma-separated or JSON. Maps are JSON.
    """
    settings: S = read_all(environ, kind)[0]
    return settings


def read_all(environ: Mapping[str, str], *kinds: type[Any]) -> list[Any]:
    """Return several settings classes from one environment, which may hold the variables of all."""
    pairs = [_read_fields(environ, kind) for kind in kinds]
    # A field that two classes have is read twice, and its problem is shown once.
    problems = dict.fromkeys(
        [*_list_unknown(environ, *kinds), *(each for _, errors in pairs for each in errors)]
    )
    if problems:
        raise Misconfigured(tuple(problems))
    return [settings for settings, _ in pairs]


def name_variable(field: str) -> str:
    """Return the name of the environment variable that sets a field."""
    return f"{PREFIX}{field.upper()}"


def describe_problem(name: str, what: str, got: str | None = None, valid: str = "") -> str:
    """Return one problem in the form ``NAME: what is wrong (got 'value'); valid: …``."""
    shown = "" if got is None else f" (got {got[:_SHOWN_LENGTH_MAX]!r})"
    return f"{_shorten(name)}: {_shorten(what)}{shown}{f'; valid: {valid}' if valid else ''}"


def _shorten(text: str) -> str:
    """Return a text that may quote what was given, on one line of bounded length."""
    shown = text if len(text) <= _TEXT_LENGTH_MAX else f"{text[:_TEXT_LENGTH_MAX]}…"
    return shown if shown.isprintable() else shown.encode("unicode_escape").decode()


def explain(kind: type[Any]) -> str:
    """Return a paragraph for each variable of a settings class: name, meaning and default."""
    paragraphs = []
    for field, rules in _list_fields(kind):
        meaning = next((each for each in rules if isinstance(each, str)), "")
        default = "required" if _is_required(field) else f"default: {_show(field.default)}"
        paragraphs.append(f"  {name_variable(field.name)}\n      {meaning} ({default})")
    return "\n".join(paragraphs)


def _list_fields(kind: type[Any]) -> Iterator[tuple[dataclasses.Field[Any], tuple[Any, ...]]]:
    """Yield each field with what its type is annotated with."""
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        yield field, getattr(hints[field.name], "__metadata__", ())


def _read_fields(environ: Mapping[str, str], kind: type[S]) -> tuple[S | None, list[str]]:
    """Return the settings (None if a required one is missing or wrong) and all problems."""
    hints = typing.get_type_hints(kind)
    values: dict[str, Any] = {}
    problems: list[str] = []
    for field, rules in _list_fields(kind):
        name, rule = name_variable(field.name), _find_rule(rules, hints[field.name])
        if name not in environ:
            if _is_required(field):
                problems.append(describe_problem(name, "is required", valid=rule.text))
            continue
        try:
            value = values[field.name] = _convert(environ[name], hints[field.name])
        except (*JSON_ERRORS, UnreadableList) as error:
            what = _describe_error(error, environ[name])
            problems.append(describe_problem(name, what, environ[name], rule.text))
            continue
        if not rule.accepts(value):
            problems.append(describe_problem(name, "is not valid", environ[name], rule.text))
    required = {field.name for field, _ in _list_fields(kind) if _is_required(field)}
    settings = kind(**values) if required <= values.keys() else None
    # Conflicts are looked for even when a field is wrong: the operator sees all problems at once.
    problems += [
        describe_problem(name_variable(conflict.field), conflict.what, valid=conflict.valid)
        for conflict in getattr(settings, "find_conflicts", tuple)()
    ]
    return settings, problems


def _find_rule(rules: tuple[Any, ...], hint: Any) -> Valid:
    """Return the rule that is declared with a field, else that of its type."""
    declared = next((each for each in rules if isinstance(each, Valid)), None)
    return declared or Valid(_name_valid(hint), lambda _: True)


def _describe_error(error: Exception, text: str) -> str:
    if isinstance(error, UnreadableList):
        return f"is not valid: {error}"
    return f"is not valid: {describe_json_error(error)}" if _is_json(text) else "is not valid"


def _convert(text: str, hint: Any) -> Any:
    text.encode()  # raises UnicodeError for bytes that are not UTF-8
    origin = typing.get_origin(hint)
    if origin is dict:
        _refuse_doubled_keys(text)
        _refuse_unknown_keys(text, typing.get_args(hint)[1])
    if hint == tuple[CapacityPolicy, ...]:
        return read_policies(text)
    if origin is dict or (origin is tuple and _is_json(text)):
        return msgspec.json.decode(text.encode(), type=hint, strict=False)
    if origin is tuple:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return msgspec.convert(text, type=hint, strict=False)


def _refuse_doubled_keys(text: str) -> None:
    """Raise for a key that comes twice in one map: msgspec keeps the last one silently."""

    def check(pairs: list[tuple[str, Any]]) -> None:
        for key, times in Counter(key for key, _ in pairs).items():
            if times > 1:
                raise msgspec.ValidationError(f"the key {key!r} comes {times} times")

    with contextlib.suppress(json.JSONDecodeError):  # msgspec says what is wrong with such a text
        json.loads(text, object_pairs_hook=check, parse_int=str)


def _refuse_unknown_keys(text: str, kind: Any) -> None:
    """Raise for a key that the map's values do not have: msgspec itself drops it silently."""
    if not dataclasses.is_dataclass(kind):
        return
    fields = {field.name for field in dataclasses.fields(kind)}
    for name, value in msgspec.json.decode(text.encode(), type=dict[str, dict[str, Any]]).items():
        for key in value.keys() - fields:
            raise msgspec.ValidationError(
                f"{name}: unknown key {key!r}; valid: {', '.join(sorted(fields))}"
            )


def _list_unknown(environ: Mapping[str, str], *kinds: type[Any]) -> list[str]:
    """Return a problem for each variable that has our prefix and is no setting of these classes."""
    names = sorted(
        {name_variable(field.name) for kind in kinds for field in dataclasses.fields(kind)}
    )
    unknown = (name for name in sorted(environ) if name.startswith(PREFIX) and name not in names)
    return [_describe_unknown(name, names) for name in unknown]


def _describe_unknown(name: str, variables: list[str]) -> str:
    near = difflib.get_close_matches(name.upper(), variables, n=1)
    if near:
        return describe_problem(name, f"is not a setting; did you mean {near[0]}?")
    fields = ", ".join(each.removeprefix(PREFIX) for each in variables)
    return describe_problem(name, "is not a setting", valid=f"{PREFIX} and one of {fields}")


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _is_json(text: str) -> bool:
    return text.lstrip().startswith(("[", "{"))


def _name_valid(hint: Any) -> str:
    """Return what a type accepts, in words."""
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return ", ".join(hint)
    return _VALID_OF_TYPE.get(typing.get_origin(hint) or hint, "a text")


def _show(default: Any) -> str:
    return ",".join(default) if isinstance(default, tuple) else str(default) or "empty"
