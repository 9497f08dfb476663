"""Kubernetes objects from YAML files: a controller's manifests, and our chart without Helm.

A chart's conditions, loops and values are those of Jinja in other words, so Jinja renders them.
`tests/infra/test_chart.py` compares the result with Helm's.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import yaml

Json = dict[str, Any]

# The C parser where PyYAML has it: JobSet's definition is half a megabyte, two seconds for the
# other one.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STATEMENT = re.compile(r"\s*\{\{- (?:(end)|(if) (\S+)|(range) \$(\w+)(?:, \$(\w+))? := (\S+)) \}\}\s*")
_VALUE = re.compile(r"\{\{ (\S+)( \| quote)? \}\}")
_ROOT = re.compile(r"^\$?\.(?=Values)|^\$")
"""How a chart begins the name of a value: `.Values`, `$.Values` or `$variable`."""
_NAMESPACE = "tpu-provisioner"
_FUNCTIONS = ("provision", "collect")
_OF_PODS = {"Deployment", "PodDisruptionBudget", "NetworkPolicy"}


class ManifestBroken(Exception):
    """A manifest cannot be used; the text names the file and what is wrong."""


def read_objects(path: Path) -> list[Json]:
    """Return the objects of one YAML file in their order.

    Raises ManifestBroken: it cannot be read, or holds something that is no Kubernetes object.
    """
    try:
        return _parse_objects(path.read_text(encoding="utf-8"), path)
    except (OSError, ValueError) as error:
        raise ManifestBroken(f"{path}: {error}") from error


def read_folder(folder: Path) -> list[Json]:
    """Return the objects of every YAML file in a folder, without what only kustomize reads.

    Raises ManifestBroken: a file cannot be used, or there is none.
    """
    paths = [path for path in sorted(folder.glob("*.yaml")) if not path.name.startswith("kustomiz")]
    if not paths:
        raise ManifestBroken(f"{folder}: no YAML files")
    return [each for path in paths for each in read_objects(path)]


def read_chart(folder: Path, values: Mapping[str, Any]) -> list[Json]:
    """Return the objects of a chart, with some of its values replaced; a namespace comes first.

    Raises ManifestBroken: a template has what is not known here, or is no YAML then.
    """
    defaults = yaml.safe_load((folder / "values.yaml").read_text(encoding="utf-8"))
    language = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)  # noqa: S701 -- it is YAML
    language.filters["quote"] = lambda value: json.dumps(str(value))
    objects: list[Json] = []
    for path in sorted((folder / "templates").glob("*.yaml")):
        try:
            template = language.from_string(_translate(path.read_text(encoding="utf-8")))
            text = template.render(Values=_merge(defaults, values))
        except (ValueError, IndexError, jinja2.TemplateError) as error:
            raise ManifestBroken(f"{path}: {error} is not understood here") from error
        objects += _parse_objects(text, path)
    return sorted(objects, key=lambda each: each["kind"] != "Namespace")


def read_local_chart(folder: Path, values: Mapping[str, Any] | None = None) -> list[Json]:
    """Return the objects of our chart for a cluster without Google accounts.

    The functions get ServiceAccounts with the same roles as on GKE, and no exporter is deployed:
    here it is a process outside of the cluster, under its account.
    """
    names = {function: f"{_NAMESPACE}-{function}" for function in _FUNCTIONS}
    users = {function: f"system:serviceaccount:{_NAMESPACE}:{name}" for function, name in names.items()}
    objects = read_chart(folder, {"accounts": users, "monitoring": False, **(values or {})})
    accounts: list[Json] = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": _NAMESPACE}}
        for name in names.values()
    ]
    return [each for each in objects if each["kind"] not in _OF_PODS] + accounts


def _parse_objects(text: str, path: Path) -> list[Json]:
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


def _merge(defaults: Any, values: Any) -> Any:
    if not isinstance(defaults, dict) or not isinstance(values, Mapping):
        return values
    return defaults | {name: _merge(defaults.get(name), each) for name, each in values.items()}


def _translate(text: str) -> str:
    """Return a template of Helm as one of Jinja.

    Raises ValueError: it has what is not known here.
    """
    lines: list[str] = []
    blocks: list[str] = []
    for line in text.splitlines():
        statement = _STATEMENT.fullmatch(line)
        if statement is None:
            if "{{" in _VALUE.sub("", line):
                raise ValueError(line.strip())
            lines.append(_VALUE.sub(lambda match: f"{{{{ {_ROOT.sub('', match[1])}{match[2] or ''} }}}}", line))
            continue
        end, condition, subject, loop, first, second, items = statement.groups()
        if end:
            lines.append(f"{{% end{blocks.pop()} %}}")
        elif condition:
            blocks.append("if")
            lines.append(f"{{% if {_ROOT.sub('', subject)} %}}")
        elif loop:
            blocks.append("for")
            names = f"{first}, {second}" if second else first
            sorted_items = f"{_ROOT.sub('', items)}|dictsort" if second else _ROOT.sub("", items)
            lines.append(f"{{% for {names} in {sorted_items} %}}")
    return "\n".join(lines)
