"""Reads YAML into the values that JSON has, as kubectl does; refuses everything else.

Dates are texts, keys are texts, and a key comes once: an API server would get nothing else
(https://github.com/kubernetes-sigs/yaml). PyYAML alone makes dates, sets and bytes, takes the last
of two equal keys, and reads a kilobyte of aliases until the memory is full.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import yaml

NODES_MAX = 200_000
"""Values in one file, each alias counted with all that it repeats. etcd keeps no object over 1.5
MiB, so real manifests have far fewer."""
_SHOWN_MAX = 1_000
_TAG = "tag:yaml.org,2002:"
_KEPT = tuple(f"{_TAG}{name}" for name in ("null", "bool", "int", "float", "str", "seq", "map"))
_MERGE = f"{_TAG}merge"
_INT = re.compile(r"[-+]?(0b[01_]+|0o?[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$")
_FLOAT = re.compile(
    r"[-+]?(([0-9][0-9_]*)?\.[0-9_]+|[0-9][0-9_]*\.?)([eE][-+]?[0-9]+)?$|[-+]?\.(inf|nan)$", re.IGNORECASE
)


class NotYaml(ValueError):
    """A text is not YAML of the values that JSON has; the message says what and in which line."""


def read_yaml(text: str) -> list[Any]:
    """Return the documents of a text, without the empty ones.

    Raises:
        NotYaml: see there.
    """
    try:
        return [body for body in yaml.load_all(text, Loader=_Loader) if body is not None]
    except RecursionError as error:
        raise NotYaml("is not YAML: it is nested too deeply") from error
    except (yaml.YAMLError, ValueError) as error:
        raise NotYaml(f"is not YAML: {show_line(str(error))}") from error


def show_line(text: str) -> str:
    """Return a text that a file holds or explains, as one line for a terminal."""
    shown = " ".join(text[:_SHOWN_MAX].split())
    return shown if shown.isprintable() else shown.encode("unicode_escape").decode()


class _Loader(yaml.SafeLoader):
    """The safe loader without the types that JSON does not have."""

    yaml_constructors = {  # noqa: RUF012 -- PyYAML's own form
        tag: make for tag, make in yaml.SafeLoader.yaml_constructors.items() if tag in (*_KEPT, None)
    }
    yaml_implicit_resolvers = {  # noqa: RUF012 -- PyYAML's own form
        first: [(tag, form) for tag, form in forms if tag in (f"{_TAG}null", f"{_TAG}bool", _MERGE)]
        for first, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Return the next value of the file; count it, or what an alias repeats."""
        event = self.peek_event()  # type: ignore[no-untyped-call]  # PyYAML leaves it untyped
        node: yaml.Node | None = super().compose_node(parent, index)
        sizes: dict[int, int] = self.__dict__.setdefault("sizes", {})
        if isinstance(event, yaml.AliasEvent):
            size = sizes.get(id(node), NODES_MAX)  # an alias inside of what it names has no end
        else:
            _refuse_doubled_keys(node)
            size = 1 + sum(sizes.get(id(each), 0) for each in _list_parts(node))
        sizes[id(node)] = size
        if size >= NODES_MAX:
            raise yaml.YAMLError(f"its aliases repeat more than {NODES_MAX} values")
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 -- PyYAML's form
        """Return a value; raises ConstructorError if its text does not fit its tag."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError) as error:
            raise _refuse(node, f"is not valid ({error})") from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        """Return an object, whose keys are texts as in JSON."""
        found = super().construct_mapping(node, deep)
        if None in found:
            raise _refuse(node, "has the key null; valid: a text")
        return {key if isinstance(key, str) else json.dumps(key): value for key, value in found.items()}

    def construct_yaml_str(self, node: yaml.ScalarNode) -> str:
        """Return a text, also from the two halves of one character that JSON escapes."""
        text: str = super().construct_yaml_str(node)
        return text.encode("utf-16", "surrogatepass").decode("utf-16")

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        """Return a number; JSON has no infinite one."""
        number: float = super().construct_yaml_float(node)
        if not math.isfinite(number):
            raise _refuse(node, "is not valid; valid: a finite number")
        return number


_Loader.add_constructor(f"{_TAG}str", _Loader.construct_yaml_str)
_Loader.add_constructor(f"{_TAG}float", _Loader.construct_yaml_float)
_Loader.add_implicit_resolver(f"{_TAG}int", _INT, list("-+0123456789"))
_Loader.add_implicit_resolver(f"{_TAG}float", _FLOAT, list("-+.0123456789"))


def _list_parts(node: yaml.Node | None) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _refuse_doubled_keys(node: yaml.Node | None) -> None:
    if not isinstance(node, yaml.MappingNode):
        return
    seen = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
            if key.value in seen:
                raise _refuse(key, "is a key that comes twice; valid: each key once")
            seen.add(key.value)


def _refuse(node: yaml.Node, problem: str) -> yaml.constructor.ConstructorError:
    shown = f"{node.value[:60]!r} " if isinstance(node, yaml.ScalarNode) else ""
    return yaml.constructor.ConstructorError(problem=f"{shown}{problem}", problem_mark=node.start_mark)
