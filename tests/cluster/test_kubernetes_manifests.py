"""Our manifests fit together: unique objects, bindings of what exists, no rule with a wildcard."""

import json

from standins.controlplane.api_objects import path_of
from standins.controlplane.chart import read_chart, read_local_chart
from tests.cluster.kubernetes_manifests import CHART, VALUES

OPTIONS = {"kueue": True, "pinning": True}


def test_our_manifests_are_complete_and_unique() -> None:
    objects = read_local_chart(CHART, OPTIONS)
    paths = [path_of(each) for each in objects]

    assert len(set(paths)) == len(paths)
    assert paths[0] == "/api/v1/namespaces/tpu-provisioner"
    # Each binding names a role and an account that are there.
    for each in objects:
        if each["kind"].endswith("RoleBinding"):
            namespace = f"/namespaces/{each['metadata']['namespace']}" if each["roleRef"]["kind"] == "Role" else ""
            role = f"{each['roleRef']['kind'].lower()}s/{each['roleRef']['name']}"
            assert f"/apis/rbac.authorization.k8s.io/v1{namespace}/{role}" in paths
            for subject in each["subjects"]:
                account = f"/api/v1/namespaces/{subject.get('namespace')}/serviceaccounts/{subject['name']}"
                assert subject["kind"] == "User" or account in paths


def test_an_option_adds_objects_and_changes_none() -> None:
    usual = read_chart(CHART, VALUES)
    for option in OPTIONS:
        objects = read_chart(CHART, VALUES | {option: True})
        assert [each for each in usual if each not in objects] == []
        assert len(objects) > len(usual)


def test_no_rule_of_ours_uses_a_wildcard() -> None:
    for each in read_chart(CHART, VALUES | OPTIONS):
        assert "*" not in json.dumps(each.get("rules", []))
