"""Label and field selectors of a query: how they are read.

Grammar of label selectors: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#api
Which fields a kind can be selected by is in `kinds`, and what a condition matches in `fitting`.
"""

import re
from collections.abc import Iterable, Iterator

from standins.cluster.refusals import bad_request
from standins.kit.fitting import Requirement

Selector = tuple[Requirement, ...]
"""All conditions of a selector; the empty one matches everything."""

_KEY = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9.]*[A-Za-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?|"
_SET = re.compile(rf"^({_KEY})\s+(in|notin)\s*\(([^()]*)\)$")
_EQUAL = re.compile(rf"^({_KEY})\s*(==|=|!=)\s*({_VALUE})$")
_EXISTS = re.compile(rf"^(!?)\s*({_KEY})$")
_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^(]*\))")
_FIELD = re.compile(r"^([^=!]+?)(==|!=|=)(.*)$")
_OPERATORS = {
    "in": "In",
    "notin": "NotIn",
    "=": "In",
    "==": "In",
    "!=": "NotIn",
    "": "Exists",
    "!": "DoesNotExist",
}


def parse_labels(text: str) -> Selector:
    """Return the conditions of a `labelSelector` query.

    Raises ApiError: 400, naming the part that cannot be read.
    """
    parts = [part.strip() for part in _COMMA_OUTSIDE_PARENTHESES.split(text)] if text.strip() else []
    return tuple(map(_read_part, parts))


def _read_part(part: str) -> Requirement:
    if found := _SET.match(part):
        return Requirement(found[1], _OPERATORS[found[2]], tuple(value.strip() for value in found[3].split(",")))
    if found := _EQUAL.match(part):
        return Requirement(found[1], _OPERATORS[found[2]], (found[3],))
    if found := _EXISTS.match(part):
        return Requirement(found[2], _OPERATORS[found[1]])
    raise bad_request(
        f'unable to parse requirement: labelSelector part "{part}" is none of key=value, key!=value, '
        "key in (a,b), key notin (a,b), key, !key"
    )


def parse_fields(text: str, selectable: Iterable[str]) -> Selector:
    """Return the conditions of a `fieldSelector` query.

    Raises ApiError: 400, for another form than `=`, `==`, `!=`, or a field that is not selectable.
    """
    return tuple(_read_fields(text, tuple(selectable)))


def _read_fields(text: str, selectable: tuple[str, ...]) -> Iterator[Requirement]:
    for part in filter(None, text.split(",")):
        found = _FIELD.match(part)
        if found is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        key, operator, value = found[1].strip(), found[2], found[3]
        if key not in selectable:
            raise bad_request(f'field label not supported: "{key}"; supported: {", ".join(sorted(selectable))}')
        yield Requirement(key, _OPERATORS[operator], (value,))
