"""The spec decides the shape: what a live pod may add, and what is refused, for every kind."""

from typing import Any

import pytest
from msgspec import structs

from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.needs import Tier
from shared.needs.nodepool import Demand
from tests.builders import PINNED_JOB_KEY, expect_decision, settings
from tests.demands import expect_demand, want
from tests.rows import rows
from tests.rules.live_pods import (
    ALL,
    HOSTS,
    OF_CPU,
    ONE_HOST,
    SLICED,
    Json,
    a_body,
    a_leader,
    a_workload,
    change,
    decide,
    require,
)

CONTROLLED = tuple(kind for kind in ALL if kind != "Pod")
SPOT, RESERVED = {labels.SPOT: "true"}, {labels.RESERVATION_NAME: "ours"}
L4 = {labels.GPU_ACCELERATOR: "nvidia-l4"}


def refused(kind: str, spec: Json, pod: Json, *, hosts: int = HOSTS, **use: Any) -> str:
    """Return the message of the refusal of a pod that contradicts its spec."""
    found = decide(a_leader(kind, pod), a_workload(kind, spec, hosts=hosts), settings(**use))
    assert isinstance(found, Decision), f"a demand: {found.shape}"
    assert (found.verdict, found.reason) == (Verdict.REFUSE, Reason.POD_CONTRADICTS_SPEC), found.message
    return found.message


def accepted(kind: str, spec: Json, pod: Json, *, hosts: int = HOSTS, **use: Any) -> Demand:
    return expect_demand(decide(a_leader(kind, pod), a_workload(kind, spec, hosts=hosts), settings(**use)))


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CONTROLLED)
def test_a_forged_leader_of_a_workload_without_accelerators_buys_nothing(kind: str) -> None:
    forged = a_body(selectors={labels.ACCELERATOR: "tpu-v6e-slice", labels.TOPOLOGY: "16x16"})
    message = refused(kind, OF_CPU, forged)

    assert all(part in message for part in ("(got '4 chips, 0 GPUs')", "valid: 0 chips", f"{kind} default/train"))


@pytest.mark.parametrize("kind", CONTROLLED)
@pytest.mark.parametrize("key", [labels.ACCELERATOR, labels.TOPOLOGY])
def test_a_selector_alone_does_not_make_a_workload_one_of_accelerators(kind: str, key: str) -> None:
    found = expect_decision(decide(a_leader(kind, change(OF_CPU, {key: "16x16"})), a_workload(kind, OF_CPU)))

    assert found.reason == Reason.IDENTITY_MISMATCH


FORGED: dict[str, Any] = {
    "topology": ({labels.TOPOLOGY: "16x16"}, ("gke-tpu-topology", "'16x16'", "4x4")),
    "accelerator": ({labels.ACCELERATOR: "tpu7x"}, ("gke-tpu-accelerator", "'tpu7x'", "v6e")),
    "topology left out": ({labels.TOPOLOGY: None}, ("gke-tpu-topology", "'none'", "4x4")),
    "a selector of its own": ({"team": "b"}, ("team", "'b'", "valid: a")),
    "a selector left out": ({"team": None}, ("team", "'none'", "valid: a")),
}


@pytest.mark.parametrize("kind", SLICED)
@rows("forged words", FORGED)
def test_a_pod_that_changes_a_selector_of_the_spec_buys_nothing(
    kind: str, forged: dict[str, str | None], words: tuple[str, ...]
) -> None:
    spec = change(a_body(), {"team": "a"})
    message = refused(kind, spec, change(spec, forged))

    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize("kind", CONTROLLED)
@pytest.mark.parametrize("chips", [0, 1, 8])
def test_a_pod_with_other_chips_than_the_spec_buys_nothing(kind: str, chips: int) -> None:
    spec = a_body() if kind in SLICED else ONE_HOST
    pod = a_body(chips=chips, selectors=spec["spec"]["nodeSelector"])

    assert f"(got '{chips} chips, 0 GPUs'); valid: 4 chips" in refused(kind, spec, pod)


@rows(
    "of_spec of_pod",
    {
        "spot": (SPOT, RESERVED),
        "a reservation": (RESERVED, SPOT),
        "another reservation": (RESERVED, {labels.RESERVATION_NAME: "theirs"}),
        "no tier": (SPOT, {}),
        "zone": ({labels.ZONE: "us-east5-a"}, {labels.ZONE: "us-east5-c"}),
    },
)
def test_a_pod_that_changes_the_tier_or_the_zone_of_the_spec_buys_nothing(
    of_spec: dict[str, str], of_pod: dict[str, str]
) -> None:
    refused("JobSet", change(a_body(), {**of_spec}), change(a_body(), {**of_pod}))


STANDARD, OF_ZONE = {labels.PROVISIONING: "standard"}, {labels.RESERVATION_ZONE: "us-east5-a"}
THEIRS = {labels.RESERVATION_PROJECT: "their-project"}


@rows(
    "of_spec added reason",
    {
        "another project's": (RESERVED, THEIRS, Reason.REQUEST_NOT_ALLOWED),
        "standard and spot": (STANDARD, SPOT, Reason.SELECTOR_UNSUPPORTED),
        "zone of the reservation": (OF_ZONE, {labels.ZONE: "us-east5-c"}, Reason.SELECTOR_UNSUPPORTED),
    },
)
def test_what_a_pod_adds_is_refused_as_if_its_spec_said_it(
    of_spec: dict[str, str], added: dict[str, str], reason: Reason
) -> None:
    spec = change(a_body(), {**of_spec})
    need, *_ = want(a_workload("JobSet", spec), a_leader("JobSet", change(spec, {**added}))).needs

    assert need.never is not None
    assert (need.never.reason, need.of_flavor) == (reason, True)


def test_a_pod_without_the_topology_annotation_of_its_spec_buys_nothing() -> None:
    body = change(a_body(), {labels.TOPOLOGY: None})

    refused("JobSet", change(body, {}, annotations={labels.SLICE_TOPOLOGY: "2x4"}), body)


def test_annotations_and_labels_for_the_nodes_are_the_spec_s() -> None:
    of_spec, of_pod = ({labels.NODE_SERVICE_ACCOUNT: f"{name}@p.iam"} for name in "ab")
    spec = change(a_body(), {}, annotations=of_spec, labels={"team": "vision"})
    pod = change(a_body(), {}, annotations=of_pod, labels={"team": "speech"})
    use: dict[str, Any] = {"allowed_node_service_accounts": ("a@p.iam",), "copy_labels": ("team",)}
    demand = accepted("JobSet", spec, pod, **use)

    assert (demand.node_service_account, demand.node_labels) == ("a@p.iam", {"team": "vision"})


@pytest.mark.parametrize("key", [labels.DISABLE_AUTOPROVISIONING, labels.PROVISIONING_REQUEST])
def test_a_queue_may_give_a_pod_to_another_server_than_its_spec(key: str) -> None:
    pod = a_leader("JobSet", change(a_body(), {}, annotations={key: "true"}))
    wanted = want(a_workload("JobSet", a_body()), pod)

    assert [each.decision.verdict for each in wanted.refusals] == [Verdict.NOTHING]
    assert not any(each.waits for each in wanted.pods)


def test_a_topology_selector_does_not_replace_the_annotation_of_the_spec() -> None:
    spec = change(a_body(), {labels.TOPOLOGY: None}, annotations={labels.SLICE_TOPOLOGY: "4x4"})

    assert "16x16" in refused("JobSet", spec, change(spec, {labels.TOPOLOGY: "16x16"}))


@pytest.mark.parametrize("kind", [kind for kind in SLICED if kind != "StatefulSet"])
def test_a_topology_that_the_spec_leaves_open_has_no_more_chips_than_its_pods(kind: str) -> None:
    spec = change(a_body(), {labels.TOPOLOGY: None})

    found = expect_decision(
        decide(a_leader(kind, change(spec, {labels.TOPOLOGY: "16x16"})), a_workload(kind, spec))
    )
    assert found.verdict == Verdict.REFUSE


def a_gpu_body(cpu: str = "3", **more: str) -> Json:
    return a_body(chips=0, gpus=1, selectors={**L4, **more}, cpu=cpu, memory="8Gi")


# --- what a pod may add ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
def test_a_pod_as_its_spec_has_it_is_a_demand(kind: str) -> None:
    body = a_body() if kind in SLICED else ONE_HOST
    demand = accepted(kind, body, body)

    assert demand.shape.node_count == (1 if kind == "Pod" else HOSTS)


ADDED: dict[str, Any] = {
    "spot": (SPOT, {}, Tier.SPOT),
    "a reservation": (RESERVED, {}, Tier.RESERVATION),
    "zone": ({labels.ZONE: "us-east5-c"}, {}, Tier.ON_DEMAND),
    "a selector of its own": ({"cloud.example.com/rack": "r1"}, {}, Tier.ON_DEMAND),
    "the Go provisioner's webhook": ({PINNED_JOB_KEY: "0123"}, {}, Tier.ON_DEMAND),
    "an annotation of the topology": ({}, {labels.SLICE_TOPOLOGY: "4x4"}, Tier.ON_DEMAND),
    "any other annotation": ({}, {"sidecar.istio.io/status": "{}"}, Tier.ON_DEMAND),
}


@pytest.mark.parametrize("kind", SLICED)
@rows("selectors annotations tier", ADDED)
def test_a_pod_may_add_what_the_spec_leaves_open(
    kind: str, selectors: dict[str, str | None], annotations: dict[str, str], tier: Tier
) -> None:
    demand = accepted(kind, a_body(), change(a_body(), selectors, annotations=annotations))

    assert (demand.way.tier, demand.shape.node_count) == (tier, HOSTS)


@pytest.mark.parametrize("kind", ["JobSet", "RayCluster", "LeaderWorkerSet"])
def test_a_flavor_of_kueue_may_name_accelerator_topology_and_tier(kind: str) -> None:
    flavor = {labels.ACCELERATOR: "tpu-v6e-slice", labels.TOPOLOGY: "4x4", **SPOT}
    spec = a_body(selectors={})
    demand = accepted(kind, spec, change(spec, {**flavor}))

    assert (demand.shape.topology, demand.shape.node_count, demand.way.tier) == ("4x4", HOSTS, Tier.SPOT)


def test_a_webhook_may_name_the_topology_in_an_annotation() -> None:
    spec = change(a_body(), {labels.TOPOLOGY: None})
    demand = accepted("JobSet", spec, change(spec, {}, annotations={labels.SLICE_TOPOLOGY: "4x4"}))

    assert demand.shape.topology == "4x4"


def test_a_sidecar_that_requests_no_chips_changes_nothing() -> None:
    pod = a_body()
    pod["spec"]["containers"].append({"name": "proxy", "resources": {"requests": {"cpu": "100m"}}})
    pod["spec"]["initContainers"] = [{"name": "wait", "resources": {"requests": {"cpu": "1"}}}]

    assert accepted("JobSet", a_body(), pod).shape == accepted("JobSet", a_body(), a_body()).shape


def test_a_sidecar_that_fits_beside_a_gpu_changes_the_machine_and_not_its_gpus() -> None:
    demand = accepted("Job", a_gpu_body(), a_gpu_body(cpu="7"), hosts=1)

    assert (demand.shape.machine.name, demand.shape.chips) == ("g2-standard-8", 1)


def test_a_pod_may_choose_among_the_values_of_the_spec_s_affinity() -> None:
    spec = require(change(a_body(), {labels.TOPOLOGY: None}), labels.TOPOLOGY, "2x4", "4x4")

    assert accepted("JobSet", spec, change(spec, {labels.TOPOLOGY: "4x4"})).shape.topology == "4x4"
    assert "2x4 or 4x4" in refused("JobSet", spec, change(spec, {labels.TOPOLOGY: "16x16"}))


def test_a_pod_may_name_the_block_of_the_spec_s_reservation() -> None:
    spec = change(a_body(), {**RESERVED})
    demand = accepted("JobSet", spec, change(spec, {labels.RESERVATION_BLOCKS: "b1"}))

    assert (demand.way.reservation.name, demand.way.reservation.block) == ("ours", "b1")


def test_where_all_pools_are_on_demand_a_webhook_may_remove_the_tier() -> None:
    spec = change(a_body(), {**SPOT})

    refused("JobSet", spec, a_body())
    assert accepted("JobSet", spec, a_body(), force_on_demand=True).way.tier == Tier.ON_DEMAND


@pytest.mark.parametrize("kind", ["JobSet", "LeaderWorkerSet"])
def test_a_leader_without_chips_agrees_with_its_own_template(kind: str) -> None:
    head, workers = a_body(chips=0), a_body()
    if kind == "LeaderWorkerSet":
        workload = a_workload(kind, workers, leader=head)
    else:
        workload = a_workload(kind, head, hosts=1)
        workload = structs.replace(
            workload,
            groups=(
                structs.replace(workload.groups[0], beside="rest"),
                *(structs.replace(each, name="rest") for each in a_workload(kind, workers).groups),
            ),
        )
    found = expect_demand(decide(a_leader(kind, head), workload))
    with_chips = expect_decision(decide(a_leader(kind, workers), workload))

    assert (found.shape.machine.name, found.shape.node_count) == ("ct6e-standard-4t", HOSTS)
    assert with_chips.reason == Reason.POD_CONTRADICTS_SPEC


# --- rollouts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "LeaderWorkerSet"])
def test_a_pod_of_an_earlier_template_waits_for_its_rollout_and_one_of_the_new_gets_a_pool(kind: str) -> None:
    old, new = (ONE_HOST, a_body(chips=1, selectors={labels.ACCELERATOR: "tpu-v6e-slice", labels.TOPOLOGY: "1x1"}))
    hosts = 1 if kind == "LeaderWorkerSet" else HOSTS

    assert "a rollout replaces a pod of an earlier template" in refused(kind, new, old, hosts=hosts)
    assert accepted(kind, new, new, hosts=hosts).shape.machine.name == "ct6e-standard-1t"


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "LeaderWorkerSet"])
def test_a_rollout_of_another_image_changes_nothing_for_pods_of_the_earlier_template(kind: str) -> None:
    old, new = change(ONE_HOST, {}), change(ONE_HOST, {}, labels={"version": "2"})
    new["spec"]["containers"][0]["image"] = "server:2"
    hosts = 1 if kind == "LeaderWorkerSet" else HOSTS

    assert accepted(kind, new, old, hosts=hosts) == accepted(kind, new, new, hosts=hosts)


# --- one pool for several templates ---------------------------------------------------------------


def test_pods_of_two_groups_with_one_elastic_pool_need_the_same_machine() -> None:
    body = a_gpu_body()
    small = a_workload("RayCluster", body, hosts=1)
    (group,) = small.groups
    large = structs.replace(group.template, cpu_millis=20_000)
    workload = structs.replace(small, groups=(group, structs.replace(group, name="large", template=large)))
    pod = a_leader("RayCluster", body)
    template = structs.replace(large, labels=pod.template.labels | {"ray.io/group": "large"})
    pods = (pod, structs.replace(pod, template=template))
    one, other = (expect_demand(decide(each, workload)) for each in pods)

    assert (one.need.key, one.shape, one.need.asks) == (other.need.key, other.shape, other.need.asks)
    assert one.shape.machine.name == "g2-standard-32"


@pytest.mark.parametrize("labelled", [True, False])
def test_a_slice_of_several_gpu_hosts_is_no_part_of_another_group_s_elastic_pool(*, labelled: bool) -> None:
    body = a_gpu_body()
    sliced, free = (a_workload("RayCluster", body, hosts=hosts).groups[0] for hosts in (2, 1))
    workload = structs.replace(a_workload("RayCluster", body), groups=(sliced, structs.replace(free, name="free")))
    pod = a_leader("RayCluster", body)
    if not labelled:  # KubeRay before 1.6 does not say which host of a replica a pod is
        del pod.template.labels["ray.io/replica-host-index"]
    wanted = want(workload, pod)

    assert [each.slice for each in wanted.pods] == ["train-tpu-0"]
    assert wanted.demands[wanted.pods[0].need].shape.node_count == 2
