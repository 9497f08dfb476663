"""The subscription filter language: parsed once at creation, then asked for every message.

Only attributes can be filtered on. The grammar, at most 256 bytes long:
    attributes:KEY | attributes.KEY = "V" | attributes.KEY != "V" | hasPrefix(attributes.KEY, "V")
joined by AND, OR, NOT (or a leading -) and parentheses. A KEY of letters, digits, _ and - may stand
bare, any other key is quoted. See https://cloud.google.com/pubsub/docs/subscription-message-filter
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from standins.pubsub.model.errors import BrokerError, invalid

Predicate = Callable[[Mapping[str, str]], bool]

MAX_FILTER_BYTES = 256

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<word>[A-Za-z0-9_][A-Za-z0-9_-]*)
      | (?P<symbol>!=|[-().,:=])
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    r"""\\(?:u(?P<u>[0-9A-Fa-f]{4})|U(?P<U>[0-9A-Fa-f]{8})|x(?P<x>[0-9A-Fa-f]{2})|(?P<o>[0-7]{3})|(?P<c>.))""",
    re.DOTALL,
)
_SIMPLE_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "'": "'", "\\": "\\"}


@dataclass(frozen=True)
class Filter:
    """Hold a filter's text and the predicate that it means."""

    text: str
    matches: Predicate


def parse_filter(text: str) -> Filter:
    """Return the filter that a text means; an empty text lets every message through.

    A message without the attribute satisfies `!=`. AND and OR may not be mixed without parentheses.

    Raises:
        BrokerError: INVALID_ARGUMENT, naming the place and what would be valid there.
    """
    size = len(text.encode())
    if size > MAX_FILTER_BYTES:
        raise invalid("filter", text, f"at most {MAX_FILTER_BYTES} bytes, this has {size}")
    if not text.strip():
        return Filter(text, lambda _: True)
    parser = _Parser(text)
    predicate = parser.expression()
    parser.expect_end()
    return Filter(text, predicate)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    end = len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            raise invalid(
                "filter",
                text,
                f"a quoted string, a word or one of ( ) . , : = != at position {at}"
                " (a key with other characters than letters, digits, _ and - must be quoted)",
            )
        found.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
        at = match.end()
    return [*found, _Token("end", "", len(text))]


class _Parser:
    """Read a filter by recursive descent, one method per rule of the grammar."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._next = 0

    def expression(self) -> Predicate:
        parts = [self._term()]
        joiner = ""
        while self._peek().text in {"AND", "OR"} and self._peek().kind == "word":
            word = self._take().text
            if joiner and word != joiner:
                raise self._wrong("parentheses around the parts, where AND and OR are mixed")
            joiner = word
            parts.append(self._term())
        return _any_of(parts) if joiner == "OR" else _all_of(parts)

    def expect_end(self) -> None:
        if self._peek().kind != "end":
            raise self._wrong("AND, OR or the end of the filter")

    def _term(self) -> Predicate:
        token = self._peek()
        if (token.kind, token.text) in {("word", "NOT"), ("symbol", "-")}:
            self._take()
            return _negated(self._term())
        if (token.kind, token.text) == ("symbol", "("):
            self._take()
            inner = self.expression()
            self._expect(")")
            return inner
        if token.text == "hasPrefix":
            return self._has_prefix()
        return self._comparison()

    def _has_prefix(self) -> Predicate:
        self._take()
        self._expect("(")
        self._expect("attributes")
        self._expect(".")
        key = self._key()
        self._expect(",")
        prefix = self._string()
        self._expect(")")
        return lambda attributes: key in attributes and attributes[key].startswith(prefix)

    def _comparison(self) -> Predicate:
        self._expect("attributes", "attributes, hasPrefix, NOT or (")
        if self._peek().text == ":":
            self._take()
            key = self._key()
            return lambda attributes: key in attributes
        self._expect(".", ". or : after attributes")
        key = self._key()
        operator = self._take()
        if operator.text not in {"=", "!="}:
            raise self._wrong("= or != after the key", operator)
        value = self._string()
        if operator.text == "=":
            return lambda attributes: attributes.get(key) == value
        return lambda attributes: attributes.get(key) != value

    def _key(self) -> str:
        token = self._take()
        if token.kind == "word":
            return token.text
        if token.kind == "string":
            return self._unquoted(token)
        raise self._wrong("an attribute key", token)

    def _string(self) -> str:
        token = self._take()
        if token.kind != "string":
            raise self._wrong('a value in double quotes, like "com"', token)
        return self._unquoted(token)

    def _unquoted(self, token: _Token) -> str:
        return _ESCAPE.sub(lambda match: self._escaped(match, token), token.text[1:-1])

    def _escaped(self, match: re.Match[str], token: _Token) -> str:
        if match["o"]:
            return chr(int(match["o"], 8))
        digits = match["u"] or match["U"] or match["x"]
        if digits and int(digits, 16) <= 0x10FFFF:  # noqa: PLR2004  # the last Unicode code point
            return chr(int(digits, 16))
        if match["c"] in _SIMPLE_ESCAPES:
            return _SIMPLE_ESCAPES[match["c"]]
        raise self._wrong(r"one of the escapes \\ \" \n \r \t \xHH \ooo \uHHHH \UHHHHHHHH", token)

    def _expect(self, wanted: str, description: str = "") -> None:
        token = self._take()
        if token.kind == "string" or token.text != wanted:
            raise self._wrong(description or wanted, token)

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        if token.kind != "end":
            self._next += 1
        return token

    def _wrong(self, valid: str, token: _Token | None = None) -> BrokerError:
        at = token or self._peek()
        found = repr(at.text) if at.text else "the end"
        return invalid("filter", self._text, f"{valid}, at position {at.at} where {found} stands")


def _all_of(parts: list[Predicate]) -> Predicate:
    return lambda attributes: all(part(attributes) for part in parts)


def _any_of(parts: list[Predicate]) -> Predicate:
    return lambda attributes: any(part(attributes) for part in parts)


def _negated(part: Predicate) -> Predicate:
    return lambda attributes: not part(attributes)
