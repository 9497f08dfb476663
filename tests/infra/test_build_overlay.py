"""The overlay that the build writes for one cluster, as kubectl renders it with the manifests."""

import json
from pathlib import Path

import pytest
import yaml

from infra.build.render_exporter import FUNCTIONS, NAMESPACE, RESERVING
from tests.infra.build_scripts import BUILD, find_kubectl
from tests.infra.helm_chart import VALUES
from tests.program_runs import run_program, run_python

pytestmark = pytest.mark.tool

PRINCIPALS = {"other-project": "principal://x/subject/ns/tpu-provisioner/sa/tpu-provisioner-exporter"}
ENVIRONMENT = {"TPU_PROVISIONER_CLUSTER": VALUES["cluster"], "TPU_PROVISIONER_TOPIC": VALUES["topic"]}


@pytest.fixture
def rendered(tmp_path: Path) -> str:
    served = {"main": {"path": VALUES["cluster"], "endpoint": "https://x", "exporter_environment": ENVIRONMENT}}
    outputs = tmp_path / "outputs.json"
    fields = {"clusters": served, "accounts": VALUES["accounts"], "exporter_principals": PRINCIPALS}
    outputs.write_text(json.dumps({name: {"value": value} for name, value in fields.items()}))
    overlay, image = tmp_path / "overlay", VALUES["image"]
    options = (f"--outputs={outputs}", "--cluster=main", f"--image={image}", f"--folder={overlay}")
    run_python(BUILD / "render_exporter.py", *options, succeeds=True)
    return run_program(find_kubectl(), "kustomize", overlay, succeeds=True).stdout


@pytest.mark.parametrize(("kind", "functions"), [("ClusterRoleBinding", FUNCTIONS), ("RoleBinding", RESERVING)])
def test_each_functions_account_is_bound_to_its_own_role_and_those_that_create_to_one_in_our_namespace(
    rendered: str, kind: str, functions: tuple[str, ...]
) -> None:
    bound = {
        each["roleRef"]["name"]: [subject["name"] for subject in each["subjects"]]
        for each in yaml.safe_load_all(rendered)
        if each["kind"] == kind and each["subjects"][0]["kind"] == "User"
    }
    assert bound == {f"tpu-provisioner-{each}": [VALUES["accounts"][each]] for each in functions}


def test_whatever_rights_name_is_in_the_namespace_that_the_build_demands(rendered: str) -> None:
    objects = list(yaml.safe_load_all(rendered))
    named = [
        rule["resourceNames"]
        for each in objects
        for rule in each.get("rules", ())
        if "namespaces" in rule["resources"] and "resourceNames" in rule
    ]

    # kube-system tells which cluster it is, and has that name everywhere.
    assert named == [["kube-system", NAMESPACE]]
    assert [each["metadata"]["name"] for each in objects if each["kind"] == "Namespace"] == [NAMESPACE]


def test_everything_in_the_cluster_is_found_again_when_it_is_taken_down(rendered: str) -> None:
    """The destroy build deletes the namespace, and cluster-wide roles by their label."""
    for each in yaml.safe_load_all(rendered):
        inside = each["metadata"].get("namespace", each["metadata"]["name"]) == "tpu-provisioner"
        labelled = each["metadata"].get("labels", {}).get("app.kubernetes.io/part-of") == "tpu-provisioner"
        assert inside or (labelled and each["kind"] in ("ClusterRole", "ClusterRoleBinding")), each["metadata"]
