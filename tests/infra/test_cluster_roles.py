"""The functions' ClusterRoles let each read every kind of workload; settle has all of provision.

`tests/cluster/test_cluster_rights.py` proves each right on a real control plane.
"""

from typing import Any

import pytest
import yaml

from infra.build.render_exporter import FUNCTIONS
from shared.kinds.table import KINDS
from tests.infra.terraform_cli import ROOT

RULES: dict[str, list[dict[str, Any]]] = {
    each["metadata"]["name"].removeprefix("tpu-provisioner-"): each["rules"]
    for each in yaml.safe_load_all((ROOT / "infra/kubernetes/base/functions-rights.yaml").read_text())
    if each["kind"] == "ClusterRole"
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_may_read_every_kind(function: str) -> None:
    granted = {
        (group, plural)
        for rule in RULES[function]
        if "get" in rule["verbs"] and "resourceNames" not in rule
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }

    assert sorted({(kind.group, kind.plural) for kind in KINDS} - granted) == []


def test_settle_has_the_rights_of_provision_because_it_does_the_same() -> None:
    assert RULES["settle"] == RULES["provision"]
    assert set(RULES) == set(FUNCTIONS)
