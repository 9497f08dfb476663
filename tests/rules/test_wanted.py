"""What a workload needs: which slices are one need, how many, and whose its live pods are."""

import time
from typing import Any

import pytest
from msgspec import structs

from shared.capacity_texts import CapacityPolicy
from shared.kinds import jobset as jobset_keys
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.needs import Need, Tier, Way
from shared.model.workloads import (
    Disk,
    PodView,
    Requirement,
    SliceGroup,
    Taint,
    TermKind,
    Toleration,
    TopologyTerm,
    WorkloadView,
)
from shared.needs.wanted import NO_NEED
from tests.builders import a_jobset, a_pod, a_template, settings
from tests.demands import decide, expect_demand, expect_words, plan_demands, want
from tests.rules.workloads import (
    ONE_HOST,
    a_body,
    a_gpu_body,
    a_leader,
    a_leaderworkerset,
    a_member,
    a_workload,
    change,
)

PINNED = {jobset_keys.EXCLUSIVE_TOPOLOGY: labels.NODE_POOL, jobset_keys.NODE_SELECTOR_STRATEGY: "true"}
SPOT = {labels.SPOT: "true"}


def of_groups(*groups: SliceGroup) -> WorkloadView:
    return structs.replace(a_jobset(), groups=groups)


def a_group(name: str, replicas: int = 1, **shape: Any) -> SliceGroup:
    return SliceGroup(name=name, replicas=replicas, template=a_template(**shape))


def tiers(needs: tuple[Need, ...]) -> dict[Tier, int]:
    return {need.ways[0].tier: need.most for need in needs}


# --- the spec ---


def test_groups_whose_pods_ask_the_same_are_one_need_without_the_slices_that_have_ended() -> None:
    alike = want(of_groups(a_group("a", 2), structs.replace(a_group("b", 5), over=2))).needs
    other = want(of_groups(a_group("a", 2), a_group("b", 3, selectors=SPOT))).needs

    single, double = (want(of_groups(a_group("a", 2, topology=each))).needs for each in ("2x2", "2x4"))
    tied = want(of_groups(structs.replace(a_group("a", 2), whole=True))).needs

    found = [(need.most, need.hosts, need.loose) for need in (*alike, *single, *double, *tied)]
    assert found == [(5, 4, True), (2, 1, False), (2, 2, True), (2, 4, False)]
    assert tiers(other) == {Tier.ON_DEMAND: 2, Tier.SPOT: 3}


def test_each_pinned_slice_is_a_need_of_its_own_whose_pool_only_it_may_use() -> None:
    jobset = a_jobset(replicas=3, annotations=PINNED)
    wanted, ended = want(jobset), of_groups(structs.replace(jobset.groups[0], over=1))

    left = want(ended, a_pod(index=0), a_pod(index=2)).needs
    assert [need.pin for need in left] == ["train-workers-0", "train-workers-2"]
    assert [need.pin for need in wanted.needs] == [f"train-workers-{index}" for index in range(3)]
    assert {need.most for need in wanted.needs} == {1}
    assert len({need.key for need in wanted.needs}) == len({need.asks.labels for need in wanted.needs}) == 3
    for need in wanted.needs:
        demand = wanted.demands[need.key]
        assert (jobset_keys.NAMESPACED_JOB, f"default_{need.pin}") in need.asks.labels
        assert demand.node_labels == {jobset_keys.NAMESPACED_JOB: f"default_{need.pin}"}


def test_a_part_that_is_served_elsewhere_holds_no_other_back_and_one_that_never_is_says_so() -> None:
    wanted = want(of_groups(a_group("theirs", selectors={labels.COMPUTE_CLASS: "c"}), a_group("ours", 2)))
    never, served = want(of_groups(a_group("a", selectors={"cloud.google.com/no": "x"}), a_group("b"))).needs

    assert [(need.most, need.never) for need in wanted.needs] == [(2, None)]
    assert [other.reason for _, other in wanted.left] == [Reason.DEMAND_LEFT_TO_GKE]
    expect_words(never.never, Reason.SELECTOR_UNSUPPORTED)
    assert (served.never, served.asks.shape) == (None, never.asks.shape)


def test_a_resource_that_no_new_node_has_is_refused_by_its_name_unless_the_operator_lists_it() -> None:
    asked: dict[str, Any] = {"example.com/fpga": "1", "networking.gke.io.networks/rdma": "1"}
    typo: dict[str, Any] = {"example.com/tpu-v6e": "4"}
    (slip,) = want(a_workload("JobSet", a_body(chips=0, **typo))).needs
    expect_words(slip.never, Reason.RESOURCE_UNKNOWN, "did you mean google.com/tpu?")
    (refused,), (listed,) = (
        want(a_workload("JobSet", a_body(**asked)), use=use).needs
        for use in (settings(), settings(node_resources=("example.com/*",)))
    )

    expect_words(refused.never, Reason.RESOURCE_UNKNOWN, "resources.example.com/fpga")
    assert (listed.never, listed.key) == (None, refused.key)


def test_a_claim_that_no_node_can_bind_means_wait_with_its_name() -> None:
    template = a_template(volume_claims=("data",))
    absent, others = (Disk(claim=claim, unbound="does not exist") for claim in ("data", "of-others"))
    (waits,) = want(a_jobset(template=template, disks=(absent,))).needs
    beside = a_group("beside", topology="2x2", volume_claims=("of-others",))
    both = a_jobset(template=template, disks=(others,))
    needs, _ = want(structs.replace(both, groups=(*both.groups, beside))).needs

    assert waits.waits_for == Decision(
        Verdict.WAIT, Reason.CLAIM_UNBOUND, "PersistentVolumeClaim default/data does not exist"
    )
    assert (waits.key, needs.waits_for) == (needs.key, None)


@pytest.mark.parametrize("annotations", [{}, PINNED])
def test_a_thousand_slices_are_listed_in_a_third_of_a_second(annotations: dict[str, str]) -> None:
    jobset, took = a_jobset(replicas=1000, annotations=annotations), []
    for _ in range(4):  # the collection of garbage may fall into one
        began = time.process_time()
        wanted = want(jobset)
        took.append(time.process_time() - began)

    assert sum(need.most for need in wanted.needs) == 1000
    assert min(took) < 0.3


# --- live pods ------------------------------------------------------------------------------------


def in_group(index: int, **selectors: str) -> PodView:
    """The leader pod of one group, with what a flavor of Kueue adds to it."""
    return a_member(0, change(a_body(), selectors), group=index)


def test_what_live_pods_add_is_a_need_beside_that_of_the_slices_without_pods() -> None:
    pods = [in_group(index, **SPOT) for index in range(3)]
    wanted = want(a_leaderworkerset(replicas=4), *pods)
    (spot,) = (need for need in wanted.needs if need.ways[0].tier == Tier.SPOT)

    assert tiers(wanted.needs) == {Tier.SPOT: 3, Tier.ON_DEMAND: 1}
    assert {need.ways[0].tier: need.apart for need in wanted.needs} == {Tier.SPOT: True, Tier.ON_DEMAND: False}
    assert {pod.need for pod in wanted.pods} == {spot.key}
    assert (labels.SPOT, "true") in spot.asks.labels
    assert wanted.refusals == ()
    assert tiers(want(a_leaderworkerset(), *pods[:2]).needs) == {Tier.SPOT: 2}
    assert sum(need.most for need in want(a_leaderworkerset(), *pods[:2], in_group(7)).needs) == 2, (
        "beyond the spec"
    )


def test_what_one_pod_of_a_slice_adds_is_asked_of_all() -> None:
    wanted = want(a_leaderworkerset(replicas=1), in_group(0), a_member(1, change(a_body(), SPOT)))

    assert tiers(wanted.needs) == {Tier.SPOT: 1}
    assert [pod.need for pod in wanted.pods] == [wanted.needs[0].key] * 2


def test_pods_of_an_elastic_pool_that_come_will_be_like_most_of_those_that_are_there() -> None:
    pod = a_leader("Deployment", change(ONE_HOST, {**SPOT}))
    (need,) = want(a_workload("Deployment", ONE_HOST), pod).needs
    both = want(a_workload("Deployment", ONE_HOST), pod, a_leader("Deployment", ONE_HOST))

    assert (need.ways[0].tier, need.nodes, need.hosts) == (Tier.SPOT, 4, 1)
    assert {each.ways[0].tier: each.nodes for each in both.needs} == {Tier.SPOT: 3, Tier.ON_DEMAND: 1}
    assert [each.need for each in both.pods] == [each.key for each in both.needs]


def test_what_a_live_pod_tolerates_and_requires_is_asked_of_its_pool_but_not_what_every_pod_tolerates() -> None:
    own, every = (Toleration(key=key, operator="Exists") for key in ("team", "node.kubernetes.io/not-ready"))
    terms = ((Requirement(labels.ZONE, "NotIn", ("us-east5-a",)),),)
    wanted = want(a_jobset(replicas=1), a_pod(shape={"tolerations": (own, every), "node_terms": terms}))
    (need,) = wanted.needs

    assert need.asks.tolerations == (own,)
    assert wanted.demands[need.key].template.node_terms == terms


def test_cpu_and_memory_are_the_larger_of_spec_and_pods_and_no_part_of_the_key() -> None:
    spec, pod = (a_gpu_body(cpu=cpu, memory="8Gi") for cpu in ("3", "7"))
    workload = a_workload("Job", spec, hosts=1)
    before, after = want(workload), want(workload, a_leader("Job", pod))
    machines = [each.demands[each.needs[0].key].shape.machine.name for each in (before, after)]

    assert machines == ["g2-standard-4", "g2-standard-8"]
    assert before.needs[0].key == after.needs[0].key


def test_a_bound_pod_is_of_its_slice_whatever_it_says_and_names_its_pool() -> None:
    pod = a_pod(node_name="n-0", shape={"topology": "2x2"})
    (seen,) = want(a_jobset(), pod).pods
    told = want(a_jobset(), structs.replace(pod, node_name=""))

    assert [decision.reason for _, decision in told.refusals] == [Reason.POD_CONTRADICTS_SPEC]
    assert not told.refused, "what one pod says refuses no other"
    assert (seen.slice, seen.pool, seen.need) == ("train-workers-0", "n-0", want(a_jobset()).needs[0].key)


def test_a_pod_that_belongs_to_no_slice_holds_its_pool_and_only_a_waiting_one_is_told() -> None:
    stray = a_pod(controller_name="train-gone-0")
    bound = structs.replace(stray, node_name="n-0")
    told, quiet = want(a_jobset(), stray), want(a_jobset(), bound)

    assert [decision.verdict for _, decision in told.refusals] == [Verdict.NOTHING]
    assert (quiet.refusals, quiet.pods[0].need, quiet.pods[0].pool) == ((), NO_NEED, "n-0")
    assert not told.pods[0].waits


def test_a_workload_of_which_no_slice_is_clear_is_refused_with_the_reason() -> None:
    job = a_workload("Job", ONE_HOST)
    unindexed = structs.replace(job, groups=(structs.replace(job.groups[0], slots=0),))
    (need,) = want(unindexed).needs

    expect_words(need.never, Reason.SLICE_UNKNOWN)
    assert len(plan_demands(unindexed)) == 1


def test_followers_that_a_controller_sends_to_the_pool_of_their_leader_add_nothing() -> None:
    """JobSet's webhook does so where placement is exclusive."""
    follower = a_pod(name="follower", shape={"selectors": {labels.NODE_POOL: "train-1", labels.HOSTNAME: "h"}})
    wanted = want(a_jobset(), a_pod(node_name="n-0"), follower)

    assert ([each.slice for each in wanted.pods], wanted.refusals) == (["train-workers-0"] * 2, ())
    assert {each.need for each in wanted.pods} == {need.key for need in wanted.needs}


def test_slices_without_pods_count_for_pools_of_any_flavor_that_their_spec_leaves_open() -> None:
    workload = a_leaderworkerset()
    spot = Taint(labels.SPOT, "true", "NoSchedule")
    (before,) = want(workload).needs
    (after,) = want(workload, in_group(0), in_group(1)).needs
    (pinned,) = want(a_jobset(replicas=1, annotations=PINNED)).needs
    covered = [any(each.covers(spot) for each in need.asks.tolerations) for need in (before, after, pinned)]

    assert covered == [True, False, True]
    assert before.key == after.key


def test_a_leader_that_exclusive_placement_ties_to_a_label_of_no_new_node_is_refused() -> None:
    terms = (TopologyTerm(kind=TermKind.AFFINITY, key="rack"),)
    leader = a_pod(template=a_template(topology_terms=terms))

    expect_words(decide(leader, a_jobset()), Reason.SELECTOR_UNSUPPORTED, "(got 'rack')")
    assert want(a_jobset(template=leader.template), leader).refusals == (), "the spec's is told once"


def test_a_pinned_pod_selects_its_own_job() -> None:
    own = a_pod(shape={"selectors": {jobset_keys.NAMESPACED_JOB: "default_train-workers-0"}})

    expect_demand(decide(own, a_jobset(annotations=PINNED)))
    expect_words(decide(own, a_jobset(template=own.template)), Reason.SELECTOR_UNSUPPORTED)


@pytest.mark.parametrize(
    "pod", [*({"deleting": True}, {"node_name": "n"}, {"held": True}), {"unschedulable": False}]
)
def test_a_pod_that_does_not_wait_for_a_node_is_of_its_need_all_the_same(pod: dict[str, Any]) -> None:
    (waiting,) = want(a_jobset(), a_pod()).pods
    (seen,) = want(a_jobset(), a_pod(**pod)).pods

    assert (waiting.waits, seen.waits, seen.need) == (True, False, waiting.need)


@pytest.mark.parametrize("state", [{"deleting": True}, {"terminal": "Completed"}, {"suspended": True}])
def test_whether_a_workload_is_over_or_suspended_is_the_plan_s_to_judge(state: dict[str, Any]) -> None:
    assert want(a_jobset(**state)).needs == want(a_jobset()).needs


# --- the key


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
