"""Our manifests fit together: unique objects, bindings of what exists, no rule with a wildcard."""

import json
from typing import Any

from standins.controlplane.chart import read_chart, read_local_chart
from tests.cluster.kubernetes_manifests import CHART, VALUES

OPTIONS = {"kueue": True, "pinning": True}


def place_of(thing: dict[str, Any]) -> tuple[str, str, str]:
    return thing["kind"], thing["metadata"].get("namespace", ""), thing["metadata"]["name"]


def test_our_manifests_are_complete_and_unique() -> None:
    objects = read_local_chart(CHART, OPTIONS)
    places = [place_of(each) for each in objects]

    assert len(set(places)) == len(places)
    assert places[0] == ("Namespace", "", "tpu-provisioner")
    # Each binding names a role and an account that are there.
    for each in objects:
        if each["kind"].endswith("RoleBinding"):
            role = each["roleRef"]
            assert (role["kind"], each["metadata"].get("namespace", ""), role["name"]) in places
            for subject in each["subjects"]:
                account = ("ServiceAccount", subject.get("namespace"), subject["name"])
                assert subject["kind"] == "User" or account in places


def test_an_option_adds_objects_and_changes_none() -> None:
    usual = read_chart(CHART, VALUES)
    for option in OPTIONS:
        objects = read_chart(CHART, VALUES | {option: True})
        assert [each for each in usual if each not in objects] == []
        assert len(objects) > len(usual)


def test_no_rule_of_ours_uses_a_wildcard() -> None:
    for each in read_chart(CHART, VALUES | OPTIONS):
        assert "*" not in json.dumps(each.get("rules", []))
