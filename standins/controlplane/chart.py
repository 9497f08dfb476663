"""The product's own objects, from its chart and its optional manifests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]

# The C parser where PyYAML has it: JobSet's definition is half a megabyte, two seconds for the
# other one.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class ManifestBroken(Exception):
    """A manifest cannot be used; the text names the file and what is wrong."""


def read_objects(path: Path) -> list[Json]:
    """Return the objects of one YAML file in their order.

    Raises ManifestBroken: it cannot be read, or holds something that is no Kubernetes object.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ManifestBroken(f"{path}: {error}") from error
    return parse_objects(text, path)


def parse_objects(text: str, path: Path) -> list[Json]:
    """Return the objects of a text that a file holds.

    Raises ManifestBroken: it is no YAML, or holds something that is no Kubernetes object.
    """
    try:
        objects = [each for each in yaml.load_all(text, Loader=_LOADER) if each is not None]
    except yaml.YAMLError as error:
        raise ManifestBroken(f"{path}: {error}") from error
    for each in objects:
        if not isinstance(each, dict) or not {"apiVersion", "kind", "metadata"} <= each.keys():
            raise ManifestBroken(
                f"{path}: not a Kubernetes object with apiVersion, kind and metadata: {each!r:.80}"
            )
    return objects


def read_folder(folder: Path) -> list[Json]:
    """Return the objects of every YAML file in a folder, without what only kustomize reads.

    Raises ManifestBroken: a file cannot be used, or there is none.
    """
    paths = [path for path in sorted(folder.glob("*.yaml")) if not path.name.startswith("kustomiz")]
    if not paths:
        raise ManifestBroken(f"{folder}: no YAML files")
    return [each for path in paths for each in read_objects(path)]


_STATEMENT = re.compile(r"\s*\{\{- (if|range|end)\b ?(.*?) \}\}\s*")
_RANGE = re.compile(r"\$(\w+)(?:, \$(\w+))? := (\S+)")
_VALUE = re.compile(r"\{\{ (\S+)( \| quote)? \}\}")
_ROOT = ("$", "")
"""Both ways to begin the name of a chart's own value: `$.Values` and `.Values`."""
_USERS = "system:serviceaccount"
"""How RBAC knows a ServiceAccount as a user."""
_NAMESPACE = "tpu-provisioner"
_FUNCTIONS = ("provision", "collect")
_OF_PODS = {"Deployment", "PodDisruptionBudget", "NetworkPolicy"}


@dataclass(frozen=True, slots=True)
class _Block:
    """A statement and the lines up to its end."""

    word: str
    subject: str
    body: list[str | _Block]


def read_chart(folder: Path, values: Mapping[str, Any]) -> list[Json]:
    """Return the objects of a chart, with some of its values replaced; a namespace comes first.

    Raises ManifestBroken: a template has what is not known here, or is no YAML then.
    """
    defaults = yaml.safe_load((folder / "values.yaml").read_text(encoding="utf-8"))
    scope = {each: {"Values": _merge(defaults, values)} for each in _ROOT}
    objects: list[Json] = []
    for path in sorted((folder / "templates").glob("*.yaml")):
        try:
            lines = iter(path.read_text(encoding="utf-8").splitlines())
            text = "\n".join(_render(_parse(lines, nested=False), scope))
        except (KeyError, ValueError) as error:
            raise ManifestBroken(f"{path}: {error} is not understood here") from error
        objects += parse_objects(text, path)
    return sorted(objects, key=lambda each: each["kind"] != "Namespace")


def read_local_chart(folder: Path, values: Mapping[str, Any] | None = None) -> list[Json]:
    """Return the objects of our chart for a cluster without Google accounts.

    The functions get ServiceAccounts with the same roles as on GKE, and no exporter is deployed:
    here it is a process outside of the cluster, under its account.
    """
    accounts = {function: f"{_USERS}:{_NAMESPACE}:{_NAMESPACE}-{function}" for function in _FUNCTIONS}
    objects = read_chart(folder, {"accounts": accounts, "monitoring": False, **(values or {})})
    own = [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": f"{_NAMESPACE}-{function}", "namespace": _NAMESPACE},
        }
        for function in _FUNCTIONS
    ]
    return [each for each in objects if each["kind"] not in _OF_PODS] + own


def _merge(defaults: Any, values: Any) -> Any:
    if not isinstance(defaults, dict) or not isinstance(values, dict):
        return values
    return defaults | {name: _merge(defaults.get(name), each) for name, each in values.items()}


def _parse(lines: Iterator[str], *, nested: bool) -> list[str | _Block]:
    """Return lines and blocks, up to the end of the block that they are in."""
    body: list[str | _Block] = []
    for line in lines:
        statement = _STATEMENT.fullmatch(line)
        if not statement:
            body.append(line)
        elif statement[1] == "end":
            return body
        else:
            body.append(_Block(statement[1], statement[2], _parse(lines, nested=True)))
    if nested:
        raise ValueError("a block without its end")
    return body


def _render(body: list[str | _Block], scope: Mapping[str, Any]) -> Iterator[str]:
    for each in body:
        if isinstance(each, str):
            yield _fill_in(each, scope)
        elif each.word == "range":
            yield from _repeat(each, scope)
        elif _look_up(each.subject, scope):
            yield from _render(each.body, scope)


def _repeat(block: _Block, scope: Mapping[str, Any]) -> Iterator[str]:
    names = _RANGE.fullmatch(block.subject)
    if not names:
        raise ValueError(block.subject)
    first, second, path = names.groups()
    items = _look_up(path, scope)
    pairs = sorted(items.items()) if isinstance(items, dict) else enumerate(items)
    for key, value in pairs:
        own = {f"${first}": key, f"${second}": value} if second else {f"${first}": value}
        yield from _render(block.body, {**scope, **own})


def _fill_in(line: str, scope: Mapping[str, Any]) -> str:
    def write(match: re.Match[str]) -> str:
        value = _look_up(match[1], scope)
        return json.dumps(str(value)) if match[2] else str(value)

    filled = _VALUE.sub(write, line)
    if "{{" in _VALUE.sub("", line):
        raise ValueError(line.strip())
    return filled


def _look_up(path: str, scope: Mapping[str, Any]) -> Any:
    first, *names = path.split(".")
    value = scope[first]
    for name in names:
        value = value[name]
    return value
