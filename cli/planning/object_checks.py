"""Finds in an object what the API server would refuse, and names the key: before it is read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SHOWN_MAX = 60
_TEXTS = ("labels", "annotations", "nodeSelector", "matchLabels", "rayStartParams")
"""Fields whose values are objects of texts wherever they are."""
_TEXT = frozenset(
    {
        *("name", "namespace", "generateName", "image", "value", "key", "operator", "effect"),
        *("claimName", "secretName", "serviceAccountName", "priorityClassName", "schedulerName"),
        *("mountPath", "subPath", "hostname", "subdomain", "restartPolicy", "groupName"),
    }
)
"""Fields that are texts wherever they are."""
_LISTS = ("command", "args")
"""Fields that are lists of texts wherever they are."""
_COUNTS = (
    *("replicas", "minReplicas", "maxReplicas", "numOfHosts", "parallelism", "completions"),
    *("size", "subGroupSize", "numSlices"),
)
_AMOUNTS = ("limits", "requests")


class WrongField(ValueError):
    """A field of an object is missing or wrong; the text names it, its value and what is valid."""

    def __init__(self, field: str, got: Any, valid: str) -> None:
        self.field = field
        shown = got if isinstance(got, str) else json.dumps(got, ensure_ascii=False, default=str)
        what = "is missing" if got is None else f"is not valid (got {shown[:_SHOWN_MAX]!r})"
        super().__init__(f"{field}: {what}; valid: {valid}")


class NotText(WrongField):
    """A field has a boolean or a number, as YAML reads it, in place of a text."""

    def __init__(self, field: str, got: Any, written: str = "") -> None:
        super().__init__(field, got, "a text")
        self.got = got
        self._written = written or json.dumps(got)

    def __str__(self) -> str:
        what = "boolean" if isinstance(self.got, bool) else "number"
        shown = self._written[:_SHOWN_MAX]
        return f'{self.field}: {shown} is a {what} in YAML; write it in quotes: "{shown}"'

    def show(self, written: str) -> NotText:
        """Return it with the text of the file."""
        return NotText(self.field, self.got, written)


def without_nulls(body: dict[str, Any]) -> dict[str, Any]:
    """Return an object without its keys whose value is null: the API server drops them too."""
    return {key: _drop(value) for key, value in body.items() if value is not None}


def _drop(value: Any) -> Any:
    if isinstance(value, dict):
        return without_nulls(value)
    return [_drop(each) for each in value] if isinstance(value, list) else value


def check_object(body: dict[str, Any]) -> None:
    """Accept an object whose labels are texts, and whose counts and amounts are not negative."""
    for path, key, value in walk(body):
        _check_texts(path, dict(_list_texts(key, value)))
        if key in _COUNTS and isinstance(value, int) and value < 0:
            raise WrongField(f"{path}{key}", value, "0 or more")
        if key in _AMOUNTS and isinstance(value, dict):
            _check_amounts(f"{path}{key}", value)


def _list_texts(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values of a field that have to be texts, each with its path."""
    if key in _TEXTS and isinstance(value, dict):
        yield from ((f"{key}.{name}", each) for name, each in value.items())
    elif key in _TEXT and not isinstance(value, dict):  # the image of a volume is an object
        yield key, value
    elif key in _LISTS and isinstance(value, list):
        yield from ((f"{key}[{number}]", each) for number, each in enumerate(value))


def _check_texts(path: str, texts: dict[str, Any]) -> None:
    for key, value in texts.items():
        if isinstance(value, bool | int | float):
            raise NotText(f"{path}{key}", value)
        if not isinstance(value, str):
            raise WrongField(f"{path}{key}", value, "a text")


def _check_amounts(path: str, amounts: dict[str, Any]) -> None:
    for key, value in amounts.items():
        if str(value).startswith("-"):
            raise WrongField(f"{path}.{key}", value, "0 or more")


def find_texts(body: Mapping[str, Any], field: str) -> list[str]:
    """Return every text of a field of this name in an object."""
    return [value for _, key, value in walk(body) if key == field and isinstance(value, str)]


def walk(value: Any, path: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield each key of an object with the path before it and its value."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield path, key, each
            yield from walk(each, f"{path}{key}.")
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from walk(each, f"{path.removesuffix('.')}[{number}].")
