"""The subscription filters that something here uses: parsed once, then asked for every message.

A filter is one comparison of an attribute, of at most 256 bytes:
    [NOT] hasPrefix(attributes.KEY, "V") | [NOT] attributes.KEY = "V"
A KEY of letters, digits, _ and - may stand bare, any other key is quoted. The rest of the language
is refused: https://cloud.google.com/pubsub/docs/subscription-message-filter
"""

import re
from collections.abc import Callable, Mapping

from standins.google.pubsub.model.errors import invalid

Predicate = Callable[[Mapping[str, str]], bool]

MAX_FILTER_BYTES = 256
_VALID = '[NOT] hasPrefix(attributes.KEY, "V") or [NOT] attributes.KEY = "V", with other keys than words in quotes'

_KEY = r'attributes\s*\.\s*(?:(?P<{0}>[A-Za-z0-9_][A-Za-z0-9_-]*)|"(?P<{0}_quoted>[^"\\]+)")'
_COMPARISON = re.compile(
    rf"""\s*(?P<negated>NOT\s+)?(?:
        hasPrefix\s*\(\s*{_KEY.format("of_prefix")}\s*,\s*"(?P<prefix>[^"\\]*)"\s*\)
      | {_KEY.format("of_value")}\s*=\s*"(?P<value>[^"\\]*)"
    )\s*""",
    re.VERBOSE,
)


def parse_filter(text: str) -> Predicate:
    """Return what a filter says of attributes; an empty text lets every message through.

    Raises ApiError: INVALID_ARGUMENT, naming what would be valid.
    """
    size = len(text.encode())
    if size > MAX_FILTER_BYTES:
        raise invalid("filter", text, f"at most {MAX_FILTER_BYTES} bytes, this has {size}")
    if not text.strip():
        return lambda _: True
    found = _COMPARISON.fullmatch(text)
    if found is None:
        raise invalid("filter", text, _VALID)
    wanted = found["negated"] is None
    if found["prefix"] is None:
        key, value = found["of_value"] or found["of_value_quoted"], found["value"]
        return lambda attributes: (attributes.get(key) == value) is wanted
    key, prefix = found["of_prefix"] or found["of_prefix_quoted"], found["prefix"]
    return lambda attributes: (key in attributes and attributes[key].startswith(prefix)) is wanted
