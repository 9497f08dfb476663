"""From a live leader pod and its live JobSet to one demand, or to the reason why there is none."""

from typing import Any

import pytest
from msgspec import structs

from shared.capacity_texts import CapacityPolicy
from shared.kinds import jobset as jobset_keys
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.needs import Tier, Way
from shared.model.workloads import PodView, SliceGroup, WorkloadView
from shared.needs.nodepool import Demand
from shared.settings import Settings
from tests.builders import CLUSTER, a_jobset, a_pod, a_template, expect_decision, settings
from tests.demands import a_demand, decide_demand, expect_demand, want
from tests.rows import rows


def read(
    pod: PodView | None = None, jobset: WorkloadView | None = None, use: Settings | None = None
) -> Demand | Decision:
    pod = pod or a_pod()
    jobset = jobset or a_jobset(namespace=pod.namespace, template=pod.template)
    return decide_demand(CLUSTER, pod, jobset, use or settings())


def refused(pod: PodView, use: Settings | None = None, jobset: WorkloadView | None = None) -> Decision:
    found = expect_decision(read(pod, jobset, use))
    assert found.verdict == Verdict.REFUSE
    return found


def test_the_plain_case_is_a_demand_of_one_slice() -> None:
    demand = a_demand()

    assert (demand.shape.machine.name, demand.shape.node_count) == ("ct6e-standard-4t", 4)
    assert demand.way.zone == "us-east5-b"
    assert demand.node_labels == {}
    assert not demand.need.pin


def test_a_part_of_a_workload_that_is_not_served_is_refused_by_the_name_of_the_whole() -> None:
    decision = refused(a_pod(), jobset=structs.replace(a_jobset(), part_of="Workflow"))

    assert decision.reason == Reason.OWNER_KIND_UNKNOWN
    assert "part of Workflow" in decision.message


def test_selectors_may_be_in_affinity_and_the_topology_in_an_annotation() -> None:
    by_affinity = a_demand(topology=None, node_affinity={labels.TOPOLOGY: ("4x4",)})
    by_annotation = a_demand(topology=None, annotations={labels.SLICE_TOPOLOGY: "4x4"})
    accelerator = a_demand(accelerator=None, node_affinity={labels.ACCELERATOR: ("tpu-v6e-slice",)})

    assert by_affinity.shape == by_annotation.shape == accelerator.shape == a_demand().shape


@pytest.mark.parametrize("key", [labels.ACCELERATOR, labels.TOPOLOGY, labels.INSTANCE_TYPE, labels.ZONE, "team"])
def test_an_ambiguous_affinity_is_refused_with_its_values(key: str) -> None:
    template = a_template()
    template.selection[key] = ("one", "two")

    decision = refused(a_pod(template=template))
    assert decision.reason == Reason.SELECTOR_UNSUPPORTED
    assert all(part in decision.message for part in (key, "one, two", "one value"))


def test_a_topology_annotation_alone_is_a_demand_that_lacks_its_accelerator() -> None:
    alone = a_template(chips=0, topology=None, accelerator=None, annotations={labels.SLICE_TOPOLOGY: "4x4"})

    assert "the pod selects no TPU type" in refused(a_pod(template=alone)).message


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


def left_to_gke(**pod: Any) -> tuple[dict[str, Any], dict[str, Any], Reason]:
    return pod, {}, Reason.DEMAND_LEFT_TO_GKE


def mistaken(**pod: Any) -> tuple[dict[str, Any], dict[str, Any], Reason]:
    return pod, {}, Reason.IDENTITY_MISMATCH


OPTED_OUT = {labels.DISABLE_AUTOPROVISIONING: "true"}
OWN_POOL: dict[str, Any] = {"selectors": {labels.NODE_POOL: "mine"}}
NO_DEMAND = {
    "opt-out label": ({"pod_labels": OPTED_OUT}, {}, Reason.DEMAND_OPTED_OUT),
    "opt-out annotation": ({"annotations": OPTED_OUT}, {}, Reason.DEMAND_OPTED_OUT),
    "ComputeClass": left_to_gke(shape={"selectors": {labels.COMPUTE_CLASS: "c"}}),
    "ComputeClass by Exists": left_to_gke(shape={"node_affinity": {labels.COMPUTE_CLASS: ()}}),
    **{
        f"ProvisioningRequest by {key}": left_to_gke(annotations={key: "r"})
        for key in labels.PROVISIONING_REQUESTS
    },
    "a pool of its own": (
        {"shape": OWN_POOL},
        {"template": a_template(**OWN_POOL)},
        Reason.DEMAND_BOUND_ELSEWHERE,
    ),
    "managedBy": ({}, {"managed_elsewhere": True}, Reason.DEMAND_LEFT_TO_GKE),
    "a bare pod with borrowed labels": mistaken(controller_name=""),
    "no Job": mistaken(controller_kind="StatefulSet"),
    "another JobSet's Job": mistaken(controller_name="other-workers-0"),
    "scaled away": mistaken(controller_name="train-workers-2"),
    "no such replicated job": mistaken(controller_name="train-other-0"),
}


@rows("pod jobset reason", NO_DEMAND)
def test_what_is_no_demand_is_left_alone_with_its_reason(
    pod: dict[str, Any], jobset: dict[str, Any], reason: Reason
) -> None:
    found = expect_decision(read(a_pod(**pod), a_jobset(**jobset)))

    assert (found.verdict, found.reason) == (Verdict.NOTHING, reason)
    assert found.message


@pytest.mark.parametrize(
    "pod",
    [
        {"deleting": True},
        {"node_name": "n"},
        {"nominated_node": "n"},
        {"gates": ("example.com/hold",)},
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


def test_an_opt_out_of_false_is_none() -> None:
    assert isinstance(read(a_pod(pod_labels={labels.DISABLE_AUTOPROVISIONING: "false"})), Demand)


def test_the_slice_is_of_the_live_jobset_and_not_what_labels_say() -> None:
    pod = a_pod(pod_labels={jobset_keys.JOB_KEY: "forged", jobset_keys.REPLICATED_JOB_ON_POD: "forged"})

    assert [each.slice for each in want(a_jobset(), pod).pods] == ["train-workers-0"]


ACCOUNT, NETWORKS, COPY = labels.NODE_SERVICE_ACCOUNT, labels.ADDITIONAL_NODE_NETWORKS, labels.COPY_LABELS
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
ANY_NETWORK = {"allowed_node_networks": ("*",)}


@pytest.mark.parametrize(
    ("use", "annotations", "words"),
    [
        ({"allowed_namespaces": ("ml-*",)}, {}, ("metadata.namespace", "'default'", "ml-*")),
        ({"allowed_accelerators": ("tpu-v5*",)}, {}, (labels.ACCELERATOR, "tpu-v6e-slice", "tpu-v5*")),
        ({}, {ACCOUNT: "admin@p.iam"}, (ACCOUNT, "admin@p.iam", "allowed_node_service_accounts", "none")),
        (
            {"allowed_node_service_accounts": ("tpu-*@p.iam",)},
            {ACCOUNT: "admin@p.iam"},
            ("admin@p.iam", "tpu-*@p.iam"),
        ),
        ({}, {NETWORKS: "n:s"}, (NETWORKS, "n:s", "allowed_node_networks")),
        (ANY_NETWORK, {NETWORKS: "n"}, ("'n'", "network:subnetwork")),
        (ANY_NETWORK, {NETWORKS: "n:s,:t"}, ("':t'", "network:subnetwork")),
        (
            {"allowed_label_prefixes": ("team/*",)},
            {COPY: "team/a, cost"},
            (COPY, "'cost'", "allowed_label_prefixes"),
        ),
        ({}, {COPY: labels.JOBSET_NAME}, (COPY, labels.JOBSET_NAME)),
        ({}, {COPY: CONTROL_PLANE}, (CONTROL_PLANE,)),
    ],
)
def test_free_text_outside_the_operator_s_lists_is_refused_naming_field_value_and_setting(
    use: dict[str, Any], annotations: dict[str, str], words: tuple[str, ...]
) -> None:
    decision = refused(a_pod(annotations=annotations), settings(**use))

    assert decision.reason == Reason.REQUEST_NOT_ALLOWED
    assert [word for word in words if word not in decision.message] == []


def test_free_text_within_the_operator_s_lists_is_honoured() -> None:
    use = settings(
        allowed_node_service_accounts=("tpu-*@p.iam",),
        allowed_node_networks=("net:*",),
        node_additional_networks=("always:there",),
    )
    annotations = {
        labels.NODE_SERVICE_ACCOUNT: "tpu-1@p.iam",
        labels.ADDITIONAL_NODE_NETWORKS: " net:a , net:b,",
        labels.COPY_LABELS: " team , ,absent",
    }
    demand = a_demand(pod=a_pod(annotations=annotations, pod_labels={"team": "vision"}), use=use)

    assert demand.node_service_account == "tpu-1@p.iam"
    assert demand.networks == ("net:a", "net:b")
    assert demand.node_labels == {"team": "vision"}


def test_without_annotations_the_operator_s_settings_hold_and_may_be_named_without_a_list() -> None:
    use = settings(node_service_account="nodes@p.iam", node_additional_networks=("n:s",))
    named = a_pod(annotations={labels.NODE_SERVICE_ACCOUNT: "nodes@p.iam"})

    for pod in (None, named):
        demand = a_demand(pod=pod, use=use)
        assert (demand.node_service_account, demand.networks) == ("nodes@p.iam", ("n:s",))


BOTH = {jobset_keys.EXCLUSIVE_TOPOLOGY: labels.NODE_POOL, jobset_keys.NODE_SELECTOR_STRATEGY: "true"}


@pytest.mark.parametrize(
    ("on_jobset", "on_job", "pinned"),
    [
        (BOTH, {}, True),
        ({}, BOTH, True),
        ({jobset_keys.EXCLUSIVE_TOPOLOGY: "x"}, {jobset_keys.NODE_SELECTOR_STRATEGY: "true"}, True),
        ({jobset_keys.EXCLUSIVE_TOPOLOGY: "x"}, {}, False),
        ({jobset_keys.NODE_SELECTOR_STRATEGY: "true"}, {}, False),
        ({}, {}, False),
    ],
)
def test_the_node_selector_strategy_pins_the_pool(
    on_jobset: dict[str, str], on_job: dict[str, str], pinned: bool
) -> None:
    demand = a_demand(jobset=a_jobset(annotations=on_jobset, job_annotations=on_job))

    assert bool(demand.need.pin) is pinned
    assert demand.node_labels == ({jobset_keys.NAMESPACED_JOB: "default_train-workers-0"} if pinned else {})


def test_a_pinned_pod_selects_its_own_job() -> None:
    jobset = a_jobset(annotations=BOTH)
    own = a_pod(shape={"selectors": {jobset_keys.NAMESPACED_JOB: "default_train-workers-0"}})

    assert isinstance(read(own, jobset), Demand)
    assert refused(own).reason == Reason.SELECTOR_UNSUPPORTED


def key_of(use: Settings | None = None, **shape: Any) -> str:
    (need,) = want(a_jobset(template=a_template(**shape)), use=use).needs
    return need.key


def test_the_key_of_a_need_knows_what_the_workload_asks_for() -> None:
    asked: list[dict[str, Any]] = [
        {},
        {"topology": "2x4"},
        {"topology": "2x4", "chips": 8},
        {"selectors": {labels.SPOT: "true"}},
        {"selectors": {labels.RESERVATION_NAME: "r"}},
        {"selectors": {labels.RESERVATION_NAME: "r", labels.RESERVATION_PROJECT: "shared-project"}},
        {"selectors": {"team": "a"}},
        {"selectors": {"team": "b"}},
        {"node_affinity": {"team": ("a", "b")}},
        {"cpu_millis": 1000},
        {"volume_claims": ("data",)},
        {"annotations": {labels.ADDITIONAL_NODE_NETWORKS: "n:s"}},
    ]

    assert len({key_of(**each) for each in asked}) == len(asked)
    assert key_of() == key_of()


@pytest.mark.parametrize(
    "use",
    [
        {"copy_labels": ("team",)},
        {"node_service_account": "a@p.iam"},
        {"node_additional_networks": ("n:s",)},
        {"node_disk_type": "pd-ssd"},
        {"force_on_demand": True},
        {"kinds": ("Job",)},
        {"allowed_namespaces": ("other",)},
        {"allowed_accelerators": ("other",)},
        {"capacity_policies": (CapacityPolicy(ways=(Way(Tier.SPOT), Way(Tier.ON_DEMAND))),)},
    ],
)
def test_no_setting_changes_the_key_of_a_need_or_what_fits_it(use: dict[str, Any]) -> None:
    (plain,), (changed,) = (want(a_jobset(), use=each).needs for each in (settings(), settings(**use)))

    assert (changed.key, changed.asks, changed.most) == (plain.key, plain.asks, plain.most)
