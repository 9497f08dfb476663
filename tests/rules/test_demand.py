"""From a live leader pod and its live JobSet to one demand, or to the reason why there is none."""

from typing import Any

import pytest
from msgspec import structs

from shared.capacity_texts import CapacityPolicy
from shared.kinds import jobset as jobset_keys
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.needs import Tier, Way
from shared.model.workloads import PodView, SliceGroup, TermKind, TopologyTerm, WorkloadView
from shared.needs.nodepool import Demand
from shared.settings import Settings
from tests.builders import CLUSTER, a_jobset, a_pod, a_template, settings
from tests.demands import a_demand, decide_demand, expect_demand, want
from tests.refusals import expect_words
from tests.rows import rows


def read(
    pod: PodView | None = None, jobset: WorkloadView | None = None, use: Settings | None = None
) -> Demand | Decision:
    pod = pod or a_pod()
    jobset = jobset or a_jobset(namespace=pod.namespace, template=pod.template)
    return decide_demand(CLUSTER, pod, jobset, use or settings())


def test_a_part_of_a_workload_that_is_not_served_is_refused_by_the_name_of_the_whole() -> None:
    part = structs.replace(a_jobset(), part_of="Workflow")

    expect_words(read(a_pod(), part), Reason.OWNER_KIND_UNKNOWN, "part of Workflow")


@pytest.mark.parametrize(
    ("peers", "machine", "hosts"),
    [
        ({"chips": 8, "topology": "2x4"}, "ct6e-standard-8t", 1),
        ({"chips": 1, "topology": "1x1"}, "ct6e-standard-4t", 2),
    ],
)
def test_a_leader_without_chips_takes_those_of_its_peers_if_they_have_its_shape(
    peers: dict[str, Any], machine: str, hosts: int
) -> None:
    leader = a_pod(shape={"chips": 0, "topology": "2x4"})
    jobset = a_jobset(template=leader.template)
    rest = SliceGroup(name="rest", template=a_template(**peers))
    found = expect_demand(read(leader, structs.replace(jobset, groups=(*jobset.groups, rest))))

    assert (found.shape.machine.name, found.shape.node_count) == (machine, hosts)


OPTED_OUT = {labels.DISABLE_AUTOPROVISIONING: "true"}
OWN_POOL: dict[str, Any] = {"selectors": {labels.NODE_POOL: "mine"}}
LEFT, MISTAKEN = Reason.DEMAND_LEFT_TO_GKE, Reason.IDENTITY_MISMATCH


@rows(
    "pod jobset reason",
    {
        "opt-out label": (a_pod(pod_labels=OPTED_OUT), a_jobset(), Reason.DEMAND_OPTED_OUT),
        "opt-out annotation": (a_pod(annotations=OPTED_OUT), a_jobset(), Reason.DEMAND_OPTED_OUT),
        "ComputeClass": (a_pod(shape={"selectors": {labels.COMPUTE_CLASS: "c"}}), a_jobset(), LEFT),
        "ComputeClass by Exists": (a_pod(shape={"node_affinity": {labels.COMPUTE_CLASS: ()}}), a_jobset(), LEFT),
        **{
            f"ProvisioningRequest by {key}": (a_pod(annotations={key: "r"}), a_jobset(), LEFT)
            for key in labels.PROVISIONING_REQUESTS
        },
        "a pool of its own": (
            a_pod(shape=OWN_POOL),
            a_jobset(template=a_template(**OWN_POOL)),
            Reason.DEMAND_BOUND_ELSEWHERE,
        ),
        "managedBy": (a_pod(), a_jobset(managed_elsewhere=True), LEFT),
        "a bare pod with borrowed labels": (a_pod(controller_name=""), a_jobset(), MISTAKEN),
        "no Job": (a_pod(controller_kind="StatefulSet"), a_jobset(), MISTAKEN),
        "another JobSet's Job": (a_pod(controller_name="other-workers-0"), a_jobset(), MISTAKEN),
        "scaled away": (a_pod(controller_name="train-workers-2"), a_jobset(), MISTAKEN),
        "no such replicated job": (a_pod(controller_name="train-other-0"), a_jobset(), MISTAKEN),
    },
)
def test_what_is_no_demand_is_left_alone_with_its_reason(
    pod: PodView, jobset: WorkloadView, reason: Reason
) -> None:
    assert expect_words(read(pod, jobset), reason, verdict=Verdict.NOTHING)
    assert isinstance(read(a_pod(pod_labels={labels.DISABLE_AUTOPROVISIONING: "false"})), Demand)


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


def test_the_slice_is_of_the_live_jobset_and_not_what_labels_say() -> None:
    pod = a_pod(pod_labels={jobset_keys.JOB_KEY: "forged", jobset_keys.REPLICATED_JOB_ON_POD: "forged"})

    assert [each.slice for each in want(a_jobset(), pod).pods] == ["train-workers-0"]


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
