"""Slices that GKE's dynamic slicing forms are left alone, and the text names the feature."""

from typing import Any

from shared.model import labels
from shared.model.decisions import Reason, Verdict
from shared.model.workloads import TermKind, TopologyTerm
from shared.needs.nodepool import Demand
from tests.builders import expect_decision
from tests.rows import rows
from tests.rules.asked_shapes import decide_shape

SLICE = "cloud.google.com/gke-tpu-slice"
PARTITION = "cloud.google.com/gke-tpu-partition-4x4x4-state"
IRONWOOD: dict[str, Any] = {"accelerator": "tpu7x", "topology": "4x4x4"}


@rows(
    "shape key",
    {
        "a slice by its name": (IRONWOOD | {"selectors": {SLICE: "test-slice"}}, SLICE),
        "healthy partitions": (IRONWOOD | {"selectors": {PARTITION: "HEALTHY"}}, PARTITION),
        "partitions of two states": (
            IRONWOOD | {"node_affinity": {PARTITION: ("HEALTHY", "DEGRADED")}},
            PARTITION,
        ),
        "a slice for each Job": (
            IRONWOOD | {"topology_terms": (TopologyTerm(kind=TermKind.AFFINITY, key=SLICE),)},
            SLICE,
        ),
        "a part of a larger slice": (
            {"annotations": {"kueue.x-k8s.io/podset-required-topology": "cloud.google.com/gke-tpu-slice-2x4-id"}},
            "gke-tpu-slice-2x4-id",
        ),
        "a slice of several pools": (
            {"accelerator": "tpu7x", "topology": None, "annotations": {labels.SLICE_TOPOLOGY: "4x12x16"}},
            labels.SLICE_TOPOLOGY,
        ),
    },
)
def test_a_slice_that_gke_forms_is_left_alone_and_the_feature_is_named(shape: dict[str, Any], key: str) -> None:
    found = expect_decision(decide_shape(**shape))

    assert (found.verdict, found.reason) == (Verdict.NOTHING, Reason.DEMAND_LEFT_TO_GKE)
    assert "dynamic slicing" in found.message
    assert f"remove {'cloud.google.com/' * (key.startswith('gke'))}{key}" in found.message


@rows(
    "shape",
    {
        "an annotation of what one pool can be": {
            "accelerator": "tpu7x",
            "topology": None,
            "annotations": {labels.SLICE_TOPOLOGY: "4x4x4"},
        },
        "a selector of a large topology": {"accelerator": "tpu7x", "topology": "4x8x8"},
        "a generation without dynamic slicing": {
            "accelerator": "tpu-v5p-slice",
            "topology": None,
            "annotations": {labels.SLICE_TOPOLOGY: "4x8x8"},
        },
    },
)
def test_what_one_pool_serves_gets_it(shape: dict[str, Any]) -> None:
    assert isinstance(decide_shape(**shape), Demand)
