"""The part of the Logging query language that is understood: comparisons of fields, joined by AND.

Comparisons in parentheses may be joined by OR, and so may the values of one with ``=``. Everything
else (other uses of OR, NOT, functions, bare words) is refused by name, never ignored.
https://cloud.google.com/logging/docs/view/logging-query-language
"""

import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

_TEXT = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(
    r"\s*(?P<path>[A-Za-z_][A-Za-z0-9_.-]*)\s*"
    rf'(?:(?P<operator>!=|>=|<=|=|:|>|<)\s*(?P<value>{_TEXT}|[^\s()"]+)|=\s*\((?P<values>{_TEXT}(?:\s+OR\s+{_TEXT})*)\))'
)
_OPEN, _OR, _CLOSE = re.compile(r"\s*\("), re.compile(r"\s+OR\s+"), re.compile(r"\s*\)")
_AND = re.compile(r"\s+(AND\s+)?|\s*\n\s*")
SEVERITIES = ("DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY")
VALID = 'comparisons such as jsonPayload.reason="x", joined by AND'


class BadFilter(Exception):
    """The filter cannot be read; the text says where."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One ``path operator value``, or ``path = (value OR value)``."""

    path: str
    operator: str
    value: str
    others: tuple[str, ...] = ()
    """Further values, of which one is enough; with ``=`` only."""

    def holds(self, entry: dict[str, Any]) -> bool:
        """Return whether an entry fits; a field that it does not have fits nothing but ``!=``."""
        found = _find(entry, self.path)
        if found is None:
            return self.operator == "!="
        if (self.operator, self.value) == (":", "*"):
            return True
        if self.operator in ("=", ":", "!="):
            text = _text(found)
            same = text in (self.value, *self.others) if self.operator != ":" else self.value in text
            return same != (self.operator == "!=")
        left, right = _rank(self.path, _text(found)), _rank(self.path, self.value)
        return {">": left > right, ">=": left >= right, "<": left < right, "<=": left <= right}[self.operator]


@dataclass(frozen=True, slots=True)
class Either:
    """``(comparison OR comparison)``."""

    several: tuple[Comparison, ...]

    def holds(self, entry: dict[str, Any]) -> bool:
        """Return whether an entry fits one of them."""
        return any(each.holds(entry) for each in self.several)


def parse_filter(text: str) -> list[Comparison | Either]:
    """Return the comparisons that must all hold; none for an empty filter.

    Raises BadFilter: something in it is not understood here.
    """
    found: list[Comparison | Either] = []
    position = 0
    while text[position:].strip():
        if found:
            position = _pass(_AND, text, position)
        if _OPEN.match(text, position) is None:
            comparison, position = _read(text, position)
            found.append(comparison)
            continue
        several, joint = list[Comparison](), _OPEN
        while joint.match(text, position):
            comparison, position = _read(text, _pass(joint, text, position))
            several.append(comparison)
            joint = _OR
        position = _pass(_CLOSE, text, position)
        found.append(Either(tuple(several)))
    return found


def _pass(expected: re.Pattern[str], text: str, position: int) -> int:
    """Return the position behind what is expected."""
    passed = expected.match(text, position)
    if passed is None:
        raise BadFilter(f"filter: not understood at {text[position:].strip()[:40]!r}; valid: {VALID}")
    return passed.end()


def _read(text: str, position: int) -> tuple[Comparison, int]:
    """Return one comparison, and the position behind it."""
    token = _TOKEN.match(text, position)
    if token is None or token["path"] in ("OR", "NOT"):
        raise BadFilter(f"filter: not understood at {text[position:].strip()[:40]!r}; valid: {VALID}")
    values = re.findall(_TEXT, token["values"]) if token["values"] else [token["value"]]
    value, *others = map(_unquote, values)
    comparison = Comparison(token["path"], token["operator"] or "=", value, tuple(others))
    _rank(comparison.path, comparison.value)
    return comparison, token.end()


def _unquote(text: str) -> str:
    return str(json.loads(text)) if text.startswith('"') else text


def _find(entry: dict[str, Any], path: str) -> Any:
    found: Any = entry
    for part in path.split("."):
        if not isinstance(found, dict) or part not in found:
            return None
        found = found[part]
    return found


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value)


def _rank(path: str, text: str) -> tuple[float, str]:
    """Return what a value is ordered by.

    Moments by time, severities by weight, everything else as text.
    """
    if path == "timestamp":
        try:
            return datetime.fromisoformat(text).timestamp(), ""
        except ValueError as error:
            raise BadFilter(f"filter: timestamp: not RFC 3339 (got {text!r})") from error
    if path == "severity":
        if text not in SEVERITIES:
            raise BadFilter(f"filter: severity: unknown (got {text!r}); valid: {', '.join(SEVERITIES)}")
        return float(SEVERITIES.index(text)), ""
    return 0.0, text
