"""The functions' one ClusterRole lets them read every kind of workload.

`tests/cluster/test_cluster_rights.py` proves each right on a real control plane.
"""

import pytest
import yaml

from infra.build.render_exporter import BINDING, FUNCTIONS
from shared.kinds.table import KINDS
from tests.infra.terraform_cli import ROOT

ROLE, BOUND = yaml.safe_load_all((ROOT / "infra/kubernetes/base/functions-rights.yaml").read_text())


@pytest.mark.parametrize("verb", ["get", "list"])
def test_the_functions_may_read_every_kind(verb: str) -> None:
    granted = {
        (group, plural)
        for rule in ROLE["rules"]
        if verb in rule["verbs"]
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }

    assert sorted({(kind.group, kind.plural) for kind in KINDS} - granted) == []


def test_both_functions_have_the_role() -> None:
    assert ROLE["metadata"]["name"] == BOUND["roleRef"]["name"] == BOUND["metadata"]["name"] == BINDING
    assert [each["name"].partition("@")[0] for each in BOUND["subjects"]] == [
        f"tpu-provisioner-{function}" for function in FUNCTIONS
    ]
