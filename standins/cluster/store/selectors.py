"""Label and field selectors: how they are read and what they match.

Grammar of label selectors: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#api
Which fields a kind can be selected by is in `store.kinds`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from standins.cluster.store.errors import bad_request

_KEY = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9.]*[A-Za-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?|"
_SET = re.compile(rf"^({_KEY})\s+(in|notin)\s*\(([^()]*)\)$")
_EQUAL = re.compile(rf"^({_KEY})\s*(==|=|!=)\s*({_VALUE})$")
_EXISTS = re.compile(rf"^(!?)\s*({_KEY})$")
_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^(]*\))")
_FIELD = re.compile(r"^([^=!]+?)(==|!=|=)(.*)$")

_STRUCTURED_OPERATORS = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "absent",
    "Gt": ">",
    "Lt": "<",
}


@dataclass(frozen=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels fulfil this condition; `notin` also accepts an absent label."""
        value = labels.get(self.key)
        if self.operator == "in":
            return value is not None and value in self.values
        if self.operator == "notin":
            return value is None or value not in self.values
        if self.operator == "exists":
            return value is not None
        if self.operator == "absent":
            return value is None
        return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        if value is None or not re.fullmatch(r"-?\d+", value):
            return False
        bound = int(next(iter(self.values)))
        return int(value) > bound if self.operator == ">" else int(value) < bound


@dataclass(frozen=True)
class Selector:
    """All conditions of a label selector; the empty one matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether all conditions hold."""
        return all(requirement.matches(labels) for requirement in self.requirements)


EVERYTHING = Selector()


def parse_labels(text: str) -> Selector:
    """Return the selector of a `labelSelector` query.

    Raises ApiError: 400, naming the part that cannot be read.
    """
    parts = [part.strip() for part in _COMMA_OUTSIDE_PARENTHESES.split(text)] if text.strip() else []
    return Selector(tuple(_requirement(part) for part in parts))


def _requirement(part: str) -> Requirement:
    if found := _SET.match(part):
        values = frozenset(value.strip() for value in found[3].split(","))
        return Requirement(found[1], found[2], values)
    if found := _EQUAL.match(part):
        return Requirement(found[1], "notin" if found[2] == "!=" else "in", frozenset({found[3]}))
    if found := _EXISTS.match(part):
        return Requirement(found[2], "absent" if found[1] else "exists")
    raise bad_request(
        f'unable to parse requirement: labelSelector part "{part}" is none of key=value, key!=value, '
        "key in (a,b), key notin (a,b), key, !key"
    )


def parse_structured(selector: Mapping[str, Any] | None) -> Selector | None:
    """Return the selector of a `metav1.LabelSelector`; None stays None, which matches nothing."""
    if selector is None:
        return None
    equal = [Requirement(key, "in", frozenset({value})) for key, value in selector.get("matchLabels", {}).items()]
    return Selector((*equal, *parse_expressions(selector.get("matchExpressions", []))))


def parse_expressions(expressions: Iterable[Mapping[str, Any]]) -> tuple[Requirement, ...]:
    """Return the conditions of `matchExpressions`, of label selectors and node selector terms."""
    found = []
    for expression in expressions:
        operator = _STRUCTURED_OPERATORS.get(expression["operator"])
        if operator is None:
            valid = ", ".join(_STRUCTURED_OPERATORS)
            raise bad_request(f'matchExpressions operator "{expression["operator"]}" is not valid; valid: {valid}')
        found.append(Requirement(expression["key"], operator, frozenset(expression.get("values") or ())))
    return tuple(found)


def parse_fields(text: str, selectable: Iterable[str]) -> Selector:
    """Return the selector of a `fieldSelector` query.

    Raises ApiError: 400, for another form than `=`, `==`, `!=`, or a field that is not selectable.
    """
    requirements = []
    for part in filter(None, text.split(",")):
        found = _FIELD.match(part)
        if found is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        key, operator, value = found[1].strip(), found[2], found[3]
        if key not in selectable:
            raise bad_request(f'field label not supported: "{key}"; supported: {", ".join(sorted(selectable))}')
        requirements.append(Requirement(key, "notin" if operator == "!=" else "in", frozenset({value})))
    return Selector(tuple(requirements))
