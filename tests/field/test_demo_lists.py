"""The demo reads what `plan` reads: lists of any kind, in lists, and what a cluster printed."""

from pathlib import Path

import pytest

from demo.manifests import BadManifest, load
from tests.field.planned import INPUTS, plan

NAME = "jobset-list.yaml"


def test_items_have_the_kind_of_their_list() -> None:
    documents = load([str(INPUTS / NAME)])

    named = [(each.kind, each.name, each.body["apiVersion"]) for each in documents]
    assert named == [
        ("JobSet", "listed", "jobset.x-k8s.io/v1alpha2"),
        ("JobSet", "untyped", "jobset.x-k8s.io/v1alpha2"),
        ("ConfigMap", "script", "v1"),
    ]


def test_plan_and_demo_see_the_same_jobsets() -> None:
    jobsets = {each.name for each in load([str(INPUTS / NAME)]) if each.kind == "JobSet"}

    assert {need["workload"] for need in plan(NAME)["needs"]} == jobsets


@pytest.mark.parametrize("items", ["{}", "7", "[x]"])
def test_a_list_without_objects_is_named(items: str, tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    path.write_text(f"apiVersion: v1\nkind: JobSetList\nitems: {items}\n")

    with pytest.raises(BadManifest, match="is not"):
        load([str(path)])


def test_an_empty_list_beside_a_jobset_is_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "both.yaml"
    path.write_text(f"apiVersion: v1\nkind: List\nitems: []\n---\n{(INPUTS / NAME).read_text()}")

    assert len(load([str(path)])) == 3
