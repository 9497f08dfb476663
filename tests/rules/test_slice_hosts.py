"""The pods of a JobSet's slice against the hosts of its topology."""

from typing import Any

import pytest
from msgspec import structs

from shared.model import labels
from shared.model.decisions import Decision, Reason
from shared.needs.nodepool import Demand
from tests.builders import a_jobset, a_template, expect_decision
from tests.demands import expect_demand, plan_demands

PARTIAL = {labels.PARTIAL_SLICE: "true"}


def decide(pods: int, *, annotations: dict[str, str] | None = None, **shape: Any) -> Demand | Decision:
    """Decide the first slice of a JobSet with so many pods for each slice."""
    jobset = a_jobset(template=a_template(annotations=annotations or {}, **shape))
    jobset = structs.replace(jobset, groups=(structs.replace(jobset.groups[0], pods=pods),))
    return plan_demands(jobset)[0]


@pytest.mark.parametrize(
    ("pods", "hosts", "shape"),
    [
        (4, 4, {}),
        (1, 1, {"topology": "2x2"}),
        (1, 1, {"topology": "2x4", "chips": 8}),
        (2, 2, {"topology": "2x4"}),
        (2, 2, {"accelerator": "tpu-v5p-slice", "topology": "2x2x2"}),
        (2, 4, {"topology": "4x4"}),  # one pod for each eight chips, a known pattern of one-core chips
        (1, 2, {"topology": "2x4"}),
        (1, 4, {"chips": 0}),  # pods without chips are not counted against hosts
    ],
)
def test_one_pod_for_each_host_is_a_slice(pods: int, hosts: int, shape: dict[str, Any]) -> None:
    assert expect_demand(decide(pods, **shape)).shape.node_count == hosts


@pytest.mark.parametrize(
    ("pods", "shape", "valid"),
    [
        (4, {"topology": "2x2"}, f"valid: 1; or {labels.TOPOLOGY} 4x4, which has 4 hosts"),
        (4, {"topology": None}, f"valid: 1; or {labels.TOPOLOGY} 4x4, which has 4 hosts"),
        (3, {}, f'valid: 4; or the annotation {labels.PARTIAL_SLICE}: "true"'),
        (8, {}, f"valid: 4; or {labels.TOPOLOGY} 4x8, which has 8 hosts"),
        (2, {"topology": "2x4", "chips": 8}, "valid: 1"),
        (1, {"accelerator": "tpu-v5p-slice", "topology": "2x2x2"}, f"{labels.TOPOLOGY} 2x2x1, which has 1 host"),
    ],
)
def test_any_other_number_is_refused_with_the_ways_out(pods: int, shape: dict[str, Any], valid: str) -> None:
    found = expect_decision(decide(pods, **shape))
    assert found.reason == Reason.HOSTS_DIFFER
    assert f"got '{pods}'" in found.message
    assert valid in found.message


@pytest.mark.parametrize("pods", [1, 3])
def test_idle_hosts_are_bought_if_the_author_says_so(pods: int) -> None:
    assert isinstance(decide(pods, annotations=PARTIAL), Demand)
    assert isinstance(decide(pods, annotations={labels.PARTIAL_SLICE: "false"}), Decision)
    assert isinstance(decide(8, annotations=PARTIAL), Decision), "it makes no room for more pods than hosts"
