"""Reads the API's JSON without trusting it: a field of a wrong type is an `UnexpectedValue`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from shared.model.times import bound_count, parse_count, parse_time

Json = Mapping[str, Any]
T = TypeVar("T")
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
"""Decimal, without leading zeros, as controllers write it into names and labels."""


class UnexpectedValue(ValueError):
    """A field of an object has a type that the API's schema does not allow."""

    def __init__(self, path: str, value: object, expected: str) -> None:
        super().__init__(f"{path}: is not valid (got {str(value)[:80]!r}); valid: {expected}")


def _read(body: Json, path: tuple[str, ...], kind: type[T], expected: str) -> T | None:
    value: Any = body
    for depth, key in enumerate(path):
        if not isinstance(value, dict):
            raise UnexpectedValue(".".join(path[:depth]), value, "an object")
        if (value := value.get(key)) is None:
            return None
    # In Python a truth value is a whole number; in the API it is not.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UnexpectedValue(".".join(path), value, expected)
    return value


def text(body: Json, *path: str) -> str:
    """Return a text; empty when it is absent."""
    return _read(body, path, str, "a text") or ""


def number(body: Json, *path: str, default: int = 0) -> int:
    """Return a whole number within the bounds of `counts`, or `default` when it is absent."""
    number = _read(body, path, int, "a whole number")
    return default if number is None else bound_count(number)


def flag(body: Json, *path: str) -> bool:
    """Return a truth value; False when it is absent."""
    return bool(_read(body, path, bool, "true or false"))


def fields(body: Json, *path: str) -> Json:
    """Return an object; empty when it is absent."""
    return _read(body, path, dict, "an object") or {}


def texts(body: Json, *path: str) -> dict[str, str]:
    """Return an object whose values are texts, for example labels; empty when it is absent."""
    texts = fields(body, *path)
    for key, value in texts.items():
        if not isinstance(value, str):
            raise UnexpectedValue(".".join((*path, key)), value, "a text")
    return dict(texts)


def objects(body: Json, *path: str) -> list[Json]:
    """Return a list of objects; empty when it is absent."""
    objects: list[Any] = _read(body, path, list, "a list") or []
    for each in objects:
        if not isinstance(each, dict):
            raise UnexpectedValue(".".join(path), each, "an object")
    return objects


def surge(body: Json, *path: str, replicas: int, default: int | str) -> int:
    """Return ``maxSurge`` of an update: a number, or a percentage of replicas, rounded up."""
    value = fields(body, *path).get("maxSurge", default)
    if isinstance(value, int) and not isinstance(value, bool):
        return max(bound_count(value), 0)
    digits, sign, end = str(value).partition("%")
    percent = parse_count(digits) if sign and not end else None
    if percent is None:
        field = ".".join((*path, "maxSurge"))
        raise UnexpectedValue(field, value, "a whole number or a percentage")
    return bound_count(-(-replicas * percent // 100))


def controller(body: Json) -> Json:
    """Return the reference to what controls an object; empty without one."""
    owners = objects(body, "metadata", "ownerReferences")
    return next((each for each in owners if flag(each, "controller")), {})


def suspend_writes(body: Json) -> list[Json]:
    """Return the API server's records of the programs that wrote ``spec.suspend``."""
    records = objects(body, "metadata", "managedFields")
    return [each for each in records if "f:suspend" in fields(each, "fieldsV1", "f:spec")]


def suspend_set_at(body: Json) -> float | None:
    """Return when ``spec.suspend`` was last written, or later: a record has one time for all of it.

    https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
    """
    times = [parse_time(text(each, "time")) for each in suspend_writes(body)]
    return max(filter(None, times), default=None)


def held_conditions(body: Json, status: str = "True") -> dict[str, float | None]:
    """Return the conditions of one status, with the unix seconds of their last transition."""
    return {
        text(each, "type"): parse_time(text(each, "lastTransitionTime"))
        for each in objects(body, "status", "conditions")
        if text(each, "status") == status
    }


def parse_index(text: str) -> int | None:
    """Return the number of an index; None for any other text."""
    return int(text) if _INDEX.fullmatch(text) else None


def is_index_below(text: str, count: int) -> bool:
    """Return whether a text is an index below `count`."""
    return bool(_INDEX.fullmatch(text)) and int(text) < count
