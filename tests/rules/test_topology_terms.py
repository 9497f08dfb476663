"""Required terms about topology labels: what no node has is refused by its name."""

from typing import Any

import pytest

from shared.edges.pods import read_workload
from shared.kinds.table import get_kind
from shared.model import labels
from shared.model.decisions import Reason, Verdict
from shared.model.workloads import Requirement, WorkloadView
from shared.needs.nodepool import Demand
from tests.builders import expect_decision
from tests.rules.live_pods import plan

Json = dict[str, Any]

NAME = "jobset.sigs.k8s.io/jobset-name"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
UID = "5e7d3a52-4f0c-4b7e-9a52-0d9f0f0c1a01"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def term(topology_key: str, *expressions: tuple[str, str, list[str]], **fields: Any) -> Json:
    chosen = [{"key": key, "operator": operator, "values": values} for key, operator, values in expressions]
    return {"topologyKey": topology_key, "labelSelector": {"matchExpressions": chosen}} | fields


def together(*terms: Json) -> Json:
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


def apart(*terms: Json) -> Json:
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def spread(topology_key: str = "rack", **fields: Any) -> Json:
    usual = {"maxSkew": 1, "topologyKey": topology_key, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [usual | {"labelSelector": {"matchLabels": {"app": "train"}}} | fields]}


def a_template(spec: Json, *, topology: str = "2x4", selector: dict[str, str] | None = None) -> Json:
    wanted = {labels.ACCELERATOR: "tpu-v6e-slice", labels.TOPOLOGY: topology} | (selector or {})
    container = {"name": "c", "resources": {"limits": {labels.TPU_RESOURCE: 4}}}
    return {
        "metadata": {"labels": {"app": "train"}},
        "spec": {"nodeSelector": wanted, "containers": [container]} | spec,
    }


def a_jobset(
    spec: Json, *, pods: int = 2, annotations: dict[str, str] | None = None, **template: Any
) -> WorkloadView:
    """Two slices."""
    job = {"parallelism": pods, "completions": pods, "template": a_template(spec, **template)}
    return read(
        "JobSet", {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": job}}]}, annotations
    )


def a_deployment(spec: Json, replicas: int = 3) -> WorkloadView:
    return read("Deployment", {"replicas": replicas, "template": a_template(spec, topology="2x2")})


def read(kind: str, spec: Json, annotations: dict[str, str] | None = None) -> WorkloadView:
    metadata = {"namespace": "ml", "name": "train", "uid": UID, "annotations": annotations or {}}
    return read_workload(get_kind(kind), {"metadata": metadata, "spec": spec})


def labels_of(workload: WorkloadView) -> list[dict[str, str]]:
    demands = plan(workload)
    assert all(isinstance(each, Demand) for each in demands), demands
    return [each.node_labels for each in demands if isinstance(each, Demand)]


def refusal(workload: WorkloadView) -> str:
    decision = expect_decision(plan(workload)[0])
    assert (decision.verdict, decision.reason) == (Verdict.REFUSE, Reason.SELECTOR_UNSUPPORTED)
    return decision.message


@pytest.mark.parametrize("key", [labels.NODE_POOL, labels.HOSTNAME, labels.ZONE, "nvidia.com/gpu.clique"])
@pytest.mark.parametrize(
    "make", [lambda key: together(term(key, ("app", "In", ["other"]))), lambda key: spread(key, minDomains=3)]
)
def test_labels_that_others_give_to_nodes_are_left_to_them(key: str, make: Any) -> None:
    assert labels_of(a_jobset(make(key))) == [{}]


def test_terms_that_only_prefer_ask_for_nothing() -> None:
    wished = [{"weight": 1, "podAffinityTerm": term("rack", ("app", "In", ["other"]))}]
    preferred = {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wished}}}

    assert labels_of(a_jobset(preferred)) == [{}]
    assert labels_of(a_jobset(spread(whenUnsatisfiable="ScheduleAnyway"))) == [{}]


def test_a_value_that_the_pods_select_stays() -> None:
    workload = a_jobset(together(term("rack", ("app", "In", ["other"]))), selector={"rack": "r7"})

    assert labels_of(workload) == [{"rack": "r7"}]


OWN_KEYS = {
    "together": together(term("rack", ("app", "In", ["train"]))),
    "apart": apart(term("rack", ("app", "In", ["train"]))),
    "spread": spread(),
}


@pytest.mark.parametrize("spec", OWN_KEYS.values(), ids=OWN_KEYS)
@pytest.mark.parametrize("make", [a_jobset, a_deployment], ids=["JobSet", "Deployment"])
def test_a_required_label_of_one_s_own_is_refused_with_what_is_valid(make: Any, spec: Json) -> None:
    message = refusal(make(spec))

    assert "topologyKey: no node of a new node pool has this topology label (got 'rack')" in message
    assert "cloud.google.com/gke-nodepool, kubernetes.io/hostname, topology.kubernetes.io/zone" in message
    assert "a nodeSelector with a value of rack" in message


def test_exclusive_placement_by_a_label_of_one_s_own_is_refused() -> None:
    assert "(got 'rack')" in refusal(a_jobset({}, annotations={EXCLUSIVE: "rack"}))
    assert labels_of(a_jobset({}, annotations={EXCLUSIVE: labels.NODE_POOL})) == [{}]


@pytest.mark.parametrize("selector", [{}, {"rack": "r7"}], ids=["zone", "a label that they select"])
def test_pods_of_one_pool_cannot_be_apart_by_what_its_nodes_have_in_common(selector: dict[str, str]) -> None:
    away = apart(term(next(iter(selector), labels.ZONE), ("app", "In", ["train"])))

    assert "all nodes of a pool have one value of it" in refusal(a_jobset(away, selector=selector))
    assert labels_of(a_jobset(away, topology="2x2", pods=1, selector=selector)) == [selector]


@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        (Requirement("app", "In", ("a", "b")), True),
        (Requirement("app", "In", ("b",)), False),
        (Requirement("app", "NotIn", ("b",)), True),
        (Requirement("none", "NotIn", ("b",)), True),
        (Requirement("app", "Exists"), True),
        (Requirement("none", "Exists"), False),
        (Requirement("none", "DoesNotExist"), True),
        (Requirement("app", "DoesNotExist"), False),
        (Requirement("app", "Like", ("a",)), False),
    ],
)
def test_requirements_hold_as_kubernetes_has_it(requirement: Requirement, holds: bool) -> None:
    assert requirement.holds({"app": "a"}) == holds
