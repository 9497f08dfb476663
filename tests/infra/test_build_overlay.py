"""The overlay that the build writes for one cluster, as kubectl renders it with the manifests."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from infra.build.render_exporter import NAMESPACE
from tests.infra.build_scripts import BUILD

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.tool

CLUSTER = "projects/other-project/locations/us-east5/clusters/alpha"
TOPIC = "projects/a-project/topics/blue-workload-events"
FUNCTIONS = ("provision", "collect", "settle", "sweep")
ACCOUNTS = {each: f"blue-{each}@a-project.iam.gserviceaccount.com" for each in FUNCTIONS}
RESERVING = ("provision", "settle", "sweep")
PRINCIPALS = {"other-project": "principal://x/subject/ns/tpu-provisioner/sa/tpu-provisioner-exporter"}
IMAGE = f"us-east5-docker.pkg.dev/a-project/blue-images/exporter@sha256:{'a' * 64}"
ENVIRONMENT = {"TPU_PROVISIONER_CLUSTER": CLUSTER, "TPU_PROVISIONER_TOPIC": TOPIC}


@pytest.fixture
def rendered(tmp_path: Path) -> str:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.fail("this test needs kubectl: https://kubernetes.io/docs/tasks/tools/")
    served = {"main": {"path": CLUSTER, "endpoint": "https://x", "exporter_environment": ENVIRONMENT}}
    outputs = tmp_path / "outputs.json"
    said = {"clusters": served, "accounts": ACCOUNTS, "exporter_principals": PRINCIPALS}
    outputs.write_text(json.dumps({name: {"value": value} for name, value in said.items()}))
    command = [sys.executable, str(BUILD / "render_exporter.py"), "--outputs", str(outputs), "--cluster=main"]
    subprocess.run([*command, f"--image={IMAGE}", "--folder", str(tmp_path / "overlay")], timeout=60, check=True)
    command = [kubectl, "kustomize", str(tmp_path / "overlay")]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def test_nothing_of_the_placeholders_is_left(rendered: str) -> None:
    for placeholder in ("PROJECT_ID", "LOCATION/", "CLUSTER\n", "TOPIC\n", "image: exporter"):
        assert placeholder not in rendered.replace("TPU_PROVISIONER_CLUSTER\n", "").replace(
            "TPU_PROVISIONER_TOPIC\n", ""
        )


def test_the_exporter_has_its_image_by_digest_and_its_settings(rendered: str) -> None:
    objects: list[dict[str, Any]] = list(yaml.safe_load_all(rendered))
    pod = next(each for each in objects if each["kind"] == "Deployment")["spec"]["template"]["spec"]
    container = pod["containers"][0]
    values = {each["name"]: each.get("value") for each in container["env"]}

    assert len(pod["containers"]) == 1
    assert container["image"] == IMAGE
    assert values.items() >= ENVIRONMENT.items()
    assert len(values) > len(ENVIRONMENT)  # what the manifest says itself is still there


def test_each_functions_account_is_bound_to_its_own_role(rendered: str) -> None:
    bound = {
        each["roleRef"]["name"]: [subject["name"] for subject in each["subjects"]]
        for each in yaml.safe_load_all(rendered)
        if each["kind"] == "ClusterRoleBinding" and each["subjects"][0]["kind"] == "User"
    }
    assert bound == {f"tpu-provisioner-{function}": [account] for function, account in ACCOUNTS.items()}


def test_the_functions_that_create_have_their_account_in_our_own_namespace_too(rendered: str) -> None:
    bound = {
        each["roleRef"]["name"]: [subject["name"] for subject in each["subjects"]]
        for each in yaml.safe_load_all(rendered)
        if each["kind"] == "RoleBinding" and each["subjects"][0]["kind"] == "User"
    }
    assert bound == {f"tpu-provisioner-{function}": [ACCOUNTS[function]] for function in RESERVING}


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
