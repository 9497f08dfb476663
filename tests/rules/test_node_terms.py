"""Required node affinity, all operators and terms, is held against the nodes that a pool gets."""

import copy
from typing import Any

import pytest

from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.needs import Tier
from shared.model.workloads import Requirement
from shared.needs.nodepool import Demand
from tests.builders import expect_decision
from tests.demands import expect_demand
from tests.rows import rows
from tests.rules.live_pods import a_body, a_workload, change, plan

TPU = a_body(selectors={labels.ACCELERATOR: "tpu-v6e-slice", labels.TOPOLOGY: "2x2"})
GPU = a_body(chips=0, gpus=1, selectors={labels.GPU_ACCELERATOR: "nvidia-l4"})
ZONE = "us-east5-b"  # of the setting, for pods that select none
both = pytest.mark.parametrize("body", [TPU, GPU], ids=["TPU", "GPU"])

Term = list[tuple[str, str, list[str]]]


def requiring(body: dict[str, Any], *terms: Term) -> dict[str, Any]:
    """Return a pod template whose nodes must satisfy one of these terms."""
    changed = copy.deepcopy(body)
    found = [
        {
            "matchExpressions": [
                {"key": key, "operator": operator, "values": values} for key, operator, values in term
            ]
        }
        for term in terms
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": found}}
    changed["spec"]["affinity"] = {"nodeAffinity": required}
    return changed


def answer(body: dict[str, Any]) -> Demand | Decision:
    [found] = plan(a_workload("Job", body, hosts=1))
    return found


def is_no(value: str) -> Term:
    return [(labels.ZONE, "NotIn", [value])]


@both
@rows(
    "terms",
    {
        "another zone": [is_no(ZONE)],
        "each of several terms": [is_no(ZONE), [("team", "In", ["a"])]],
        "another tier": [[(labels.PROVISIONING, "NotIn", ["standard"])]],
        "machine": [[(labels.INSTANCE_TYPE, "NotIn", ["ct6e-standard-4t", "g2-standard-4"])]],
        "a number that no node has": [[("generation", "Gt", ["3"])]],
        "all of one term": [[(labels.SPOT, "DoesNotExist", []), *is_no(ZONE)]],
    },
)
def test_nodes_that_the_pods_would_not_accept_are_never_made(body: dict[str, Any], terms: list[Term]) -> None:
    found = expect_decision(answer(requiring(body, *terms)))

    assert (found.verdict, found.reason) == (Verdict.REFUSE, Reason.SELECTOR_UNSUPPORTED)
    key, operator, values = terms[0][-1]
    assert all(each in found.message for each in (key, operator, *values, "valid: "))


@both
def test_a_tier_that_the_affinity_excludes_is_refused_with_the_tier(body: dict[str, Any]) -> None:
    found = expect_decision(
        answer(change(requiring(body, [(labels.SPOT, "DoesNotExist", [])]), {labels.SPOT: "true"}))
    )

    assert found.message == (
        "cloud.google.com/gke-spot: the pods do not accept the nodes that they would get "
        "(got 'cloud.google.com/gke-spot DoesNotExist'); valid: true, as these nodes have it"
    )


@both
@rows(
    "terms",
    {
        "no spot": [[(labels.SPOT, "DoesNotExist", [])]],
        "another zone is excluded": [is_no("us-east5-a")],
        "one of several terms": [is_no(ZONE), is_no("us-east5-a")],
        "labels that no node has": [[("team", "NotIn", ["a"]), ("rack", "DoesNotExist", [])]],
        "a name that is not known": [[(labels.HOSTNAME, "NotIn", ["broken"])]],
        "a pool that is not known": [[(labels.NODE_POOL, "NotIn", ["mine"])]],
        "a label of GKE": [[("cloud.google.com/gke-boot-disk", "DoesNotExist", [])]],
        "a label of software": [[("nvidia.com/gpu.count", "Gt", ["0"])]],
    },
)
def test_nodes_that_the_pods_accept_or_may_accept_are_made(body: dict[str, Any], terms: list[Term]) -> None:
    found = expect_demand(answer(requiring(body, *terms)))

    assert (found.way.zone, found.way.tier) == (ZONE, Tier.ON_DEMAND)


@both
def test_a_label_of_the_author_s_own_may_be_empty(body: dict[str, Any]) -> None:
    found = expect_demand(answer(change(requiring(body, [("team", "Exists", [])]), {"team": ""})))

    assert found.node_labels == {"team": ""}


def test_a_candidate_that_the_pods_do_not_accept_is_refused_by_its_number() -> None:
    listed = change(TPU, {}, annotations={labels.CAPACITY: "- location: {zones: [us-east5-a, us-east5-b]}"})
    found = expect_decision(answer(requiring(listed, is_no("us-east5-a"))))

    assert "candidate 1, on-demand in us-east5-a" in found.message
    assert f"{labels.ZONE} NotIn us-east5-a" in found.message


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ([[(labels.GPU_ACCELERATOR, "In", ["nvidia-l4"])], [("team", "In", ["a"])]], "selects no GPU type"),
        ([[(labels.GPU_ACCELERATOR, "NotIn", ["nvidia-l4"])]], "selects no GPU type"),
    ],
)
def test_a_type_of_gpus_that_is_not_certain_is_refused(terms: list[Term], message: str) -> None:
    found = expect_decision(answer(requiring(change(GPU, {labels.GPU_ACCELERATOR: None}), *terms)))

    assert message in found.message


@pytest.mark.parametrize(
    ("operator", "value", "holds"),
    [("Gt", "3", True), ("Gt", "4", False), ("Lt", "5", True), ("Lt", "4", False), ("Gt", "x", False)],
)
def test_numbers_are_compared_as_kubernetes_does(operator: str, value: str, *, holds: bool) -> None:
    assert Requirement("n", operator, (value,)).holds({"n": "4"}) is holds
    assert not Requirement("n", operator, (value,)).holds({})


@both
def test_huge_pages_that_no_node_of_ours_has_are_refused(body: dict[str, Any]) -> None:
    asking = copy.deepcopy(body)
    asking["spec"]["containers"][0]["resources"]["limits"]["hugepages-2Mi"] = "1Gi"
    found = expect_decision(answer(asking))

    assert found.message.startswith("resources.hugepages-2Mi: ")
    assert all(each in found.message for each in ("1Gi", "valid: memory"))


def test_huge_pages_of_other_pods_are_none_of_our_business() -> None:
    asking = copy.deepcopy(a_body(chips=0, selectors={}))
    asking["spec"]["containers"][0]["resources"]["limits"]["hugepages-2Mi"] = "1Gi"

    assert plan(a_workload("Job", asking, hosts=1)) == []
