"""Finds in an object what the API server would refuse, and names the key: before it is read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from shared.model.labels import GPU_RESOURCE, TPU_RESOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHOWN_MAX = 60
_TEXTS = ("labels", "annotations", "nodeSelector", "matchLabels")
"""Fields whose values are texts wherever they are."""
_COUNTS = (
    *("replicas", "minReplicas", "maxReplicas", "numOfHosts", "parallelism", "completions"),
    *("size", "subGroupSize", "numSlices"),
)
_AMOUNTS = ("limits", "requests")


class WrongField(ValueError):
    """A field of an object is missing or wrong; the text names it, its value and what is valid."""

    def __init__(self, field: str, got: Any, valid: str) -> None:
        shown = got if isinstance(got, str) else json.dumps(got, ensure_ascii=False, default=str)
        what = "is missing" if got is None else f"is not valid (got {shown[:_SHOWN_MAX]!r})"
        super().__init__(f"{field}: {what}; valid: {valid}")


def without_nulls(body: dict[str, Any]) -> dict[str, Any]:
    """Return an object without its keys whose value is null: the API server drops them too."""
    return {key: _drop(value) for key, value in body.items() if value is not None}


def _drop(value: Any) -> Any:
    if isinstance(value, dict):
        return without_nulls(value)
    return [_drop(each) for each in value] if isinstance(value, list) else value


def check_object(body: dict[str, Any]) -> None:
    """Accept an object whose labels are texts, and whose counts and amounts are not negative.

    Raises:
        WrongField: it names the key.
    """
    for path, key, value in _walk(body, ""):
        if key in _TEXTS and isinstance(value, dict):
            _check_texts(f"{path}{key}", value)
        elif key in _COUNTS and isinstance(value, int) and value < 0:
            raise WrongField(f"{path}{key}", value, "0 or more")
        elif key in _AMOUNTS and isinstance(value, dict):
            _check_amounts(f"{path}{key}", value)


def _check_texts(path: str, texts: dict[str, Any]) -> None:
    for key, value in texts.items():
        if not isinstance(value, str):
            shown = json.dumps(value, ensure_ascii=False, default=str)[:_SHOWN_MAX]
            raise WrongField(f"{path}.{key}", value, f'a text, so write it in quotes: "{shown}"')


def _check_amounts(path: str, amounts: dict[str, Any]) -> None:
    for key, value in amounts.items():
        if str(value).startswith("-"):
            raise WrongField(f"{path}.{key}", value, "0 or more")


def find_requests(body: dict[str, Any]) -> bool:
    """Return whether some container of an object of any kind asks for TPUs or GPUs."""
    return any(
        key in _AMOUNTS and isinstance(value, dict) and (TPU_RESOURCE in value or GPU_RESOURCE in value)
        for _, key, value in _walk(body, "")
    )


def find_texts(body: dict[str, Any], field: str) -> list[str]:
    """Return every text of a field of this name in an object."""
    return [value for _, key, value in _walk(body, "") if key == field and isinstance(value, str)]


def _walk(value: Any, path: str) -> Iterator[tuple[str, str, Any]]:
    """Yield each key of an object with the path before it and its value."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield path, key, each
            yield from _walk(each, f"{path}{key}.")
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _walk(each, f"{path.removesuffix('.')}[{number}].")
