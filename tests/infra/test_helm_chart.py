"""The chart renders what its values say, as Helm reads it, and refuses wrong values."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from shared import VERSION
from standins.controlplane.chart import ManifestBroken, read_chart
from tests.loop.chart import CHART, VALUES
from tests.program_runs import run_program

Json = dict[str, Any]

ALL: Json = VALUES | {
    "environment": {"TPU_PROVISIONER_KINDS": "jobset,job", "TPU_PROVISIONER_KUEUE_ADMISSION_CHECK": "true"},
    "kueue": True,
    "pinning": True,
    "training": {
        "namespaces": ["tpu-training", "research"],
        "googleAccount": "sa@p.iam.gserviceaccount.com",
        "settings": {"BUCKET_URL": "gs://b", "TENSORBOARD": ""},
        "priorities": {"very-low": 100, "very-high": 1000},
    },
    "queue": {
        "flavors": [{"name": "v6e-16", "accelerator": "tpu-v6e-slice", "topology": "4x4"}],
        "quotas": [{"flavor": "v6e-16", "chips": 64}],
    },
}
"""Every value that adds something."""


def find(objects: list[Json], kind: str) -> list[Json]:
    return [each for each in objects if each["kind"] == kind]


def name_of(each: Json) -> tuple[str, str, str]:
    return each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]


def test_only_what_the_values_name_is_in_it() -> None:
    objects = read_chart(CHART, VALUES)
    (container,) = find(objects, "Deployment")[0]["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each["value"] for each in container["env"]}

    assert container["image"] == VALUES["image"]
    assert (variables["TPU_PROVISIONER_CLUSTER"], variables["TPU_PROVISIONER_TOPIC"]) == (
        VALUES["cluster"],
        VALUES["topic"],
    )
    assert len(find(objects, "Namespace")) == 1
    assert not find(objects, "ClusterQueue")
    assert len(find(read_chart(CHART, VALUES | {"monitoring": False}), "PodMonitoring")) == 0


def test_the_queue_serves_the_namespaces_and_has_the_quotas() -> None:
    objects = read_chart(CHART, ALL)
    (queue,) = find(objects, "ClusterQueue")
    flavors = queue["spec"]["resourceGroups"][0]["flavors"]

    assert flavors == [{"name": "v6e-16", "resources": [{"name": "google.com/tpu", "nominalQuota": "64"}]}]
    (matched,) = queue["spec"]["namespaceSelector"]["matchExpressions"]
    assert matched["values"] == ["tpu-training", "research"]
    assert [each["metadata"]["namespace"] for each in find(objects, "LocalQueue")] == matched["values"]
    # Jobs of people run there, so neither an uninstall nor a shorter list deletes a namespace.
    for each in find(objects, "Namespace")[1:]:
        assert each["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_no_upgrade_sets_or_takes_back_a_stop() -> None:
    labels = [each["metadata"].get("labels", {}) for each in read_chart(CHART, ALL)]

    assert "mode" not in json.dumps(labels)


@pytest.mark.parametrize("line", ['name: {{ include "x" . }}', "{{- with .Values }}", "{{- range .Values.x }}"])
def test_a_construct_that_only_helm_knows_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "values.yaml").write_text("x: []\n")
    (tmp_path / "templates/a.yaml").write_text(f"{line}\n{{{{- end }}}}\n")

    with pytest.raises(ManifestBroken, match="is not understood here"):
        read_chart(tmp_path, {})


@pytest.mark.helm
@pytest.mark.parametrize("values", [VALUES, ALL, VALUES | {"monitoring": False}], ids=["few", "all", "bare"])
def test_helm_renders_the_same_objects(tmp_path: Path, values: Json) -> None:
    (tmp_path / "values.json").write_text(json.dumps(values))
    words = ("template", "x", str(CHART), "--kube-version=1.34", f"--values={tmp_path / 'values.json'}")
    rendered = run_program("helm", *words, succeeds=True).stdout

    theirs = [each for each in yaml.safe_load_all(rendered) if each]
    assert sorted(theirs, key=name_of) == sorted(read_chart(CHART, values), key=name_of)


def test_the_chart_has_the_version_of_its_source_and_a_default_for_each_value() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())

    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)
    assert set(defaults) | {"global"} == set(schema["properties"])
    assert set(schema["required"]) == set(VALUES)


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({}, None),
        ({"image": "exporter:latest"}, ["image"]),
        ({"cluster": "alpha"}, ["cluster"]),
        ({"topic": ""}, ["topic"]),
        ({"accounts": VALUES["accounts"] | {"collect": "somebody@example.com"}}, ["accounts", "collect"]),
        ({"accounts": {}}, ["accounts"]),
        ({"environment": {"TPU_PROVISIONER_TOPIC": "x"}}, ["environment"]),
        ({"environment": {"PATH": "x"}}, ["environment"]),
        ({"environment": {"TPU_PROVISIONER_DEBUG": True}}, ["environment", "TPU_PROVISIONER_DEBUG"]),
        ({"replicas": 3}, []),
        ({"queue": {"quotas": [{"flavor": "v6e-16", "chips": -1}]}}, ["queue", "quotas", 0, "chips"]),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(changes: Json, place: list[str] | None) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    errors = list(jsonschema.Draft7Validator(schema).iter_errors(ALL | changes))

    assert {tuple(each.absolute_path) for each in errors} == ({tuple(place)} if place is not None else set())
