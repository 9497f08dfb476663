"""Partial answers.

The `fields` query parameter of Google's REST APIs, such as `nodePools(name,config/labels)`.

Grammar: https://cloud.google.com/kubernetes-engine/docs/reference/rest and the system parameter
`$fields`. Pure.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from standins.fakegke.errors import invalid_field

Mask: TypeAlias = "dict[str, Mask]"
_TOKEN = re.compile(r"[A-Za-z0-9_*$-]+|[(),/.]")


def select_fields(body: dict[str, Any], text: str) -> dict[str, Any]:
    """Return only what the mask names; raises GkeError (INVALID_ARGUMENT) for a malformed mask."""
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != text.replace(" ", ""):
        raise invalid_field("fields", text, "A list like name,config/labels or nodePools(name,status) is wanted.")
    mask = _parse(tokens, text)
    if tokens:
        raise invalid_field("fields", text, "A parenthesis is closed that was not opened.")
    return dict(_select(body, mask))


def _parse(tokens: list[str], text: str) -> Mask:
    mask: Mask = {}
    while tokens and tokens[0] != ")":
        _parse_path(tokens, mask, text)
        if tokens and tokens[0] == ",":
            tokens.pop(0)
    return mask


def _parse_path(tokens: list[str], mask: Mask, text: str) -> None:
    name = tokens.pop(0)
    if name in "(),/.":
        raise invalid_field("fields", text, f"A field name is missing before {name!r}.")
    inner = mask.setdefault(name, {})
    if tokens and tokens[0] in "/.":
        tokens.pop(0)
        if not tokens:
            raise invalid_field("fields", text, "A field name is missing at the end.")
        _parse_path(tokens, inner, text)
    elif tokens and tokens[0] == "(":
        tokens.pop(0)
        inner.update(_parse(tokens, text))
        if not tokens:
            raise invalid_field("fields", text, "A parenthesis is not closed.")
        tokens.pop(0)


def _select(value: Any, mask: Mask) -> Any:
    if not mask or "*" in mask:
        return value
    if isinstance(value, list):
        return [_select(item, mask) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: _select(value[key], inner) for key, inner in mask.items() if key in value}
