"""Compares a recorded answer with a stand-in's, value by value.

What differs from one run to the next is masked on both sides. A path that a table allows to differ
is left out; the table says why.
"""

import re
from collections.abc import Iterable
from typing import Any

_MASKS = {
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)": "TIME",
    r"operation-[0-9a-z-]+": "OPERATION",
    r"projects/\d+": "projects/NUMBER",
    r"\bgke-[a-z0-9-]+-[0-9a-f]{8}\b": "gke-GROUP",
    r"\d+\.\d+\.\d+-gke\.\d+": "VERSION",
    r"(googleapis\.com(/compute)?)/(v1|v1beta1|beta)/": r"\1/API/",
    r"abcdef0123A=|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}": "ETAG",
}
_NONE = ...  # no JSON value


def compare(recorded: Any, ours: Any, allowed: Iterable[str]) -> list[str]:
    """Return how our answer differs from a recorded one, but for paths that are `allowed` to."""
    one, other = flatten(recorded), flatten(ours)
    pairs = ((path, one.get(path, _NONE), other.get(path, _NONE)) for path in sorted({*one, *other}))
    return [
        f"{path}: recorded {there!r}, ours {here!r}"
        for path, there, here in pairs
        if mask(there) != mask(here) and not is_below(path, allowed)
    ]


def flatten(value: Any, path: str = "") -> dict[str, Any]:
    """Return what a JSON value has inside, each by its path."""
    if isinstance(value, dict) and value:
        parts = [(f"{path}.{key}".removeprefix("."), below) for key, below in value.items()]
    elif isinstance(value, list) and value:
        parts = [(f"{path}[{at}]", below) for at, below in enumerate(value)]
    else:
        return {path: value}
    return {leaf: inside for below, each in parts for leaf, inside in flatten(each, below).items()}


def is_below(path: str, paths: Iterable[str]) -> bool:
    """Return whether a path is one of these, or below one of them; of a list, any item counts."""
    path = re.sub(r"\[\d+\]", "[]", path)
    return any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in paths)


def mask(value: Any) -> Any:
    """Return a value; in a text, what no two runs share is replaced by its kind."""
    if isinstance(value, str):
        for pattern, masked in _MASKS.items():
            value = re.sub(pattern, masked, value)
    return value
