"""Reads the documents of a manifest into the values that JSON has, each on its own.

Dates are texts, and keys are texts: an API server would get nothing else
(https://github.com/kubernetes-sigs/yaml). Of two equal keys the last one counts, as for kubectl
(https://github.com/kubernetes/kubernetes/issues/125885). A note says so. PyYAML alone makes dates,
sets and bytes, and reads a kilobyte of aliases until the memory is full. The text is scanned by
libyaml, which reads what kubectl reads, for example a tab at the end of a line.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml
from yaml.composer import Composer

if TYPE_CHECKING:
    from collections.abc import Iterator

NODES_MAX = 200_000
"""Values in one document, each alias counted with all that it repeats. etcd keeps no object over
1.5 MiB, so real manifests have far fewer."""
_SHOWN_MAX, _SHOWN_LINE_MAX = 1_000, 60
_TAG = "tag:yaml.org,2002:"
_KEPT = tuple(f"{_TAG}{name}" for name in ("null", "bool", "int", "float", "str", "seq", "map"))
_MERGE = f"{_TAG}merge"
_INT = re.compile(r"[-+]?(0b[01_]+|0o?[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$")
_FLOAT = re.compile(
    r"[-+]?(([0-9][0-9_]*)?\.[0-9_]+|[0-9][0-9_]*\.?)([eE][-+]?[0-9]+)?$|[-+]?\.(inf|nan)$", re.IGNORECASE
)
_START = re.compile(r"^(?:%.*\n)*---(?=\s|\Z)", re.MULTILINE)
"""The first lines of a document but the first one: its directives, and the line of dashes."""
_UNRENDERED = re.compile(r"\{\{.*\}\}")


class NotYaml(ValueError):
    """A text is not YAML of the values that JSON has; the message says what and in which line."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a text, or what is wrong with it."""

    line: int
    """In which it begins; the first line is 1."""
    body: Any = None
    problem: str = ""
    doubled: tuple[str, ...] = ()
    """Keys that come twice in one object, each with its line; the last value counts."""


def read_documents(text: str) -> Iterator[Document]:
    """Yield the documents of a text, without the empty ones. One that is wrong stops no other."""
    found = _read_json(text) if text.lstrip()[:1] == "{" else None
    if found is not None:
        yield from found
        return
    starts = [0, *(each.start() for each in _START.finditer(text) if each.start()), len(text)]
    line = 1
    for start, end in itertools.pairwise(starts):
        part = text[start:end]
        try:
            for body, doubled in _read(part, line):
                yield Document(line + _count_blank(part), body, doubled=doubled)
        except NotYaml as error:
            yield Document(line + _count_blank(part), problem=str(error))
        line += part.count("\n")


def read_yaml(text: str) -> list[Any]:
    """Return the documents of a text that has no wrong one.

    Raises:
        NotYaml: a document is wrong.
    """
    found = list(read_documents(text))
    for each in found:
        if each.problem:
            raise NotYaml(each.problem)
    return [each.body for each in found]


def show_line(text: str) -> str:
    """Return a text that a file holds or explains, as one line for a terminal."""
    shown = " ".join(text[:_SHOWN_MAX].split())
    return shown if shown.isprintable() else shown.encode("unicode_escape").decode()


def _read_json(text: str) -> list[Document] | None:
    """Return the objects of a stream of JSON; None if it is none, or has what only Python accepts.

    libyaml does not read the two halves of one character that JSON escapes.
    """
    reader = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_pair)
    found, place = [], 0
    try:
        while (place := _skip_blank(text, place)) < len(text):
            body, end = reader.raw_decode(text, place)
            # Half of a character, or an infinite number, is none of JSON.
            json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
            found.append(Document(1 + text.count("\n", 0, place), body))
            place = end
    except (ValueError, RecursionError):
        return None
    return found


def _skip_blank(text: str, place: int) -> int:
    while place < len(text) and text[place] in " \t\r\n":
        place += 1
    return place


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _pair(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key comes twice")
    return found


def _count_blank(part: str) -> int:
    """Return the number of lines before the first line of content."""
    lines = part.split("\n")
    return next((n for n, each in enumerate(lines) if each.strip() and not each.startswith(("#", "---", "%"))), 0)


def _read(part: str, line: int) -> list[tuple[Any, tuple[str, ...]]]:
    """Return the bodies of a part, each with the keys that come twice in it."""
    found = []
    try:
        loader = _Loader(part)
        while loader.check_data():  # type: ignore[no-untyped-call]
            body = loader.get_data()
            doubled = tuple(f"{key} in line {line + at}" for key, at in loader.doubled)
            loader.doubled.clear()
            if body is not None:
                found.append((body, doubled))
    except RecursionError as error:
        raise NotYaml("is not YAML: it is nested too deeply") from error
    except _Refused as error:
        raise NotYaml(f"is not YAML: {error.text}, in line {line + error.line}") from error
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark.line if error.problem_mark else 0
        shown = dict(enumerate(part.split("\n"))).get(at, "")[:_SHOWN_LINE_MAX]
        raise NotYaml(f"is not YAML: from line {line + at} on (got {shown!r}); {_hint(part, shown)}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise NotYaml(f"is not YAML: it has a character that YAML does not have; {_hint(part, '')}") from error
    return found


def _hint(part: str, line: str) -> str:
    if _UNRENDERED.search(part):
        return "it is a template: valid: the output of `helm template`, which has no {{ }}"
    tab = "\t" in line[: len(line) - len(line.lstrip())]
    return "valid: spaces in place of the tab" if tab else "valid: YAML as kubectl reads it"


class _Refused(Exception):
    """A value that we refuse, in our own words."""

    def __init__(self, node: yaml.Node | yaml.Event, problem: str) -> None:
        shown = f"{node.value[:60]!r} " if isinstance(node, yaml.ScalarNode) else ""
        self.text, self.line = f"{shown}{problem}", node.start_mark.line if node.start_mark else 0


class _Loader(Composer, yaml.CSafeLoader):
    """The safe loader over libyaml's events, without the types that JSON does not have."""

    yaml_constructors = {  # noqa: RUF012 -- PyYAML's own form
        tag: make for tag, make in yaml.SafeLoader.yaml_constructors.items() if tag in (*_KEPT, None)
    }
    yaml_implicit_resolvers = {  # noqa: RUF012 -- PyYAML's own form
        first: [(tag, form) for tag, form in forms if tag in (f"{_TAG}null", f"{_TAG}bool", _MERGE)]
        for first, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, stream: str) -> None:
        yaml.CSafeLoader.__init__(self, stream)
        Composer.__init__(self)
        self.doubled: list[tuple[str, int]] = []
        """Keys that come twice in the document that is read, and how many lines are before each."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Return the next value of the file; count it, or what an alias repeats."""
        event: Any = self.peek_event()
        node: yaml.Node | None = super().compose_node(parent, index)
        sizes: dict[int, int] = self.__dict__.setdefault("sizes", {})
        alias = isinstance(event, yaml.AliasEvent)
        if alias:
            size = sizes.get(id(node), NODES_MAX)  # an alias inside of what it names has no end
        else:
            self.doubled += _list_doubled_keys(node)
            size = 1 + sum(sizes.get(id(each), 0) for each in _list_parts(node))
        sizes[id(node)] = size
        if size >= NODES_MAX:
            shown = f" (the last one is *{event.anchor})" if alias else ""
            problem = f"its aliases repeat more than {NODES_MAX} values{shown}; valid: fewer aliases"
            raise _Refused(event, problem)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 -- PyYAML's form
        """Return a value; raises _Refused if its text does not fit its tag."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError) as error:
            raise _Refused(node, "is not valid; valid: a value that fits its type") from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        """Return an object, whose keys are texts as in JSON."""
        found = super().construct_mapping(node, deep)
        if None in found:
            raise _Refused(node, "has the key null; valid: a text")
        return {key if isinstance(key, str) else json.dumps(key): value for key, value in found.items()}

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        """Return a number; JSON has no infinite one."""
        number: float = super().construct_yaml_float(node)
        if not math.isfinite(number):
            raise _Refused(node, "is not valid; valid: a finite number")
        return number


_Loader.add_constructor(f"{_TAG}float", _Loader.construct_yaml_float)
_Loader.add_implicit_resolver(f"{_TAG}int", _INT, list("-+0123456789"))
_Loader.add_implicit_resolver(f"{_TAG}float", _FLOAT, list("-+.0123456789"))


def _list_parts(node: yaml.Node | None) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _list_doubled_keys(node: yaml.Node | None) -> list[tuple[str, int]]:
    if not isinstance(node, yaml.MappingNode):
        return []
    keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE]
    last = {key.value: key.start_mark.line for key in keys}
    if len(last) == len(keys):
        return []
    return [(key, last[key]) for key, times in Counter(key.value for key in keys).items() if times > 1]
