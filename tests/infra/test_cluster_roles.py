"""The functions' one ClusterRole lets them read every kind of workload.

`tests/loop/test_rights.py` proves each right on a real control plane.
"""

import pytest

from shared.kinds.table import KINDS
from standins.controlplane.chart import read_chart
from tests.loop.chart import CHART, VALUES

NAME = "tpu-provisioner-functions"
BOUND, ROLE = sorted(
    (each for each in read_chart(CHART, VALUES) if each["metadata"]["name"] == NAME),
    key=lambda each: "Binding" not in each["kind"],
)


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
    assert BOUND["roleRef"]["name"] == NAME
    assert [each["name"] for each in BOUND["subjects"]] == [*VALUES["accounts"].values()]
