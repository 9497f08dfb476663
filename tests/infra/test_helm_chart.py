"""The exporter's Helm chart gives the same objects as kustomize, and refuses wrong values."""

import json
from typing import Any

import jsonschema
import pytest
import yaml

from infra.build.write_chart import CHART, MANIFESTS, SOURCES, render_chart
from shared.version import VERSION
from tests.infra.helm_chart import VALUES, in_order, render_here, render_overlay


def test_the_chart_is_made_from_the_manifests() -> None:
    there = {path.name: path.read_text() for path in (CHART / "templates").iterdir()}

    assert there == render_chart(), "run: python -m infra.build.write_chart"


@pytest.mark.parametrize("changes", [{}, {"monitoring": False}, {"environment": {}}], ids=str)
def test_the_chart_and_the_overlay_are_the_same_objects(changes: dict[str, Any]) -> None:
    values = VALUES | changes
    rendered = render_here(values)

    assert in_order(rendered) == in_order(render_overlay(values))
    assert len(rendered) > 10
    assert "PROJECT_ID" not in json.dumps(rendered)


def test_every_manifest_of_the_overlay_is_in_the_chart() -> None:
    for folder, names in SOURCES.items():
        (kustomization,) = yaml.safe_load_all((MANIFESTS / folder / "kustomization.yaml").read_text())
        assert kustomization["resources"] == [f"{name}.yaml" for name in names]
    (overlay,) = yaml.safe_load_all((MANIFESTS / "gke/kustomization.yaml").read_text())
    assert [*overlay["resources"], *overlay["components"]] == [f"../{folder}" for folder in SOURCES]


def test_the_chart_has_the_version_of_its_source_and_a_default_for_each_value() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())

    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)
    assert set(defaults) == set(VALUES) == set(schema["required"])


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
    ],
)
def test_a_wrong_value_is_refused_with_its_place(changes: dict[str, Any], place: list[str] | None) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    errors = list(jsonschema.Draft7Validator(schema).iter_errors(VALUES | changes))

    assert {tuple(each.absolute_path) for each in errors} == ({tuple(place)} if place is not None else set())
