"""The pods of a JobSet's slice against the hosts of its topology."""

import dataclasses
from typing import Any

import pytest

from shared.model import labels
from shared.model.decisions import Decision, Reason
from shared.needs.nodepool import Demand
from tests.builders import a_jobset, a_template, expect_decision
from tests.demands import expect_demand, plan_demands

PARTIAL = {labels.PARTIAL_SLICE: "true"}


def decide(pods: int, *, annotations: dict[str, str] | None = None, **shape: Any) -> Demand | Decision:
    """Decide the first slice of a JobSet with so many pods for each slice."""
    jobset = a_jobset(template=a_template(annotations=annotations or {}, **shape))
    jobset = dataclasses.replace(jobset, groups=(dataclasses.replace(jobset.groups[0], pods=pods),))
    return plan_demands(jobset)[0]


@pytest.mark.parametrize(
    ("pods", "shape"),
    [
        (4, {}),
        (1, {"topology": "2x2"}),
        (1, {"topology": "2x4", "chips": 8}),
        (2, {"topology": "2x4"}),
        (2, {"accelerator": "tpu-v5p-slice", "topology": "2x2x2"}),
    ],
)
def test_one_pod_for_each_host_is_a_slice(pods: int, shape: dict[str, Any]) -> None:
    found = expect_demand(decide(pods, **shape))
    assert found.shape.node_count == pods


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


def test_no_annotation_makes_room_for_more_pods_than_hosts() -> None:
    assert isinstance(decide(8, annotations=PARTIAL), Decision)


@pytest.mark.parametrize(("pods", "topology"), [(2, "4x4"), (1, "2x4")])
def test_one_pod_for_each_eight_chips_is_a_known_pattern_of_one_core_chips(pods: int, topology: str) -> None:
    found = expect_demand(decide(pods, topology=topology))
    assert found.shape.node_count == 2 * pods


def test_pods_without_chips_are_not_counted_against_hosts() -> None:
    assert isinstance(decide(1, chips=0), Demand)
