"""Compares a recorded answer with a stand-in's, field by field.

What differs from one run to the next is masked on both sides. A field that a table allows to differ
is left out; the table says why.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_MASKS = tuple(
    (re.compile(pattern), mask)
    for pattern, mask in (
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", "TIME"),
        (r"operation-[0-9a-z-]+", "OPERATION"),
        (r"projects/\d+", "projects/NUMBER"),
        (r"\bgke-[a-z0-9-]+-[0-9a-f]{8}\b", "gke-GROUP"),
        (r"\d+\.\d+\.\d+-gke\.\d+", "VERSION"),
        (r"(googleapis\.com(/compute)?)/(v1|v1beta1|beta)/", r"\1/API/"),
        (r"abcdef0123A=|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ETAG"),
    )
)


_SHOWN_MAX = 2


def compare(recorded: Any, ours: Any, allowed: Mapping[str, str]) -> list[str]:
    """Return how our answer differs from a recorded one, but for paths that are `allowed` to."""
    found = find_differences(recorded, ours)
    return [f"{path}: {text}" for path, text in found if not is_below(path, allowed)]


def gather(differences: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return each difference once, with the names of the first exchanges that show it."""
    found: dict[str, list[str]] = {}
    for name, text in differences:
        shown = found.setdefault(mask(text), [])
        if len(shown) < _SHOWN_MAX:
            shown.append(name)
    return found


def is_below(path: str, paths: Iterable[str]) -> bool:
    """Return whether a path is one of these, or below one of them."""
    return any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in paths)


def mask(text: str) -> str:
    """Return a text with the parts that no two runs share replaced by their kind."""
    for pattern, masked in _MASKS:
        text = pattern.sub(masked, text)
    return text


def find_differences(recorded: Any, ours: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield where and how two JSON values differ."""
    if isinstance(recorded, dict) and isinstance(ours, dict):
        for key in sorted({*recorded, *ours}):
            below = f"{path}.{key}".removeprefix(".")
            if key not in ours:
                yield below, f"recorded {recorded[key]!r}, not in ours"
            elif key not in recorded:
                yield below, f"not recorded, ours {ours[key]!r}"
            else:
                yield from find_differences(recorded[key], ours[key], below)
    elif isinstance(recorded, list) and isinstance(ours, list) and len(recorded) == len(ours):
        for one, other in zip(recorded, ours, strict=True):
            yield from find_differences(one, other, f"{path}[]")
    elif _masked(recorded) != _masked(ours):
        yield path, f"recorded {recorded!r}, ours {ours!r}"


def _masked(value: Any) -> Any:
    return mask(value) if isinstance(value, str) else value
