"""From a live leader pod and its live JobSet to one demand, or to the reason why there is none."""

from typing import Any

import pytest

from shared.capacity_texts import CapacityPolicy
from shared.kinds import jobset as jobset_keys
from shared.model import labels
from shared.model.decisions import Decision, Reason
from shared.model.needs import Tier, Way
from shared.model.workloads import PodView, TermKind, TopologyTerm, WorkloadView
from shared.needs.ways import Demand
from shared.settings import Settings
from tests.builders import CLUSTER, a_jobset, a_pod, a_template, settings
from tests.demands import a_demand, decide_demand, want
from tests.refusals import expect_words


def read(
    pod: PodView | None = None, jobset: WorkloadView | None = None, use: Settings | None = None
) -> Demand | Decision:
    pod = pod or a_pod()
    jobset = jobset or a_jobset(namespace=pod.namespace, template=pod.template)
    return decide_demand(CLUSTER, pod, jobset, use or settings())


@pytest.mark.parametrize(
    "pod",
    [
        *({"deleting": True}, {"node_name": "n"}, {"nominated_node": "n"}, {"gates": ("example.com/hold",)}),
        {"unschedulable": False},
    ],
)
def test_a_pod_that_does_not_wait_for_a_node_is_of_its_need_all_the_same(pod: dict[str, Any]) -> None:
    (waiting,) = want(a_jobset(), a_pod()).pods
    (seen,) = want(a_jobset(), a_pod(**pod)).pods

    assert (waiting.waits, seen.waits, seen.need) == (True, False, waiting.need)


@pytest.mark.parametrize("state", [{"deleting": True}, {"terminal": "Completed"}, {"suspended": True}])
def test_whether_a_workload_is_over_or_suspended_is_the_plan_s_to_judge(state: dict[str, Any]) -> None:
    assert want(a_jobset(**state)).needs == want(a_jobset()).needs


EXCLUSIVE, STRATEGY = {jobset_keys.EXCLUSIVE_TOPOLOGY: "x"}, {jobset_keys.NODE_SELECTOR_STRATEGY: "true"}
BOTH = STRATEGY | {jobset_keys.EXCLUSIVE_TOPOLOGY: labels.NODE_POOL}


@pytest.mark.parametrize(
    ("on_jobset", "on_job", "pinned"),
    [
        *((BOTH, {}, True), ({}, BOTH, True), (EXCLUSIVE, STRATEGY, True)),
        *((EXCLUSIVE, {}, False), (STRATEGY, {}, False), ({}, {}, False)),
    ],
)
def test_the_node_selector_strategy_pins_the_pool(
    on_jobset: dict[str, str], on_job: dict[str, str], pinned: bool
) -> None:
    demand = a_demand(jobset=a_jobset(annotations=on_jobset, job_annotations=on_job))

    assert bool(demand.need.pin) is pinned
    assert demand.node_labels == ({jobset_keys.NAMESPACED_JOB: "default_train-workers-0"} if pinned else {})


def test_a_leader_that_exclusive_placement_ties_to_a_label_of_no_new_node_is_refused() -> None:
    terms = (TopologyTerm(kind=TermKind.AFFINITY, key="rack"),)
    leader = a_pod(template=a_template(topology_terms=terms))

    expect_words(read(leader, a_jobset()), Reason.SELECTOR_UNSUPPORTED, "(got 'rack')")
    assert want(a_jobset(template=leader.template), leader).refusals == (), "the spec's is told once"


def test_a_pinned_pod_selects_its_own_job() -> None:
    own = a_pod(shape={"selectors": {jobset_keys.NAMESPACED_JOB: "default_train-workers-0"}})

    assert isinstance(read(own, a_jobset(annotations=BOTH)), Demand)
    expect_words(read(own), Reason.SELECTOR_UNSUPPORTED)


def key_of(**shape: Any) -> str:
    (need,) = want(a_jobset(template=a_template(**shape))).needs
    return need.key


def test_the_key_of_a_need_knows_what_the_workload_asks_for() -> None:
    lent = {labels.RESERVATION_NAME: "r", labels.RESERVATION_PROJECT: "shared-project"}
    selectors: list[dict[str, str]] = [
        *({labels.SPOT: "true"}, {labels.RESERVATION_NAME: "r"}, lent, {"team": "a"}, {"team": "b"})
    ]
    asked: list[dict[str, Any]] = [
        *({}, {"topology": "2x4"}, {"topology": "2x4", "chips": 8}, {"node_affinity": {"team": ("a", "b")}}),
        *({"cpu_millis": 1000}, {"volume_claims": ("data",)}),
        {"annotations": {labels.ADDITIONAL_NODE_NETWORKS: "n:s"}},
        *({"selectors": each} for each in selectors),
    ]

    assert len({key_of(**each) for each in asked}) == len(asked)
    assert key_of() == key_of(annotations={labels.CAPACITY: "- {}"}), "a list that comes or goes changes no slot"


@pytest.mark.parametrize(
    "use",
    [
        *({"copy_labels": ("team",)}, {"node_service_account": "a@p.iam"}, {"node_additional_networks": ("n:s",)}),
        *({"node_disk_type": "pd-ssd"}, {"force_on_demand": True}, {"kinds": ("Job",)}),
        *({"allowed_namespaces": ("other",)}, {"allowed_accelerators": ("other",)}),
        {"capacity_policies": (CapacityPolicy(ways=(Way(Tier.SPOT), Way(Tier.ON_DEMAND))),)},
    ],
)
def test_no_setting_changes_the_key_of_a_need_or_what_fits_it(use: dict[str, Any]) -> None:
    (plain,), (changed,) = (want(a_jobset(), use=each).needs for each in (settings(), settings(**use)))

    assert (changed.key, changed.asks, changed.most) == (plain.key, plain.asks, plain.most)
