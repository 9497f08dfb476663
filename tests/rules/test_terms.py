"""Required terms of affinity and topology, held against the nodes that a pool gets."""

import copy
from functools import partial
from typing import Any

import pytest

from shared.kinds.jobset import EXCLUSIVE_TOPOLOGY
from shared.model import labels
from shared.model.decisions import Decision, Reason
from shared.model.needs import Tier
from shared.model.workloads import Requirement
from shared.needs.nodepool import Demand
from tests.demands import expect_demand
from tests.refusals import expect_words
from tests.rows import rows
from tests.rules.live_pods import Json, a_body, a_gpu_body, a_workload, change, plan

TPU = a_body(selectors={labels.ACCELERATOR: "tpu-v6e-slice", labels.TOPOLOGY: "2x2"})
GPU = a_gpu_body()
ZONE, OTHER_ZONE = "us-east5-b", "us-east5-a"  # the first is of the setting, for pods that select none
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
both = pytest.mark.parametrize("body", [TPU, GPU], ids=["TPU", "GPU"])

Term = list[tuple[str, str, list[str]]]


def having(body: Json, **spec: Any) -> Json:
    """Return a pod template with other fields of its pods' spec."""
    return {"metadata": {"labels": {"app": "train"}}, "spec": copy.deepcopy(body["spec"]) | spec}


def write(term: Term) -> list[Json]:
    return [{"key": key, "operator": operator, "values": values} for key, operator, values in term]


def requiring(body: Json, *terms: Term) -> Json:
    """Return a pod template whose nodes must satisfy one of these terms."""
    required = {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": write(term)} for term in terms]}}
    return having(body, affinity={"nodeAffinity": required})


def answer(body: Json, *, kind: str = "Job", **options: Any) -> Demand | Decision:
    (found,) = plan(a_workload(kind, body, **{"hosts": 1, **options}))
    return found


def is_no(value: str) -> Term:
    return [(labels.ZONE, "NotIn", [value])]


NO_SPOT: Term = [(labels.SPOT, "DoesNotExist", [])]


@both
@rows(
    "terms",
    {
        "another zone": [is_no(ZONE)],
        "each of several terms": [is_no(ZONE), [("team", "In", ["a"])]],
        "another tier": [[(labels.PROVISIONING, "NotIn", ["standard"])]],
        "machine": [[(labels.INSTANCE_TYPE, "NotIn", ["ct6e-standard-4t", "g2-standard-4"])]],
        "a number that no node has": [[("generation", "Gt", ["3"])]],
        "all of one term": [NO_SPOT + is_no(ZONE)],
    },
)
def test_nodes_that_the_pods_would_not_accept_are_never_made(body: Json, terms: list[Term]) -> None:
    key, operator, values = terms[0][-1]

    found = answer(requiring(body, *terms))
    expect_words(found, Reason.SELECTOR_UNSUPPORTED, key, operator, *values, "valid: ")


@both
def test_a_tier_that_the_affinity_excludes_is_refused_with_the_tier(body: Json) -> None:
    found = answer(change(requiring(body, NO_SPOT), {labels.SPOT: "true"}))

    assert expect_words(found, Reason.SELECTOR_UNSUPPORTED) == (
        "cloud.google.com/gke-spot: the pods do not accept the nodes that they would get "
        "(got 'cloud.google.com/gke-spot DoesNotExist'); valid: true, as these nodes have it"
    )


@both
@rows(
    "terms",
    {
        "no spot": [NO_SPOT],
        "another zone is excluded": [is_no(OTHER_ZONE)],
        "one of several terms": [is_no(ZONE), is_no(OTHER_ZONE)],
        "labels that no node has": [[("team", "NotIn", ["a"]), ("rack", "DoesNotExist", [])]],
        "a name that is not known": [[(labels.HOSTNAME, "NotIn", ["broken"])]],
        "a pool that is not known": [[(labels.NODE_POOL, "NotIn", ["mine"])]],
        "a label of GKE": [[("cloud.google.com/gke-boot-disk", "DoesNotExist", [])]],
        "a label of software": [[("nvidia.com/gpu.count", "Gt", ["0"])]],
    },
)
def test_nodes_that_the_pods_accept_or_may_accept_are_made(body: Json, terms: list[Term]) -> None:
    found = expect_demand(answer(requiring(body, *terms)))

    assert (found.way.zone, found.way.tier) == (ZONE, Tier.ON_DEMAND)


@both
def test_a_label_of_the_author_s_own_may_be_empty(body: Json) -> None:
    found = expect_demand(answer(change(requiring(body, [("team", "Exists", [])]), {"team": ""})))

    assert found.node_labels == {"team": ""}


def test_a_candidate_that_the_pods_do_not_accept_is_refused_by_its_number() -> None:
    annotations = {labels.CAPACITY: "- location: {zones: [us-east5-a, us-east5-b]}"}
    listed = change(requiring(TPU, is_no(OTHER_ZONE)), {}, annotations=annotations)
    words = ("candidate 1, on-demand in us-east5-a", f"{labels.ZONE} NotIn us-east5-a")

    expect_words(answer(listed), Reason.CAPACITY_CONFLICT, *words)


OF_L4: Term = [(labels.GPU_ACCELERATOR, "In", ["nvidia-l4"])]


@pytest.mark.parametrize(
    "terms", [[OF_L4, [("team", "In", ["a"])]], [[(labels.GPU_ACCELERATOR, "NotIn", ["nvidia-l4"])]]]
)
def test_a_type_of_gpus_that_is_not_certain_is_refused(terms: list[Term]) -> None:
    found = answer(requiring(change(GPU, {labels.GPU_ACCELERATOR: None}), *terms))

    expect_words(found, Reason.GPU_UNKNOWN, "selects no GPU type")


@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        (Requirement("n", "Gt", ("3",)), True),
        (Requirement("n", "Lt", ("3",)), True),
        (Requirement("none", "Gt", ("3",)), False),
        (Requirement("none", "Lt", ("5",)), False),
        (Requirement("app", "In", ("a", "b")), True),
        (Requirement("app", "In", ("b",)), False),
        (Requirement("app", "NotIn", ("b",)), True),
        (Requirement("none", "NotIn", ("b",)), True),
        (Requirement("app", "Exists"), True),
        (Requirement("none", "Exists"), False),
        (Requirement("none", "DoesNotExist"), True),
        (Requirement("app", "DoesNotExist"), False),
    ],
    ids=str,
)
def test_requirements_hold_as_kubernetes_has_it(requirement: Requirement, *, holds: bool) -> None:
    assert requirement.holds({"app": "a", "n": "4"}) is holds


@both
def test_huge_pages_that_no_node_of_ours_has_are_refused(body: Json) -> None:
    asking = having(body)
    asking["spec"]["containers"][0]["resources"]["limits"]["hugepages-2Mi"] = "1Gi"
    found = answer(asking)
    none = having(asking, nodeSelector={})
    for key in (labels.TPU_RESOURCE, labels.GPU_RESOURCE):
        none["spec"]["containers"][0]["resources"]["limits"].pop(key, None)

    expect_words(found, Reason.SHAPE_UNSUPPORTED, "resources.hugepages-2Mi: ", "1Gi", "valid: memory")
    assert plan(a_workload("Job", none, hosts=1)) == [], "those of other pods are none of our business"


# --- terms about topology labels: what no node has is refused by its name ---


def term(topology_key: str, app: str = "train", **fields: Any) -> Json:
    return {
        "topologyKey": topology_key,
        "labelSelector": {"matchExpressions": write([("app", "In", [app])])},
    } | fields


def together(*terms: Json) -> Json:
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


def apart(*terms: Json) -> Json:
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def spread(topology_key: str = "rack", **fields: Any) -> Json:
    usual = {"maxSkew": 1, "topologyKey": topology_key, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [usual | {"labelSelector": {"matchLabels": {"app": "train"}}} | fields]}


def ask(spec: Json, *, topology: str = "2x4", selector: dict[str, str | None] | None = None, **more: Any) -> Any:
    """Answer a JobSet of one slice, by default of two hosts."""
    body = change(having(TPU, **spec), {labels.TOPOLOGY: topology, **(selector or {})})
    return answer(body, **{"kind": "JobSet", "hosts": 2, **more})


on_single_hosts = partial(ask, kind="Deployment", topology="2x2", hosts=3)
WISHED = [{"weight": 1, "podAffinityTerm": term("rack", "other")}]
OF_OTHERS = (labels.NODE_POOL, labels.HOSTNAME, labels.ZONE, "nvidia.com/gpu.clique")


@rows(
    "found node_labels",
    {
        **{f"together by {key}": (ask(together(term(key, "other"))), {}) for key in OF_OTHERS},
        **{f"spread by {key}": (ask(spread(key)), {}) for key in OF_OTHERS},
        "preferred": (
            ask({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": WISHED}}}),
            {},
        ),
        "anyway": (ask(spread(whenUnsatisfiable="ScheduleAnyway")), {}),
        "a value that the pods select": (
            ask(together(term("rack", "other")), selector={"rack": "r7"}),
            {"rack": "r7"},
        ),
        "exclusive by pool": (ask({}, annotations={EXCLUSIVE_TOPOLOGY: labels.NODE_POOL}), {}),
        "apart by zone, which the scheduler tells": (ask(apart(term(labels.ZONE))), {}),
        "apart by what they select": (ask(apart(term("rack")), selector={"rack": "r7"}), {"rack": "r7"}),
    },
)
def test_terms_that_new_nodes_satisfy_ask_for_nothing(found: Demand, node_labels: dict[str, str]) -> None:
    assert expect_demand(found).node_labels == node_labels


OWN = {"together": together(term("rack")), "apart": apart(term("rack")), "spread": spread()}
OF_OWN = (
    "topologyKey: no node of a new node pool has this topology label (got 'rack')",
    "cloud.google.com/gke-nodepool, kubernetes.io/hostname, topology.kubernetes.io/zone",
    "a nodeSelector with a value of rack",
)


@rows(
    "found words",
    {
        **{f"a JobSet's pods {name}": (ask(spec), OF_OWN) for name, spec in OWN.items()},
        **{f"a Deployment's pods {name}": (on_single_hosts(spec), OF_OWN) for name, spec in OWN.items()},
    },
)
def test_a_required_label_that_no_new_node_has_is_refused_with_what_is_valid(
    found: Decision, words: tuple[str, ...]
) -> None:
    expect_words(found, Reason.SELECTOR_UNSUPPORTED, *words)
