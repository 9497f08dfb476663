"""What the Helm chart renders, compared with the overlay that the build writes for kustomize.

The chart has three constructs only, which `render_here` knows; it refuses any other.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

import yaml

from infra.build.render_exporter import BINDING, FUNCTIONS
from infra.build.write_chart import CHART, MANIFESTS, SOURCES

Json = dict[str, Any]

VALUES: Json = {
    "image": f"us-east5-docker.pkg.dev/a-project/blue-images/exporter@sha256:{'a' * 64}",
    "cluster": "projects/other-project/locations/us-east5/clusters/alpha",
    "topic": "projects/a-project/topics/blue-workload-events",
    "accounts": {each: f"blue-{each}@a-project.iam.gserviceaccount.com" for each in FUNCTIONS},
    "environment": {"TPU_PROVISIONER_KINDS": "jobset,job", "TPU_PROVISIONER_KUEUE_ADMISSION_CHECK": "true"},
    "monitoring": True,
}
_RANGE = re.compile(
    r"^ *\{\{- range \$name, \$value := \.Values\.(\w+) \}\}\n(.*?)^ *\{\{- end \}\}\n", re.MULTILINE | re.DOTALL
)
_IF = re.compile(r"\A\{\{- if \.Values\.(\w+) \}\}\n(.*)^\{\{- end \}\}\n\Z", re.MULTILINE | re.DOTALL)
_VALUE = re.compile(r"\{\{ \.Values\.([\w.]+) \| quote \}\}")


def render_here(values: Mapping[str, Any]) -> list[Json]:
    """Return the chart's objects, rendered by the little of Go's templates that the chart uses."""
    found: list[Json] = []
    for path in sorted((CHART / "templates").glob("*.yaml")):
        text = re.sub(r"\A\{\{/\*.*?\*/\}\}\n", "", path.read_text())
        if matched := _IF.search(text):
            text = matched[2] if values[matched[1]] else ""
        text = _RANGE.sub(lambda each: _repeat(each[2], values[each[1]]), text)
        text = _VALUE.sub(lambda each: json.dumps(_look_up(values, each[1])), text)
        if "{{" in text:
            raise ValueError(f"{path.name}: has a construct that only Helm knows")
        found += [each for each in yaml.safe_load_all(text) if each]
    return found


def _repeat(body: str, values: Mapping[str, str]) -> str:
    lines = (
        body.replace("{{ $name }}", name).replace("{{ $value | quote }}", json.dumps(values[name]))
        for name in sorted(values)
    )
    return "".join(lines)


def _look_up(values: Mapping[str, Any], path: str) -> Any:
    found: Any = values
    for name in path.split("."):
        found = found[name]
    return found


def render_overlay(values: Mapping[str, Any]) -> list[Json]:
    """Return the objects of infra/kubernetes, with values where the build's overlay puts them."""
    objects = []
    for folder, names in SOURCES.items():
        for name in names:
            if folder != "monitoring" or values["monitoring"]:
                objects += list(yaml.safe_load_all((MANIFESTS / folder / f"{name}.yaml").read_text()))
    for each in objects:
        _put_values(each, values)
    return objects


def _put_values(each: Json, values: Mapping[str, Any]) -> None:
    if (each["kind"], each["metadata"]["name"]) == ("ClusterRoleBinding", BINDING):
        accounts = [values["accounts"][function] for function in FUNCTIONS]
        each["subjects"] = [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": account} for account in accounts
        ]
    if each["kind"] == "Deployment":
        (container,) = each["spec"]["template"]["spec"]["containers"]
        container["image"] = values["image"]
        given = {"TPU_PROVISIONER_CLUSTER": values["cluster"], "TPU_PROVISIONER_TOPIC": values["topic"]}
        for variable in container["env"]:
            variable["value"] = given.get(variable["name"], variable["value"])
        container["env"] += [{"name": key, "value": value} for key, value in sorted(values["environment"].items())]


def in_order(objects: list[Json]) -> list[Json]:
    """Return the objects sorted by what they are."""
    return sorted(
        objects, key=lambda each: (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"])
    )
