"""A disk of one zone pins the pods: the pool moves there, or the candidate is refused by name."""

from typing import Any

from msgspec import structs

from shared.capacity_texts import read_policies
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.workloads import Disk, SliceGroup
from shared.needs.nodepool import Demand
from shared.settings import ClusterSettings
from tests.builders import CLUSTER, NOW, ZONE, a_jobset, a_pod, a_template, expect_decision, settings
from tests.demands import decide_demand, expect_demand, want
from tests.rows import rows
from tests.rules.test_candidates import listing

A, C, ELSEWHERE = "us-east5-a", "us-east5-c", "europe-west4-a"
LIST = f"[{{location: {{zones: [{A}, {C}]}}}}, {{spot: true}}]"
"""The last candidate is in the zone of the setting, us-east5-b."""


def a_disk(*zones: str, claim: str = "data", **fields: Any) -> Disk:
    return Disk(claim=claim, zones=tuple(sorted(zones)), **fields)


def decide(*disks: Disk, use: dict[str, Any] | None = None, text: str = "", **shape: Any) -> Demand | Decision:
    """Decide about a pod with the claims of these disks, and one of which nothing is known."""
    claims = ("scratch", *(each.claim for each in disks))
    answer = listing(text, **shape) if text else shape
    pod = a_pod(template=a_template(volume_claims=claims, **answer))
    jobset = a_jobset(template=pod.template, disks=disks, created_at=NOW)
    return decide_demand(CLUSTER, pod, jobset, settings(**(use or {})))


def demand(*disks: Disk, **asked: Any) -> Demand:
    return expect_demand(decide(*disks, **asked))


def refusal(*disks: Disk, **asked: Any) -> str:
    found = expect_decision(decide(*disks, **asked))
    assert (found.verdict, found.reason) == (Verdict.REFUSE, "capacity_conflict")
    return found.message


def zones(found: Demand) -> list[str]:
    return [each.zone for each in found.need.ways]


# --- without a list -------------------------------------------------------------------------------


@rows(
    "disks zone",
    {
        "none": ((), ZONE),
        "another zone than the setting's": ((a_disk(A),), A),
        "the setting's": ((a_disk(ZONE),), ZONE),
        "a regional disk that has the setting's": ((a_disk(A, ZONE),), ZONE),
        "a regional disk that does not": ((a_disk(A, C),), A),
        "two disks with one zone in common": ((a_disk(A, C), a_disk(C, claim="more")), C),
    },
)
def test_the_pool_is_where_the_disks_are(disks: tuple[Disk, ...], zone: str) -> None:
    assert demand(*disks).way.zone == zone


def test_the_disk_says_the_zone_where_no_setting_does() -> None:
    use = {"clusters": {CLUSTER: ClusterSettings(endpoint="http://127.0.0.1:9")}}

    assert demand(a_disk(A), use=use).way.zone == A


def test_a_selected_zone_without_the_disk_is_refused() -> None:
    assert demand(a_disk(A), selectors={labels.ZONE: A}).way.zone == A
    assert refusal(a_disk(A), selectors={labels.ZONE: C}) == (
        f"spec.nodeSelector {labels.ZONE}: the disk of claim data is in {A} (got {C!r}); valid: {A}"
    )


def test_disks_without_a_zone_in_common_are_refused_with_both_names() -> None:
    answer = refusal(a_disk(A), a_disk(C, claim="more"))

    assert f"the disk of claim data is in {A}, and the disk of claim more is in {C}" in answer
    assert "no zone" in refusal(a_disk(A, C), a_disk(A, ZONE, claim="more"), a_disk(ZONE, C, claim="most"))


def test_a_disk_outside_the_cluster_s_region_is_refused() -> None:
    found = expect_decision(decide(a_disk(ELSEWHERE)))

    assert "not a zone of the cluster's region (got 'europe-west4-a')" in found.message


def test_a_disk_of_a_claim_that_the_pod_does_not_name_counts_for_nothing() -> None:
    pod = a_pod(template=a_template(volume_claims=("mine",)))
    jobset = a_jobset(template=pod.template, disks=(a_disk(A, claim="of-others"),))

    found = expect_demand(decide_demand(CLUSTER, pod, jobset, settings()))

    assert found.way.zone == ZONE


def test_a_claim_that_no_node_can_bind_means_wait_with_its_name() -> None:
    template = a_template(volume_claims=("data",))
    absent, others = (Disk(claim=claim, unbound="does not exist") for claim in ("data", "of-others"))
    (waits,) = want(a_jobset(template=template, disks=(absent,))).needs
    beside = SliceGroup(name="beside", template=a_template(topology="2x2", volume_claims=("of-others",)))
    both = a_jobset(template=template, disks=(others,))
    needs, _ = want(structs.replace(both, groups=(*both.groups, beside))).needs

    assert waits.waits_for == Decision(
        Verdict.WAIT, Reason.CLAIM_UNBOUND, "PersistentVolumeClaim default/data does not exist"
    )
    assert (waits.key, needs.waits_for) == (needs.key, None)


# --- with a list ----------------------------------------------------------------------------------


def test_candidates_in_another_zone_than_the_disk_are_left_out() -> None:
    """The author of the list does not know where the pods' first pool makes their disk."""
    assert zones(demand(a_disk(A), text=LIST)) == [A, A]
    assert zones(demand(a_disk(C, storage_class="fast"), text=LIST)) == [C, C]
    assert zones(demand(a_disk(A), text=f"[{{location: {{zones: [{A}]}}}}, {{spot: true}}]")) == [A, A]
    assert zones(demand(a_disk(A, C, ZONE), text=LIST)) == [A, C, ZONE]


def test_a_list_of_which_no_candidate_is_left_is_refused() -> None:
    answer = refusal(a_disk("us-east5-d"), text=f"[{{location: {{zones: [{A}, {C}]}}}}]")

    assert answer.startswith(
        f"annotation {labels.CAPACITY}: candidate 1, on-demand in {A}: the disk of claim data"
    )


def test_a_policy_of_the_operator_leaves_out_the_zones_without_the_disk() -> None:
    use = {"capacity_policies": read_policies(f"[{{priorities: [{{location: {{zones: [{A}, {C}]}}}}]}}]")}

    assert zones(demand(use=use)) == [A, C]
    assert zones(demand(a_disk(C), use=use)) == [C]
    assert demand(a_disk(ZONE), use=use).way.zone == ZONE
