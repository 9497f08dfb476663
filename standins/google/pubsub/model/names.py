"""Names, filters and refusals, as Pub/Sub documents them."""

import re
from collections.abc import Callable, Mapping

from standins.google.errors import ApiError, Code


def invalid(field: str, value: object, valid: str) -> ApiError:
    """Return an INVALID_ARGUMENT error that names the field, the value, and what would be valid."""
    shown = repr(value)
    if len(shown) > 200:  # noqa: PLR2004  # a bound for the eye only
        shown = shown[:200] + "…"
    return ApiError(
        Code.INVALID_ARGUMENT,
        f"You have passed an invalid argument to the service (argument={field}): got {shown}; valid: {valid}.",
    )


def not_found(resource: str) -> ApiError:
    """Return the NOT_FOUND error for a resource name, of which Pub/Sub says the last part."""
    return ApiError(Code.NOT_FOUND, f"Resource not found (resource={_last(resource)}).")


def already_exists(resource: str) -> ApiError:
    """Return the ALREADY_EXISTS error for a resource name."""
    text = f"Resource already exists in the project (resource={_last(resource)})."
    return ApiError(Code.ALREADY_EXISTS, text)


def _last(resource: str) -> str:
    return resource.rpartition("/")[2]


DELETED_TOPIC = "_deleted-topic_"

_PROJECT = r"[a-z0-9.:-]{1,100}"
_IDENTIFIER = re.compile(r"(?!goog)[A-Za-z][A-Za-z0-9\-._~+%]{2,254}")
_NAME = re.compile(rf"projects/({_PROJECT})/(topics|subscriptions|snapshots)/([^/]+)")
_RULE = (
    "projects/PROJECT/{kind}/ID with an ID of 3 to 255 characters, starting with a letter, of letters, digits and"
    " - . _ ~ + %, and not starting with 'goog'"
)


def check_name(name: str, kind: str, *, field: str = "name") -> None:
    """Accept a resource name of the wanted kind (`topics`, `subscriptions`, `snapshots`).

    Raises ApiError: INVALID_ARGUMENT for a name outside the documented rules, see
    https://cloud.google.com/pubsub/docs/pubsub-basics#resource_names
    """
    match = _NAME.fullmatch(name)
    if match is None or match[2] != kind or _IDENTIFIER.fullmatch(match[3]) is None:
        raise invalid(field, name, _RULE.format(kind=kind))


def project_of(name: str) -> str:
    """Return the project of a resource name."""
    return name.split("/")[1]


def identifier_of(name: str) -> str:
    """Return the last part of a resource name."""
    return name.rsplit("/", 1)[-1]


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
