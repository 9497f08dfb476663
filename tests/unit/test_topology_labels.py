"""Terms about a node label of the author's own: the pool gets it, or the refusal names it."""

import dataclasses
from typing import Any

import pytest

from shared.core import labels
from shared.core.decide.demands import decide_planned_demand
from shared.core.decisions import Reason, Verdict
from shared.core.demand.demand import Demand
from shared.core.demand.topology_labels import ONE_FOR_ALL
from shared.core.kinds.table import get_kind, list_slices
from shared.core.topology_terms import Requirement, TermKind, TopologyTerm
from shared.core.workloads import WorkloadView
from shared.edges.workload_objects import read_workload
from tests.builders import CLUSTER, expect_decision, expect_demand, settings
from tests.unit.live_pods import a_pod_of, decide, plan

Json = dict[str, Any]

NAME = "jobset.sigs.k8s.io/jobset-name"
KEY = "jobset.sigs.k8s.io/job-key"
GROUP_KEY = "leaderworkerset.sigs.k8s.io/group-key"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
OF_GROUPS = "leaderworkerset.sigs.k8s.io/exclusive-topology"
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


OF_MULTISLICE = {
    "affinity": {
        "podAffinity": {REQUIRED: [term("MultisliceGroup", (NAME, "In", ["train"]))]},
        "podAntiAffinity": {
            REQUIRED: [
                term(
                    "MultisliceGroup",
                    (NAME, "NotIn", ["train"]),
                    namespaceSelector={"matchExpressions": [{"key": NAME, "operator": "Exists"}]},
                )
            ]
        },
    }
}


def test_pods_of_all_slices_that_must_be_together_get_one_value() -> None:
    """As a public example for multislice training has it: one JobSet in one group of pools."""
    workload = a_jobset(
        OF_MULTISLICE, annotations={EXCLUSIVE: labels.NODE_POOL}, selector={"MultisliceGroupSize": "2"}
    )

    assert labels_of(workload) == [{"MultisliceGroup": "ml_train", "MultisliceGroupSize": "2"}] * 2


@pytest.mark.parametrize("key", [labels.NODE_POOL, labels.HOSTNAME, labels.ZONE, "nvidia.com/gpu.clique"])
@pytest.mark.parametrize(
    "make", [lambda key: together(term(key, ("app", "In", ["other"]))), lambda key: spread(key, minDomains=3)]
)
def test_labels_that_others_give_to_nodes_are_left_to_them(key: str, make: Any) -> None:
    assert labels_of(a_jobset(make(key))) == [{}, {}]


def test_terms_that_only_prefer_ask_for_nothing() -> None:
    wished = [{"weight": 1, "podAffinityTerm": term("rack", ("app", "In", ["other"]))}]
    preferred = {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wished}}}

    assert labels_of(a_jobset(preferred)) == [{}, {}]
    assert labels_of(a_jobset(spread(whenUnsatisfiable="ScheduleAnyway"))) == [{}, {}]


def test_a_value_that_the_pods_select_stays() -> None:
    workload = a_jobset(together(term("rack", ("app", "In", ["other"]))), selector={"rack": "r7"})

    assert labels_of(workload) == [{"rack": "r7"}] * 2


def test_a_label_that_must_only_exist_gets_its_value() -> None:
    exists = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "Exists"}]}]}
    spec = together(term("rack", ("app", "In", ["train"])))
    spec["affinity"]["nodeAffinity"] = {REQUIRED: exists}

    assert labels_of(a_jobset(spec)) == [{"rack": "ml_train"}] * 2


def test_slices_that_a_controller_keeps_apart_get_a_value_each() -> None:
    workload = a_jobset({}, annotations={EXCLUSIVE: "rack"})

    assert labels_of(workload) == [{"rack": "ml_train-w-0"}, {"rack": "ml_train-w-1"}]


def test_a_live_leader_with_the_terms_of_its_webhook_gets_what_is_planned() -> None:
    """See https://github.com/kubernetes-sigs/jobset/blob/v0.11.1/pkg/webhooks/pod_mutating_webhook.go."""
    workload = a_jobset({}, annotations={EXCLUSIVE: "rack"})
    own = list_slices(workload)[1].group.template.labels
    exclusive = together(term("rack", (KEY, "In", [own[KEY]]), namespaceSelector={}))
    exclusive["affinity"] |= apart(
        term("rack", (KEY, "Exists", []), (KEY, "NotIn", [own[KEY]]), namespaceSelector={})
    )["affinity"]
    owner = {"kind": "Job", "name": "train-w-1"}
    pod_labels = {"app": "train"} | own
    found = decide(
        a_pod_of(owner, a_template(exclusive), name="train-w-1-0-x", namespace="ml", labels=pod_labels), workload
    )

    assert found == plan(workload)[1]
    assert isinstance(found, Demand)
    assert found.node_labels == {"rack": "ml_train-w-1"}


@pytest.mark.parametrize("annotation", ["", "sub"])
def test_groups_of_a_leaderworkerset_get_a_value_each(annotation: str) -> None:
    inner: Json = {"size": 2, "workerTemplate": a_template({})}
    if annotation:
        inner["subGroupPolicy"] = {"subGroupSize": 2}
    key = OF_GROUPS.replace("/", f"/{annotation}{'group-' * bool(annotation)}")
    workload = read("LeaderWorkerSet", {"replicas": 2, "leaderWorkerTemplate": inner}, {key: "rack"})
    suffix = "-0" * bool(annotation)

    assert labels_of(workload) == [{"rack": f"ml_train-0{suffix}"}, {"rack": f"ml_train-1{suffix}"}]


def test_a_live_group_is_told_from_others_by_its_own_key() -> None:
    inner: Json = {"size": 2, "workerTemplate": a_template({})}
    workload = read("LeaderWorkerSet", {"replicas": 2, "leaderWorkerTemplate": inner}, {OF_GROUPS: "rack"})
    own = list_slices(workload)[0].group.template.labels
    template = a_template(together(term("rack", (GROUP_KEY, "In", [own[GROUP_KEY]]))))
    fields = {"app": "train", "leaderworkerset.sigs.k8s.io/worker-index": "0"} | own
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "train"}
    pod = a_pod_of(owner, template, name="train-0", namespace="ml", labels=fields)

    found = expect_demand(decide(pod, workload))

    assert found.node_labels == {"rack": "ml_train-0"}


def test_the_replicas_of_a_deployment_are_together_on_their_one_pool() -> None:
    (found,) = labels_of(a_deployment(together(term("rack", ("app", "In", ["train"])))))

    assert found["rack"].startswith("ml_train-any-")


def test_pods_that_are_only_spread_share_one_value_with_all_others() -> None:
    assert labels_of(a_deployment(spread())) == [{"rack": ONE_FOR_ALL}]
    assert labels_of(a_jobset(spread())) == [{"rack": ONE_FOR_ALL}] * 2


def test_slices_spread_over_as_many_domains_as_there_are_slices() -> None:
    assert labels_of(a_jobset(spread(minDomains=2))) == [{"rack": "ml_train-w-0"}, {"rack": "ml_train-w-1"}]


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        pytest.param(
            a_jobset(together(term("rack", ("app", "In", ["cache"])))),
            ("podAffinity rack", "no node pool from this workload", "nodeSelector rack"),
            id="beside pods of another workload",
        ),
        pytest.param(
            a_jobset(together(term("rack", ("app", "In", ["train"]), namespaces=["cache"]))),
            ("podAffinity rack", "no node pool from this workload"),
            id="beside pods of another namespace",
        ),
        pytest.param(
            a_jobset(together({"topologyKey": "rack"})),
            ("podAffinity rack", "no node pool from this workload"),
            id="beside no pods",
        ),
        pytest.param(
            a_deployment(apart(term("rack", ("app", "In", ["train"])))),
            ("podAntiAffinity rack", "one value", "kubernetes.io/hostname"),
            id="replicas apart",
        ),
        pytest.param(
            a_deployment(apart(term(labels.ZONE, ("app", "In", ["train"])))),
            ("podAntiAffinity topology.kubernetes.io/zone", "one value", "kubernetes.io/hostname"),
            id="replicas in zones of their own",
        ),
        pytest.param(
            a_jobset(apart(term("rack", ("app", "Exists", [])))),
            ("podAntiAffinity rack", "one value"),
            id="hosts of a slice apart",
        ),
        pytest.param(
            a_deployment(spread(minDomains=2)),
            ("topologySpreadConstraints rack minDomains", "'2'", "ScheduleAnyway"),
            id="more domains than pools",
        ),
    ],
)
def test_terms_that_no_value_satisfies_are_refused_with_what_to_change(
    workload: WorkloadView, expected: tuple[str, ...]
) -> None:
    message = refusal(workload)

    assert [each for each in expected if each not in message] == []


def test_one_replica_may_keep_its_like_away() -> None:
    (found,) = labels_of(a_deployment(apart(term("rack", ("app", "In", ["train"]))), replicas=1))

    assert found["rack"].startswith("ml_train-any-")
    assert labels_of(a_deployment(apart(term(labels.ZONE, ("app", "In", ["train"]))), replicas=1)) == [{}]
    assert labels_of(a_deployment(apart(term(labels.ZONE, ("app", "In", ["other"]))))) == [{}]


def a_pair(spec_of_second: Json, first: Json) -> WorkloadView:
    """Two replicated jobs with a slice each: the first has the label ``role: first``."""
    first["metadata"]["labels"] = {"role": "first"}
    jobs = [
        {"name": name, "template": {"spec": {"parallelism": 2, "completions": 2, "template": template}}}
        for name, template in (("a", first), ("b", a_template(spec_of_second)))
    ]
    return read("JobSet", {"replicatedJobs": jobs})


def test_pods_that_others_of_their_workload_must_be_with_get_the_value_too() -> None:
    workload = a_pair(together(term("rack", ("role", "In", ["first"]))), a_template({}))

    assert labels_of(workload) == [{"rack": "ml_train"}] * 2


def test_the_value_that_pods_select_is_that_of_those_that_must_be_with_them() -> None:
    beside = together(term("rack", ("role", "In", ["first"])))
    workload = a_pair({**beside}, a_template({}, selector={"rack": "r7"}))

    assert labels_of(workload) == [{"rack": "r7"}] * 2


def test_pods_that_must_be_with_pods_without_accelerators_are_refused() -> None:
    of_cpu: Json = {"metadata": {}, "spec": {"containers": [{"name": "c"}]}}
    workload = a_pair(together(term("rack", ("role", "In", ["first"]))), of_cpu)

    decision = expect_decision(plan(workload)[1])
    assert "no node pool from this workload" in decision.message


def test_slices_keep_each_other_away_by_a_value_each() -> None:
    workload = a_jobset(apart(term("rack", ("app", "In", ["train"]))), topology="2x2", pods=1)

    assert labels_of(workload) == [{"rack": "ml_train-w-0"}, {"rack": "ml_train-w-1"}]


def test_a_long_name_makes_a_valid_value() -> None:
    metadata = {"namespace": "n" * 40, "name": "w" * 60, "uid": UID}
    template = a_template(together(term("rack", ("app", "In", ["train"]))), topology="2x2")
    workload = read_workload(get_kind("Deployment"), {"metadata": metadata, "spec": {"template": template}})
    (found,) = labels_of(workload)

    assert len(found["rack"]) == 63


@pytest.mark.parametrize("key", ["ray.io/cluster", "pod-template-hash"])
def test_a_label_that_a_controller_may_add_is_not_missed(key: str) -> None:
    (found,) = labels_of(a_deployment(together(term("rack", (key, "In", ["x"])))))

    assert found["rack"].startswith("ml_train-any-")


def test_a_slice_of_the_spec_without_its_controller_s_labels_gets_the_same_value() -> None:
    workload = a_jobset({}, annotations={EXCLUSIVE: "rack"})
    filled = list_slices(workload)[1]
    (group,) = workload.groups
    found = decide_planned_demand(CLUSTER, workload, dataclasses.replace(filled, group=group), settings())

    assert found == plan(workload)[1]


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


def test_pods_with_the_same_value_of_a_key_are_meant() -> None:
    same = TopologyTerm(kind=TermKind.AFFINITY, key="rack", selector=(), same_keys=("hash",))

    assert same.matches({"hash": "1"}, {"hash": "1"})
    assert not same.matches({"hash": "2"}, {"hash": "1"})
    assert not same.matches({"hash": "2"}, {}), "a label that the pod will have has another value"
