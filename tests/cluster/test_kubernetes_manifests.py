"""Our manifests fit together: unique objects, bindings of what exists, no rule with a wildcard."""

import json

from standins.controlplane.api_objects import path_of
from standins.controlplane.product_manifests import read_kustomization
from tests.cluster.kubernetes_manifests import MANIFESTS


def test_our_manifests_are_complete_and_unique() -> None:
    things = read_kustomization(MANIFESTS / "local")
    paths = [path_of(each) for each in things]

    assert len(set(paths)) == len(paths)
    assert paths[0] == "/api/v1/namespaces/tpu-provisioner"
    # Each binding names a role and an account that are there.
    for each in things:
        if each["kind"].endswith("Binding"):
            namespace = f"/namespaces/{each['metadata']['namespace']}" if each["roleRef"]["kind"] == "Role" else ""
            role = f"{each['roleRef']['kind'].lower()}s/{each['roleRef']['name']}"
            assert f"/apis/rbac.authorization.k8s.io/v1{namespace}/{role}" in paths
            for subject in each["subjects"]:
                account = f"/api/v1/namespaces/{subject.get('namespace')}/serviceaccounts/{subject['name']}"
                assert subject["kind"] == "User" or account in paths


def test_every_file_of_a_kustomize_folder_is_listed() -> None:
    folders = [path.parent for path in MANIFESTS.glob("*/kustomization.yaml")]
    optional = {"kueue", "monitoring", "pinning"}
    assert {"base", "exporter", "gke", "local"} | optional == {folder.name for folder in folders}
    for folder in folders:
        listed = (folder / "kustomization.yaml").read_text()
        files = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}
        assert [name for name in files if f"- {name}\n" not in listed] == []


def test_no_rule_of_ours_uses_a_wildcard() -> None:
    for folder in ("local", "kueue"):
        for each in read_kustomization(MANIFESTS / folder):
            assert "*" not in json.dumps(each.get("rules", []))
