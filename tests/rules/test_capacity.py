"""Ways to capacity: tiers and reservations that pods select, lists, policies, zones of disks."""

from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any

import pytest
from msgspec import structs

from shared.capacity_texts import CapacityPolicy, read_policies, read_ways
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.names import Try
from shared.model.needs import Tier
from shared.model.workloads import Disk, SliceGroup, Toleration
from shared.needs.nodepool import Demand
from shared.needs.ways import WAYS_MAX
from shared.settings import ClusterSettings
from tests.builders import CLUSTER, NOW, ZONE, a_jobset, a_pod, a_template, settings
from tests.demands import a_demand, a_pool_body, decide_demand, expect_demand, want
from tests.rows import rows
from tests.rules.asked_shapes import Refused, expect_words, no

A, C, ELSEWHERE = "us-east5-a", "us-east5-c", "europe-west4-a"
SPOT, FLEX, RESERVED = ({labels.SPOT: "true"}, {labels.FLEX_START: "true"}, {labels.RESERVATION_NAME: "r"})
SPECIFIC, ANY = ({labels.RESERVATION_AFFINITY: affinity} for affinity in ("specific", "any"))
BLOCK, SUBBLOCK = {labels.RESERVATION_BLOCKS: "b"}, {labels.RESERVATION_SUBBLOCKS: "s"}
LENT = RESERVED | {labels.RESERVATION_PROJECT: "other-project"}
IN_PROJECT, IN_BLOCK = "projects/other-project/reservations/r", "r/reservationBlocks/b"
SPOT_TOLERATION = (Toleration(key=labels.SPOT, operator="Exists"),)
refused = partial(no, Reason.CAPACITY_CONFLICT)


# --- what the pod selects ---


@pytest.mark.parametrize(
    ("shape", "way"),
    [
        ({}, {"tier": Tier.ON_DEMAND}),
        ({"selectors": {labels.PROVISIONING: "standard"}}, {"tier": Tier.ON_DEMAND}),
        ({"selectors": SPOT}, {"tier": Tier.SPOT}),
        ({"selectors": {labels.PROVISIONING: "spot"}}, {"tier": Tier.SPOT}),
        ({"node_affinity": {labels.SPOT: ("true",)}}, {"tier": Tier.SPOT}),
        ({"node_affinity": {labels.SPOT: ()}}, {"tier": Tier.SPOT}),
        ({"node_affinity": {labels.FLEX_START: ()}}, {"tier": Tier.FLEX_START}),
        ({"selectors": FLEX}, {"tier": Tier.FLEX_START, "run_seconds": 604_800}),
        ({"selectors": FLEX | {labels.MAX_RUN_DURATION: "600"}}, {"run_seconds": 600}),
        ({"selectors": {labels.PROVISIONING: "flex-start"}}, {"tier": Tier.FLEX_START}),
        ({"selectors": RESERVED}, {"tier": Tier.RESERVATION, "reservation.path": "r"}),
        ({"selectors": RESERVED | SPECIFIC}, {"tier": Tier.RESERVATION}),
        ({"selectors": LENT}, {"reservation.path": IN_PROJECT}),
        ({"selectors": RESERVED | BLOCK}, {"reservation.path": IN_BLOCK}),
        (
            {"selectors": LENT | BLOCK | SUBBLOCK},
            {"reservation.path": f"{IN_PROJECT}/reservationBlocks/b/reservationSubBlocks/s"},
        ),
    ],
)
def test_the_way_is_what_the_pod_selects(shape: dict[str, Any], way: dict[str, Any]) -> None:
    selected = a_demand(use=settings(allowed_reservations=("*", "other-project/r")), **shape).way

    assert {field: attrgetter(field)(selected) for field in way} == way


CONFLICTS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "spot + flex-start": (SPOT | FLEX, ("spot + flex-start",)),
    "spot + reservation": (SPOT | RESERVED, ("spot + reservation",)),
    "flex-start + reservation": (FLEX | RESERVED, ("flex-start + reservation",)),
    "spot + any": (SPOT | ANY, ("spot + reservation",)),
    "any, no name": (ANY, (labels.RESERVATION_NAME,)),
    "specific, no name": (SPECIFIC, (labels.RESERVATION_NAME,)),
    "block, no name": (SPECIFIC | BLOCK, (labels.RESERVATION_NAME,)),
    "bad name": ({labels.RESERVATION_NAME: "Not Legal"}, ("'Not Legal'", "not a name")),
    "a project that is a path": (RESERVED | {labels.RESERVATION_PROJECT: "../p"}, ("'../p'", "not a name")),
    "a path as name": ({labels.RESERVATION_NAME: IN_BLOCK}, ("not a name",)),
}
SECONDS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "too short": (FLEX | {labels.MAX_RUN_DURATION: "599"}, ("'599'", "600 to 604800")),
    "too long": (FLEX | {labels.MAX_RUN_DURATION: "604801"}, ("'604801'",)),
    "no number": (FLEX | {labels.MAX_RUN_DURATION: "1h"}, ("'1h'",)),
    "no ASCII number": (FLEX | {labels.MAX_RUN_DURATION: "٦٠٠"}, ("600 to 604800",)),
}
WITHOUT_FLEX = dict.fromkeys(("tpu-v5-lite-device", "tpu-v3-device"), "2x2")
WITHOUT_FLEX |= {"tpu-v3-slice": "4x4", "tpu-v4-podslice": "2x2x2"}


@rows(
    "row",
    {
        **{name: refused(*words, selectors=selectors) for name, (selectors, words) in CONFLICTS.items()},
        **{
            name: no(Reason.REQUEST_NOT_ALLOWED, *words, selectors=selectors)
            for name, (selectors, words) in SECONDS.items()
        },
        **{
            name: refused("flex-start is not offered", accelerator=name, topology=topology, selectors=FLEX)
            for name, topology in WITHOUT_FLEX.items()
        },
    },
)
def test_a_combination_that_gke_cannot_give_is_refused(row: Refused) -> None:
    row.check()


@pytest.mark.parametrize("selectors", [SPOT, FLEX, RESERVED, SPOT | RESERVED])
def test_forced_on_demand_ignores_what_the_pod_selects(selectors: dict[str, str]) -> None:
    forced = a_demand(use=settings(force_on_demand=True), selectors=selectors).way

    assert replace(forced, words=frozenset()) == replace(a_demand().way, words=frozenset())


# --- the list ---


LIST = """
- reservations: {specific: [{name: train}]}
  location: {zones: [us-east5-a]}
- spot: true
  location: {zones: [us-east5-a, us-east5-b]}
- {}
- flexStart: {enabled: true}
  maxRunDurationSeconds: 86400
"""
ON_DEMAND, FLEXIBLE = f"on-demand in {ZONE}", f"flex-start in {ZONE}"
NAMES = [f"reservation train in {A}", f"spot in {A}", f"spot in {ZONE}", ON_DEMAND, FLEXIBLE]
OF_TWO = f"- reservations: {{specific: [{{name: a}}, {{name: b}}]}}\n  location: {{zones: [{A}, {C}]}}"
OF_TRAIN = "- reservations: {specific: [{name: train}]}"
FLEX_FIRST = "- flexStart: {enabled: true}\n- {}"
WAITS = {labels.FLEX_START_WAIT: "600"}


def listing(text: str, **shape: Any) -> dict[str, Any]:
    """A pod's template with the annotation, and by default a toleration of spot nodes."""
    annotations = {labels.CAPACITY: text} | shape.pop("annotations", {})
    return {"tolerations": SPOT_TOLERATION, "annotations": annotations, **shape}


def policy(namespaces: str = "*", accelerators: str = "*", text: str = LIST) -> Any:
    return CapacityPolicy(namespaces=(namespaces,), accelerators=(accelerators,), ways=read_ways(text))


def names(use: dict[str, Any] | None = None, **shape: Any) -> list[str]:
    return [str(each) for each in a_demand(use=settings(**(use or {})), **shape).need.ways]


@rows(
    "use shape expected",
    {
        "all words": ({}, listing(LIST), NAMES),
        "each zone and each reservation": (
            {},
            listing(OF_TWO),
            [f"reservation {name} in us-east5-{zone}" for zone in "ac" for name in "ab"],
        ),
        "zones that the pods may run in": (
            {},
            listing(f"- location: {{zones: [{A}, {C}]}}", node_affinity={labels.ZONE: (A, C)}),
            [f"on-demand in {A}", f"on-demand in {C}"],
        ),
        "the pod's own list, and a policy": ({"capacity_policies": (policy(),)}, listing("- {}"), [ON_DEMAND]),
        "forced on-demand": (
            {"force_on_demand": True, "capacity_policies": (policy(),)},
            listing(LIST),
            [ON_DEMAND],
        ),
        "flex-start first": ({}, listing(FLEX_FIRST), [FLEXIBLE, ON_DEMAND]),
    },
)
def test_a_list_becomes_candidates(use: dict[str, Any], shape: dict[str, Any], expected: list[str]) -> None:
    assert names(use, **shape) == expected


def test_a_shorter_run_time_is_another_candidate() -> None:
    text = "- flexStart: {enabled: true}\n- flexStart: {enabled: true}\n  maxRunDurationSeconds: 600"

    assert [way.run_seconds for way in a_demand(**listing(text, annotations=WAITS)).need.ways] == [604_800, 600]


def test_a_pool_is_made_of_its_candidate_and_names_it() -> None:
    demand = a_demand(**listing(LIST))
    first, third, last = (
        a_pool_body(demand, candidate=number, tried=Try(candidate=number)) for number in (0, 2, 4)
    )

    assert first["config"]["reservationAffinity"]["values"] == ["train"]
    assert [each["locations"] for each in (first, third, last)] == [[A], [ZONE], [ZONE]]
    assert (third["config"]["spot"], last["config"]["maxRunDuration"]) == (True, "86400s")
    marks = [each["config"]["labels"].get(labels.CANDIDATE) for each in (first, third, last)]
    assert marks == [None, "2", "4"]


@pytest.mark.parametrize("shape", [{}, listing("- spot: true")])
def test_without_a_choice_there_is_no_label(shape: dict[str, Any]) -> None:
    demand = a_demand(**shape)

    assert labels.CANDIDATE not in a_pool_body(demand)["config"]["labels"]
    assert demand.place == str(demand.way.tier)


def test_a_list_is_no_part_of_the_key_of_a_need() -> None:
    """So a list that comes, goes or changes never makes a slot look different."""
    shapes: list[dict[str, Any]] = [{"tolerations": SPOT_TOLERATION}, listing(LIST), listing("- spot: true")]

    assert len({want(a_jobset(template=a_template(**shape))).needs[0].key for shape in shapes}) == 1


# --- the operator's policy ---


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ((policy(),), NAMES),
        ((policy("other"), policy(text="- spot: true\n- {}")), [NAMES[2], ON_DEMAND]),
        ((policy(accelerators="tpu-v5*"),), [ON_DEMAND]),
        ((policy(accelerators="tpu-v6e-*"), policy(text="- {}")), NAMES),
        ((policy("other"),), [ON_DEMAND]),
    ],
)
def test_the_first_policy_that_fits_counts(policies: Any, expected: list[str]) -> None:
    assert names({"capacity_policies": policies}, tolerations=SPOT_TOLERATION) == expected


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ({}, [NAMES[0], *NAMES[3:]]),  # no toleration of spot
        ({"selectors": SPOT}, NAMES[1:3]),
        (
            {"selectors": {labels.ZONE: A}, "tolerations": SPOT_TOLERATION},
            [*NAMES[:2], f"on-demand in {A}", f"flex-start in {A}"],
        ),
        ({"selectors": {labels.RESERVATION_NAME: "train"}}, [NAMES[0]]),
        ({"selectors": {labels.RESERVATION_NAME: "other"}}, [f"reservation other in {ZONE}"]),
        ({"selectors": {labels.PROVISIONING: "standard"}}, [NAMES[0], ON_DEMAND]),
    ],
)
def test_of_a_policy_only_what_the_pods_can_use_counts(shape: dict[str, Any], expected: list[str]) -> None:
    assert names({"capacity_policies": (policy(),)}, **shape) == expected


# --- refusals ---


NOT_AS_THESE_NODES = "the pods do not accept the nodes that they would get"


def unfit(text: str, message: str, **shape: Any) -> Refused:
    """A row: a list of which a candidate is refused, with its place."""
    return refused(f"annotation {labels.CAPACITY}: ", message, **listing(text, **shape))


@rows(
    "row",
    {
        "spot": unfit("- spot: true", f"candidate 1, spot in {ZONE}: the pods do not tolerate", tolerations=()),
        "another region": unfit(
            "- {}\n- location: {zones: [us-west1-c]}", "us-west1-c: topology.kubernetes.io/zone: not a zone of the"
        ),
        "no zone": unfit("- location: {zones: [mars]}", "valid: a zone of us-east5"),
        "another zone": unfit(
            f"- location: {{zones: [{A}]}}",
            f"{C}'); valid: {A}, as these nodes have it",
            selectors={labels.ZONE: C},
        ),
        "none of two zones": unfit(
            f"- location: {{zones: [{A}]}}",
            f"In {ZONE}, {C}'); valid: {A}, as",
            node_affinity={labels.ZONE: (ZONE, C)},
        ),
        "another tier": unfit("- {}", f"{labels.SPOT}: {NOT_AS_THESE_NODES}", selectors=SPOT),
        "another reservation": unfit(
            "- reservations: {specific: [{name: other}]}",
            "In train'); valid: other, as these nodes have it",
            selectors={labels.RESERVATION_NAME: "train"},
        ),
        "no name": unfit("- reservations: {specific: [{name: 'no name'}]}", "not a name (got 'no name')"),
        "short run": unfit(
            "- flexStart: {enabled: true}\n  maxRunDurationSeconds: 9", "Expected `int` >= 600 at [0].maxRun"
        ),
        "too many": unfit(
            "- location: {zones: [" + ", ".join(f"us-east5-z{number}" for number in range(17)) + "]}",
            f"each zone and each reservation of an item is one; valid: at most {WAYS_MAX}",
        ),
        "no list": unfit("spot", "Expected `array`, got `str`"),
    },
)
def test_a_candidate_that_the_pods_could_not_run_on_is_refused_by_name(row: Refused) -> None:
    row.check()


@pytest.mark.parametrize(
    ("annotations", "setting", "expected"),
    [({}, 0, 0), ({}, 600, 600), (WAITS, 900, 600), ({labels.FLEX_START_WAIT: "0"}, 600, 0)],
)
def test_flex_start_waits_for_as_long_as_the_annotation_says_or_else_the_setting(
    annotations: dict[str, str], setting: int, expected: int
) -> None:
    use = settings(flex_start_wait_seconds=setting)

    assert a_demand(use=use, annotations=annotations).need.flex_wait_seconds == expected


@pytest.mark.parametrize("text", [" ", "a day", "-1", "1.5", "604801"])
def test_a_wait_that_is_no_such_number_is_refused(text: str) -> None:
    within = f"not a number within the bounds (got '{text}'); valid: 0 to 604800 seconds"
    words = f"{labels.FLEX_START_WAIT}: {within}"

    row = no(Reason.REQUEST_NOT_ALLOWED, words, annotations={labels.FLEX_START_WAIT: text})
    row.check()


OF_LENDER = {labels.RESERVATION_NAME: "train", labels.RESERVATION_PROJECT: "lender-1"}


@pytest.mark.parametrize(
    ("allowed", "shown"),
    [
        ((), "none; an operator can add to the list"),
        (("lender-2/*",), "lender-2/*"),
        (("lender-1/other",), "lender-1/other"),
    ],
)
@rows(
    "shape",
    {
        "listed": listing("- reservations: {specific: [{name: train, project: lender-1}]}"),
        "selected": {"selectors": OF_LENDER},
    },
)
def test_a_reservation_of_another_project_is_used_only_if_the_operator_lists_it(
    shape: dict[str, Any], allowed: tuple[str, ...], shown: str
) -> None:
    demand = a_demand(use=settings(allowed_reservations=("lender-*/train",)), **shape)

    words = f"(got 'lender-1/train'); valid: {shown}"
    no(Reason.REQUEST_NOT_ALLOWED, words, use={"allowed_reservations": allowed}, **shape).check()
    assert demand.way.reservation.path == "projects/lender-1/reservations/train"


@rows("shape", {"listed": listing(OF_TRAIN), "selected": {"selectors": {labels.RESERVATION_NAME: "train"}}})
def test_an_operator_can_limit_the_reservations_of_the_own_project(shape: dict[str, Any]) -> None:
    words = "allowed_reservations does not list this value (got 'train'); valid: spare-*"

    no(Reason.REQUEST_NOT_ALLOWED, words, use={"allowed_reservations": ("spare-*",)}, **shape).check()
    assert a_demand(use=settings(allowed_reservations=("tr*",)), **shape).way.reservation.name == "train"
    assert a_demand(use=settings(allowed_reservations=())).way.reservation.name == ""


@pytest.mark.parametrize(("project", "path"), [("p", "r"), ("lender-1", "projects/lender-1/reservations/r")])
def test_what_the_operator_s_policy_names_is_allowed(project: str, path: str) -> None:
    text = f"- reservations: {{specific: [{{name: r, project: {project}}}]}}"
    demand = a_demand(use=settings(capacity_policies=(policy(text=text),)))

    assert demand.way.reservation.path == path


# --- a disk of one zone pins the pods: the pool moves there, or is refused by name ---


TWO_ZONES = f"[{{location: {{zones: [{A}, {C}]}}}}]"
THREE_ZONES = f"[{{location: {{zones: [{A}, {C}]}}}}, {{spot: true}}]"
"""The last candidate is in the zone of the setting, us-east5-b."""
NO_ZONE = {"clusters": {CLUSTER: ClusterSettings(endpoint="http://127.0.0.1:9")}}
OF_ZONES = {"capacity_policies": read_policies(f"[{{priorities: {TWO_ZONES}}}]")}


def a_disk(*zones: str, claim: str = "data", **fields: Any) -> Disk:
    return Disk(claim=claim, zones=tuple(sorted(zones)), **fields)


def decide(*disks: Disk, use: dict[str, Any] | None = None, text: str = "", **shape: Any) -> Demand | Decision:
    """Decide about a pod with the claims of these disks, and one of which nothing is known."""
    claims = ("scratch", *(each.claim for each in disks))
    asked = listing(text, **shape) if text else shape
    template = a_template(volume_claims=claims, **asked)
    of_others = a_disk(ELSEWHERE, claim="of-others")
    jobset = a_jobset(template=template, disks=(*disks, of_others), created_at=NOW)
    return decide_demand(CLUSTER, a_pod(template=template), jobset, settings(**(use or {})))


@rows(
    "found zones",
    {
        "no disk": (decide(), [ZONE]),
        "another zone than the setting's": (decide(a_disk(A)), [A]),
        "the setting's": (decide(a_disk(ZONE)), [ZONE]),
        "a regional disk that has the setting's": (decide(a_disk(A, ZONE)), [ZONE]),
        "a regional disk that does not": (decide(a_disk(A, C)), [A]),
        "two disks with one zone in common": (decide(a_disk(A, C), a_disk(C, claim="more")), [C]),
        "no setting": (decide(a_disk(A), use=NO_ZONE), [A]),
        "the pod selects the zone": (decide(a_disk(A), selectors={labels.ZONE: A}), [A]),
        "a list": (decide(a_disk(A), text=THREE_ZONES), [A, A]),
        "a disk to be made": (decide(a_disk(C), text=THREE_ZONES), [C, C]),
        "a list of one zone": (
            decide(a_disk(A), text=f"[{{location: {{zones: [{A}]}}}}, {{spot: true}}]"),
            [A, A],
        ),
        "a disk of all zones": (decide(a_disk(A, C, ZONE), text=THREE_ZONES), [A, C, ZONE]),
        "a policy": (decide(use=OF_ZONES), [A, C]),
        "a policy that has the zone": (decide(a_disk(C), use=OF_ZONES), [C]),
        "a policy that has it not": (decide(a_disk(ZONE), use=OF_ZONES), [ZONE]),
    },
)
def test_the_pool_is_where_the_disks_are(found: Demand | Decision, zones: list[str]) -> None:
    """Who writes a list does not know where the pods' first pool makes their disk."""
    assert [each.zone for each in expect_demand(found).need.ways] == zones


@rows(
    "found message",
    {
        "a selected zone": (
            decide(a_disk(A), selectors={labels.ZONE: C}),
            f"spec.nodeSelector {labels.ZONE}: the disk of claim data is in {A} (got {C!r}); valid: {A}",
        ),
        "no zone in common": (
            decide(a_disk(A), a_disk(C, claim="more")),
            f"the disk of claim data is in {A}, the disk of claim more is in {C}",
        ),
        "none of three": (
            decide(a_disk(A, C), a_disk(A, ZONE, claim="more"), a_disk(ZONE, C, claim="most")),
            "no zone",
        ),
        "another region": (decide(a_disk(ELSEWHERE)), "not a zone of the cluster's region (got 'europe-west4-a')"),
        "no candidate": (
            decide(a_disk("us-east5-d"), text=TWO_ZONES),
            f"annotation {labels.CAPACITY}: candidate 1, on-demand in {A}: the disk of claim data",
        ),
    },
)
def test_disks_without_a_common_zone_are_refused_with_their_names(found: Decision, message: str) -> None:
    elsewhere = "cluster's region" in message
    expect_words(found, Reason.SELECTOR_UNSUPPORTED if elsewhere else Reason.CAPACITY_CONFLICT, message)


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
