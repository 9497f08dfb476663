"""Reads YAML as kubectl does: dates and keys are texts (https://github.com/kubernetes-sigs/yaml)."""

from __future__ import annotations

import itertools
import json
import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from yaml.composer import Composer

if TYPE_CHECKING:
    from collections.abc import Iterator

VALUES_MAX = 200_000  # in one document, with all that its aliases repeat; etcd keeps no object over 1.5 MiB
_TAG = "tag:yaml.org,2002:"
_KEPT = [f"{_TAG}{name}" for name in ("null", "bool", "merge", "int", "float", "str", "seq", "map")]
_INT = re.compile(r"[-+]?(0b[01_]+|0o?[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$")
_LETTER = re.compile("[yYnN]$")
"""A boolean for kubectl, and not for PyYAML:
https://github.com/kubernetes-sigs/yaml/blob/master/goyaml.v2/resolve.go."""
_TRUE = ("y", "yes", "true", "on")
_FLOAT = re.compile(r"(?i)[-+]?(([0-9][0-9_]*)?\.[0-9_]+|[0-9][0-9_]*\.?)(e[-+]?[0-9]+)?$|[-+]?\.(inf|nan)$")
_START = re.compile(
    r"^(?:%.*\n)*---(?=\s|\Z)|(?<=}\n)(?={[^{])", re.MULTILINE
)  # of a further one, or object of JSON


class Document(NamedTuple):
    """One document of a text, or what is wrong with it."""

    line: int
    body: Any = None
    problem: str = ""
    begin: int = 1  # the line of the text in which the part with this document begins
    root: yaml.Node | None = None

    def find(self, path: str) -> tuple[int, str] | None:
        """Return the line of a value like ``spec.tasks[1].name``, and the text that is written."""
        node = self.root
        while node is not None and path:
            key, node = _enter(node, path)
            path = path[len(key) :].removeprefix(".")
        if node is None:
            return None
        return self.begin + node.start_mark.line, node.value if isinstance(node, yaml.ScalarNode) else ""


def _enter(node: yaml.Node, path: str) -> tuple[str, yaml.Node | None]:
    """Return the first part of a path, and the value that a node has there."""
    parts: list[tuple[str, yaml.Node]] = []
    if isinstance(node, yaml.MappingNode):
        parts = [(str(key.value), value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        parts = [(f"[{number}]", value) for number, value in enumerate(node.value)]
    fitting = ((key, value) for key, value in parts if key == path or path.startswith((f"{key}.", f"{key}[")))
    return next(fitting, ("", None))


class _Loader(Composer, yaml.CSafeLoader):
    """The safe loader with JSON's types. Its composer is Python's: libyaml's may crash."""

    yaml_constructors = {tag: yaml.SafeLoader.yaml_constructors.get(tag) for tag in (*_KEPT[:2], *_KEPT[3:])}  # noqa: RUF012
    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [each for each in forms if each[0] in _KEPT[:3]]
        for first, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, stream: str) -> None:
        yaml.CSafeLoader.__init__(self, stream)
        Composer.__init__(self)


_Loader.add_implicit_resolver(f"{_TAG}int", _INT, list("-+0123456789"))
_Loader.add_implicit_resolver(f"{_TAG}float", _FLOAT, list("-+.0123456789"))
_Loader.add_implicit_resolver(f"{_TAG}bool", _LETTER, list("yYnN"))
_Loader.add_constructor(f"{_TAG}bool", lambda _loader, node: node.value.lower() in _TRUE)
_Loader.add_constructor(None, yaml.SafeLoader.yaml_constructors[None])


def read_documents(text: str) -> Iterator[Document]:
    """Yield the documents of a text, without the empty ones. One that is wrong stops no other."""
    starts = [0, *(each.start() for each in _START.finditer(text) if each.start()), len(text)]
    for start, end in itertools.pairwise(starts):
        document = _read_document(text[start:end], begin=1 + text.count("\n", 0, start))
        if document.problem or document.body is not None:
            yield document


def _read_document(text: str, *, begin: int) -> Document:
    lines = enumerate(text.split("\n"))
    first = next((at for at, line in lines if line.strip() and not line.startswith(("#", "---", "%"))), 0)
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        body = None if root is None else _convert(loader.construct_document(root), itertools.count())
    except (yaml.YAMLError, ValueError, LookupError, RecursionError) as error:
        return Document(begin + first, problem=f"is not YAML: {_explain(error, text, begin, first)}")
    return Document(begin + first, body, begin=begin, root=root)


def _explain(error: Exception, text: str, begin: int, first: int) -> str:
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    at = mark.line if mark else first
    got = "".join(text.split("\n")[at : at + 1])[:60]
    cause = str(error) if isinstance(error, _Refused) else f"from line {begin + at} on (got {got!r})"
    if "{{" in text:
        return f"{cause}; it is a template: valid: the output of `helm template`, which has no {{{{ }}}}"
    return f"{cause}; valid: YAML as kubectl reads it, with spaces in place of tabs"


def is_list(body: Any) -> bool:
    """Return whether an object is a list: a ``List``, or one of a kind such as ``PodList``."""
    kind = body.get("kind") if isinstance(body, dict) else None
    return isinstance(kind, str) and (kind == "List" or (kind.endswith("List") and "items" in body))


class _Refused(ValueError):
    """A value that JSON does not have."""


def _convert(value: Any, counted: Iterator[int]) -> Any:
    """Return a value as JSON has it, with what its aliases repeat."""
    if next(counted) >= VALUES_MAX:
        raise _Refused(f"its aliases repeat more than {VALUES_MAX} values")
    if isinstance(value, dict):
        pairs = ((key if isinstance(key, str) else json.dumps(key), each) for key, each in value.items())
        return {key: _convert(each, counted) for key, each in pairs}
    if isinstance(value, float) and not math.isfinite(value):
        raise _Refused("it has an infinite number")
    return [_convert(each, counted) for each in value] if isinstance(value, list) else value
