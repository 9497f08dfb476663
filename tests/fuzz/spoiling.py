"""Spoils real objects: any node is replaced, deleted, doubled, renamed or given another type.

A spoilt object becomes JSON text, because much of what goes wrong is a matter of its bytes.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

Json = Any
CHANGES_MAX = 3
DEEP = 20_000  # levels of nesting that no stack of ours holds
_MARK, _AGAIN = "@raw:", "@again:"
_RAW: tuple[bytes, ...] = (
    *(b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1e400", b"1e-400", b"0.5", b"-0", b"", b"'text'"),
    *(b"9" * 400, b"-" + b"9" * 400, b"9" * 5_000, b"18446744073709551616", b"-9223372036854775809"),
    *(b'"\\ud800"', b'"\\udfff\\ud800"', b'"\\u0000"', b'"\xff\xfe"', b'"\xed\xa0\x80"', b'"\\x"', b'"open'),
    *(b"[" * 50 + b"]" * 50, b"[" * 900 + b"]" * 900, b"[" * 5_000 + b"]" * 5_000),
    *(b"[" * DEEP + b"]" * DEEP, b'{"a":' * DEEP + b"1" + b"}" * DEEP),
)
"""Pieces of JSON, or of what is none, that Python's own writer does not write."""
TEXTS: tuple[str, ...] = (
    *("", " ", "0", "1", "-1", "1.5", "true", "null", "NaN", "Infinity", "None"),
    *("9" * 400, "9" * 5_000, "9" * 400 + "%", "150%", "-5%", "1e99", "1e-99", "9" * 30 + "Ei", "4500m", "٤", "²"),
    *("4x4", "4x4x4", "0x0", "9999999x9999999", "x".join(["9"] * 200), "tpu-v6e-slice", "tpu7x", "nvidia-l4"),
    *("default", "a" * 64, "a" * 254, "x" * 70_000, "é" * 600, "🦀", "\u202e", "\u0000", "\ud800", "a\nb\r\tc"),
    *("%s%d{}{0}", "../../etc", "a/b?c=d#e", "a,b,,c", "0-9999999999", "0-1,3-", "-"),
    *("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+23:00", "9999-12-31T23:59:59-12:00", "2026-13-45T99:99:99Z"),
    *("2026-11-22T10:00:00", "2099-01-01T00:00:00Z", "1969-12-31T00:00:00Z", "20261122", "2026-W01-1"),
    *("True", "False", "Unschedulable", "Failed", "Succeeded", "Pending", "RUNNING", "ERROR", "STOPPING"),
)
_ODD: tuple[Json, ...] = (
    *(None, True, False, 0, 1, -1, 3, 100_000, 2**31, 2**63 - 1, 2**63, 10**18, -(10**18), 10**400),
    *(0.1, -0.0, 1e308, [], {}, [None], [[]], {"a": 1}, {"": ""}, [{"kind": "x"}, 1, "y"], [{}, {}], ["a", "b"]),
    *TEXTS,
    *(f"{_MARK}{number}" for number in range(len(_RAW))),
)
_SOURCES = [path.read_text() for path in (Path(__file__).parents[2] / "shared").rglob("*.py")]
_WORDS = {word for source in _SOURCES for word in re.findall(r'"([a-z][\w./-]+)"', source)}
_FIELDS = {name for source in _SOURCES for name in re.findall(r"^    (\w+): ", source, re.MULTILINE)}
_KEYS = sorted(_WORDS | {re.sub("_([a-z])", lambda at: at[1].upper(), name) for name in _FIELDS})
"""What some reader looks for: the texts of the product, and the fields of its structs."""
_CHANGES = (*("replace",) * 3, "delete", "double", "rename", "retype", "swap", "wrap", "grow", "insert")


def spoil(chance: Random, example: bytes, *, changes_max: int = CHANGES_MAX) -> Json:
    """Return the object of a JSON text, changed in up to `changes_max` nodes; see `write`."""
    body = {"": json.loads(example)}
    for _ in range(chance.randrange(changes_max + 1)):
        places = list(_list_places(body))
        if not places:
            break
        _change(chance, places)
    return body.get("", [])


def write(body: Json) -> bytes:
    """Return the JSON text of a spoilt object, with the pieces that only text can have."""
    text = json.dumps(body).encode()
    if _MARK.encode() in text:
        for number, raw in enumerate(_RAW):
            text = text.replace(f'"{_MARK}{number}"'.encode(), raw)
    return text.replace(f'"{_AGAIN}'.encode(), b'"')


def spoil_text(chance: Random, text: bytes) -> bytes:
    """Return a text: mostly as it was, else cut, with a byte changed, or with a part doubled."""
    change, first, length = chance.randrange(16), chance.randrange(len(text) + 1), chance.randrange(64)
    if change == 1:
        return text[:first]
    if change == 2:
        return text[:first] + bytes([length * 4]) + text[first + 1 :]
    if change == 3:
        return text[: first + length] + text[first:]
    if change == 4:
        return text[:first] + chance.choice(_RAW) + text[first:]
    return text


def _list_places(node: Json) -> Iterator[tuple[Json, Any]]:
    """Yield each node of a tree as its holder and its key or index there."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        yield node, key
        if isinstance(value, dict | list):
            yield from _list_places(value)


def _change(chance: Random, places: Sequence[tuple[Json, Any]]) -> None:
    holder, key = chance.choice(places)
    change, value = chance.choice(_CHANGES), holder[key]
    if change == "replace":
        holder[key] = _copy(chance.choice(_ODD))
    elif change == "delete":
        del holder[key]
    elif change == "double":
        _double(chance, holder, key)
    elif change == "rename" and isinstance(holder, dict):
        holder[chance.choice(TEXTS)] = holder.pop(key)
    elif change == "retype":
        holder[key] = _retype(value)
    elif change == "swap":
        other, index = chance.choice(places)
        holder[key] = _copy(other[index])
    elif change == "insert" and isinstance(value, dict):
        value[chance.choice(_KEYS)] = _copy(chance.choice(_ODD))
    elif change == "grow":
        holder[key] = [_copy(value) for _ in range(chance.choice((2, 10, 100)))]
    else:
        holder[key] = [value, _copy(chance.choice(_ODD))]


def _double(chance: Random, holder: Json, key: Any) -> None:
    """Write a list's element once more, or an object's key once more with another value."""
    if isinstance(holder, list):
        holder.append(_copy(holder[key]))
    else:
        holder[f"{_AGAIN}{key}"] = _copy(chance.choice(_ODD))


def _copy(value: Json) -> Json:
    return json.loads(json.dumps(value)) if isinstance(value, dict | list) else value


def _retype(value: Json) -> Json:
    """Return a value as another type of JSON would write it."""
    if isinstance(value, dict):
        return [list(pair) for pair in value.items()]
    if isinstance(value, list):
        return {str(index): each for index, each in enumerate(value)}
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) < 1_000 else [value]
    return str(value)
