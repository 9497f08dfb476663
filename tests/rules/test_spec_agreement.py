"""The spec decides shape and number: what a pod may add, and what is refused, for every kind."""

import re
from typing import Any

import pytest
from msgspec import structs

from shared.kinds import leaderworkerset, raycluster
from shared.model import labels
from shared.model.decisions import Reason, Verdict
from shared.model.needs import Tier
from shared.model.workloads import PodView, WorkloadView
from shared.needs.nodepool import Demand
from tests.builders import PINNED_JOB_KEY, settings
from tests.demands import expect_demand, want
from tests.refusals import expect_words
from tests.rows import rows
from tests.rules.kind_bodies import a_group, a_raycluster, a_worker, indexed, webhooked
from tests.rules.live_pods import (
    ALL,
    HOSTS,
    L4,
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
ZONE_A, ZONE_C = ({labels.ZONE: f"us-east5-{zone}"} for zone in "ac")


def refused(kind: str, spec: Json, pod: Json, *words: str, hosts: int = HOSTS, **use: Any) -> None:
    """Expect that a pod is told that it contradicts its spec."""
    found = decide(a_leader(kind, pod), a_workload(kind, spec, hosts=hosts), settings(**use))
    expect_words(found, Reason.POD_CONTRADICTS_SPEC, *words)


def accepted(kind: str, spec: Json, pod: Json, *, hosts: int = HOSTS, **use: Any) -> Demand:
    return expect_demand(decide(a_leader(kind, pod), a_workload(kind, spec, hosts=hosts), settings(**use)))


def plain(**selectors: str | None) -> Json:
    """The plain template with other node selectors, by names of `shared.model.labels`."""
    return change(a_body(), {getattr(labels, key): value for key, value in selectors.items()})


def annotated(topology: str | None, annotation: str) -> Json:
    return change(plain(TOPOLOGY=topology), {}, annotations={labels.SLICE_TOPOLOGY: annotation})


# --- what is refused ---


@pytest.mark.parametrize("kind", CONTROLLED)
def test_a_workload_without_accelerators_buys_nothing_for_a_forged_leader_or_a_selector(kind: str) -> None:
    forged = a_body(selectors={labels.ACCELERATOR: "tpu-v6e-slice", labels.TOPOLOGY: "16x16"})
    refused(kind, OF_CPU, forged, "(got '4 chips, 0 GPUs')", "valid: 0 chips", f"{kind} default/train")

    for key in (labels.ACCELERATOR, labels.TOPOLOGY):
        found = decide(a_leader(kind, change(OF_CPU, {key: "16x16"})), a_workload(kind, OF_CPU))
        expect_words(found, Reason.IDENTITY_MISMATCH, verdict=Verdict.NOTHING)


@pytest.mark.parametrize("kind", CONTROLLED)
@pytest.mark.parametrize("chips", [0, 1, 8])
def test_a_pod_with_other_chips_than_the_spec_buys_nothing(kind: str, chips: int) -> None:
    spec = a_body() if kind in SLICED else ONE_HOST
    pod = a_body(chips=chips, selectors=spec["spec"]["nodeSelector"])

    refused(kind, spec, pod, f"(got '{chips} chips, 0 GPUs'); valid: 4 chips")


OF_4X4 = annotated(None, "4x4")
OF_TWO = require(plain(TOPOLOGY=None), labels.TOPOLOGY, "2x4", "4x4")


OF_TEAM = change(a_body(), {"team": "a"})


def selecting(spec: Json, **selectors: str | None) -> tuple[Json, Json]:
    """A spec, and a pod of it with other node selectors."""
    return spec, change(spec, {getattr(labels, key, key): value for key, value in selectors.items()})


CONTRADICTS: dict[str, tuple[tuple[Json, Json], tuple[str, ...]]] = {
    "topology": (selecting(OF_TEAM, TOPOLOGY="16x16"), ("gke-tpu-topology", "'16x16'", "4x4")),
    "accelerator": (selecting(OF_TEAM, ACCELERATOR="tpu7x"), ("gke-tpu-accelerator", "'tpu7x'", "v6e")),
    "topology left out": (selecting(OF_TEAM, TOPOLOGY=None), ("gke-tpu-topology", "'none'", "4x4")),
    "a selector of its own": (selecting(OF_TEAM, team="b"), ("team", "'b'", "valid: a")),
    "a selector left out": (selecting(OF_TEAM, team=None), ("team", "'none'", "valid: a")),
    "spot": ((plain(SPOT="true"), plain(RESERVATION_NAME="ours")), ()),
    "a reservation": ((plain(RESERVATION_NAME="ours"), plain(SPOT="true")), ()),
    "another reservation": ((plain(RESERVATION_NAME="ours"), plain(RESERVATION_NAME="theirs")), ()),
    "no tier": ((plain(SPOT="true"), a_body()), ()),
    "zone": (selecting(plain(ZONE="us-east5-a"), ZONE="us-east5-c"), ()),
    "no topology annotation": ((annotated(None, "2x4"), plain(TOPOLOGY=None)), ()),
    "a selector for an annotation": (selecting(OF_4X4, TOPOLOGY="16x16"), ("16x16",)),
    "no value of the affinity": (selecting(OF_TWO, TOPOLOGY="16x16"), ("2x4 or 4x4",)),
}


@pytest.mark.parametrize("kind", SLICED)
@rows("bodies words", CONTRADICTS)
def test_a_pod_that_changes_what_its_spec_says_buys_nothing(
    kind: str, bodies: tuple[Json, Json], words: tuple[str, ...]
) -> None:
    refused(kind, *bodies, *words)


STANDARD, OF_ZONE = {labels.PROVISIONING: "standard"}, {labels.RESERVATION_ZONE: "us-east5-a"}
THEIRS = {labels.RESERVATION_PROJECT: "their-project"}


@rows(
    "of_spec added reason",
    {
        "another project's": (RESERVED, THEIRS, Reason.REQUEST_NOT_ALLOWED),
        "standard and spot": (STANDARD, SPOT, Reason.SELECTOR_UNSUPPORTED),
        "zone of the reservation": (OF_ZONE, ZONE_C, Reason.SELECTOR_UNSUPPORTED),
    },
)
def test_what_a_pod_adds_is_refused_as_if_its_spec_said_it(
    of_spec: dict[str, str], added: dict[str, str], reason: Reason
) -> None:
    spec = change(a_body(), {**of_spec})
    need, *_ = want(a_workload("JobSet", spec), a_leader("JobSet", change(spec, {**added}))).needs

    assert need.never is not None
    assert (need.never.reason, need.of_flavor) == (reason, True)


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

    assert [decision.verdict for _, decision in wanted.refusals] == [Verdict.NOTHING]
    assert not any(each.waits for each in wanted.pods)


# --- what a pod may add ---


def a_gpu_body(cpu: str = "3") -> Json:
    return a_body(chips=0, gpus=1, selectors=L4, cpu=cpu, memory="8Gi")


@pytest.mark.parametrize("kind", ALL)
def test_a_pod_as_its_spec_has_it_is_a_demand(kind: str) -> None:
    body = a_body() if kind in SLICED else ONE_HOST

    assert accepted(kind, body, body).shape.node_count == (1 if kind == "Pod" else HOSTS)


@pytest.mark.parametrize("kind", SLICED)
@rows(
    "selectors annotations tier",
    {
        "spot": (SPOT, {}, Tier.SPOT),
        "a reservation": (RESERVED, {}, Tier.RESERVATION),
        "zone": (ZONE_C, {}, Tier.ON_DEMAND),
        "a selector of its own": ({"cloud.example.com/rack": "r1"}, {}, Tier.ON_DEMAND),
        "the Go provisioner's webhook": ({PINNED_JOB_KEY: "0123"}, {}, Tier.ON_DEMAND),
        "an annotation of the topology": ({}, {labels.SLICE_TOPOLOGY: "4x4"}, Tier.ON_DEMAND),
        "any other annotation": ({}, {"sidecar.istio.io/status": "{}"}, Tier.ON_DEMAND),
    },
)
def test_a_pod_may_add_what_the_spec_leaves_open(
    kind: str, selectors: dict[str, str | None], annotations: dict[str, str], tier: Tier
) -> None:
    demand = accepted(kind, a_body(), change(a_body(), selectors, annotations=annotations))

    assert (demand.way.tier, demand.shape.node_count) == (tier, HOSTS)


@pytest.mark.parametrize("kind", ["JobSet", "RayCluster", "LeaderWorkerSet"])
def test_a_flavor_may_name_accelerator_topology_and_tier_and_no_more_chips_than_the_pods_have(kind: str) -> None:
    flavor = {labels.ACCELERATOR: "tpu-v6e-slice", labels.TOPOLOGY: "4x4", **SPOT}
    spec, no_topology = a_body(selectors={}), plain(TOPOLOGY=None)
    demand = accepted(kind, spec, change(spec, {**flavor}))
    larger = decide(a_leader(kind, change(no_topology, {labels.TOPOLOGY: "16x16"})), a_workload(kind, no_topology))

    assert (demand.shape.topology, demand.shape.node_count, demand.way.tier) == ("4x4", HOSTS, Tier.SPOT)
    assert not isinstance(larger, Demand)
    assert larger.verdict == Verdict.REFUSE


def test_a_webhook_may_name_topology_or_block_choose_a_value_and_remove_the_tier() -> None:
    of_block = change(a_body(), {**RESERVED, labels.RESERVATION_BLOCKS: "b1"})
    block = accepted("JobSet", plain(RESERVATION_NAME="ours"), of_block).way.reservation
    of_spot = accepted("JobSet", plain(SPOT="true"), a_body(), force_on_demand=True)

    assert accepted("JobSet", plain(TOPOLOGY=None), OF_4X4).shape.topology == "4x4"
    assert accepted("JobSet", OF_TWO, change(OF_TWO, {labels.TOPOLOGY: "4x4"})).shape.topology == "4x4"
    assert (block.name, block.block) == ("ours", "b1")
    assert of_spot.way.tier == Tier.ON_DEMAND, "where all pools are on demand"


def test_a_sidecar_changes_at_most_the_machine() -> None:
    pod = a_body()
    pod["spec"]["containers"].append({"name": "proxy", "resources": {"requests": {"cpu": "100m"}}})
    pod["spec"]["initContainers"] = [{"name": "wait", "resources": {"requests": {"cpu": "1"}}}]
    of_gpus = accepted("Job", a_gpu_body(), a_gpu_body(cpu="7"), hosts=1).shape

    assert accepted("JobSet", a_body(), pod).shape == accepted("JobSet", a_body(), a_body()).shape
    assert (of_gpus.machine.name, of_gpus.chips) == ("g2-standard-8", 1)


@pytest.mark.parametrize("kind", ["JobSet", "LeaderWorkerSet"])
def test_a_leader_without_chips_agrees_with_its_own_template(kind: str) -> None:
    head, workers = a_body(chips=0), a_body()
    workload = a_workload(kind, workers, leader=head)
    if kind == "JobSet":
        first, rest = (a_workload(kind, body, hosts=hosts).groups[0] for body, hosts in ((head, 1), (workers, 4)))
        groups = (structs.replace(first, beside="rest"), structs.replace(rest, name="rest"))
        workload = structs.replace(a_workload(kind, head, hosts=1), groups=groups)
    found = expect_demand(decide(a_leader(kind, head), workload))

    assert (found.shape.machine.name, found.shape.node_count) == ("ct6e-standard-4t", HOSTS)
    expect_words(decide(a_leader(kind, workers), workload), Reason.POD_CONTRADICTS_SPEC)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "LeaderWorkerSet"])
def test_a_pod_of_an_earlier_template_waits_for_its_rollout_unless_only_the_image_is_new(kind: str) -> None:
    old, new = (ONE_HOST, a_body(chips=1, selectors={labels.ACCELERATOR: "tpu-v6e-slice", labels.TOPOLOGY: "1x1"}))
    of_image = change(ONE_HOST, {}, labels={"version": "2"})
    of_image["spec"]["containers"][0]["image"] = "server:2"
    hosts = 1 if kind == "LeaderWorkerSet" else HOSTS

    refused(kind, new, old, "a rollout replaces a pod of an earlier template", hosts=hosts)
    assert accepted(kind, new, new, hosts=hosts).shape.machine.name == "ct6e-standard-1t"
    assert accepted(kind, of_image, old, hosts=hosts) == accepted(kind, of_image, of_image, hosts=hosts)


# --- one pool for several templates ---


def test_pods_of_two_groups_with_one_elastic_pool_need_the_same_machine() -> None:
    small = a_workload("RayCluster", a_gpu_body(), hosts=1)
    (group,) = small.groups
    large = structs.replace(group.template, cpu_millis=20_000)
    workload = structs.replace(small, groups=(group, structs.replace(group, name="large", template=large)))
    pod = a_leader("RayCluster", a_gpu_body())
    template = structs.replace(large, labels=pod.template.labels | {"ray.io/group": "large"})
    pods = (pod, structs.replace(pod, template=template))
    one, other = (expect_demand(decide(each, workload)) for each in pods)

    assert (one.need.key, one.shape, one.need.asks) == (other.need.key, other.shape, other.need.asks)
    assert one.shape.machine.name == "g2-standard-32"


@pytest.mark.parametrize("labelled", [True, False])
def test_a_slice_of_several_gpu_hosts_is_no_part_of_another_group_s_elastic_pool(*, labelled: bool) -> None:
    sliced, free = (a_workload("RayCluster", a_gpu_body(), hosts=hosts).groups[0] for hosts in (2, 1))
    groups = (sliced, structs.replace(free, name="free"))
    workload = structs.replace(a_workload("RayCluster", a_gpu_body()), groups=groups)
    pod = a_leader("RayCluster", a_gpu_body())
    if not labelled:  # KubeRay before 1.6 does not say which host of a replica a pod is
        del pod.template.labels["ray.io/replica-host-index"]
    wanted = want(workload, pod)

    assert [each.slice for each in wanted.pods] == ["train-tpu-0"]
    assert wanted.demands[wanted.pods[0].need].shape.node_count == 2


# --- forged, doubled and old pods get no pool beyond the spec ---


FORGED_PODS, SLICES = 60, 3
INDEXES = (labels.COMPLETION_INDEX, leaderworkerset.GROUP_INDEX, raycluster.REPLICA_INDEX)


def forge(pod: PodView, index: int, *, keep: bool = False) -> PodView:
    """The same pod, which says wherever it can that its slice has this index."""
    own = {} if keep else {key: str(index) for key in INDEXES if key in pod.template.labels}
    return structs.replace(
        pod,
        uid=f"forged-{index}",
        name=re.sub(r"-0$", f"-{index}", pod.name),
        controller_name=re.sub(r"-0$", f"-{index}", pod.controller_name),
        template=structs.replace(pod.template, labels=pod.template.labels | own),
    )


def forge_all(kind: str, body: Json) -> list[PodView]:
    """Pods with many indexes; a Job's own pods keep index 0 too where their Job's name has it."""
    return [forge(a_leader(kind, body), index, keep=kind == "JobSet") for index in range(FORGED_PODS)]


def count(pods: list[PodView], workload: WorkloadView) -> tuple[int, int]:
    """How many pools the needs of a workload may have, and how many nodes elastic ones have."""
    needs = want(workload, *pods).needs
    return sum(need.most if need.nodes is None else 1 for need in needs), sum(need.nodes or 0 for need in needs)


@pytest.mark.parametrize("kind", ["JobSet", "RayCluster", "LeaderWorkerSet", "Job"])
def test_pods_of_no_index_make_more_pools_than_the_spec(kind: str) -> None:
    workload = a_workload(kind, ONE_HOST, hosts=SLICES if kind == "Job" else 1)
    if kind != "Job":
        groups = tuple(structs.replace(group, replicas=SLICES) for group in workload.groups)
        workload = structs.replace(workload, groups=groups)

    assert count(forge_all(kind, ONE_HOST), workload) == (SLICES, 0)


@pytest.mark.parametrize("kind", ALL)
def test_one_shape_is_one_pool_with_the_nodes_of_the_spec_for_any_number_of_pods(kind: str) -> None:
    body, nodes = a_body(chips=0, gpus=1, selectors=L4), 1 if kind in ("Pod", "RayCluster") else 4
    pods = [a_leader(kind, body)] * FORGED_PODS if kind == "Pod" else forge_all(kind, body)

    assert count(pods, a_workload(kind, body, hosts=nodes)) == (1, nodes)


def test_a_replica_index_far_beyond_the_spec_makes_no_more_pools_than_it() -> None:
    workload = a_raycluster(a_group(topology="2x2", numOfHosts=1, replicas=2, maxReplicas=10**9))
    pods = [
        a_worker(pod_labels=text, selector={labels.TOPOLOGY: "2x2"}, unschedulable=True)
        for text in (indexed(4), webhooked(5), indexed(10**9))
    ]

    assert count(pods, workload) == (2, 0)
