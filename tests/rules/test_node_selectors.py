"""Node labels, zones, capacity tiers: a selector is satisfied or refused; nothing is ignored."""

import dataclasses
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.kinds import jobset as jobset_keys
from shared.model import labels
from shared.model.decisions import Decision, Reason
from shared.model.errors import CapacityConflict, NotAllowed, Rejected, UnsupportedSelector, ZoneMissing
from shared.model.names import Try, build_owner_labels
from shared.model.needs import Tier, Way
from shared.model.workloads import PodTemplate, SliceGroup
from shared.needs.nodepool import Demand
from shared.needs.selectors import COPIED_FROM_SELECTORS
from shared.needs.ways import Wish
from shared.settings import ClusterSettings, Settings
from shared.shapes.tpus import find_shape
from tests.builders import CLUSTER, PINNED_JOB_KEY, ZONE, a_claim, a_jobset, a_pod, a_template, settings
from tests.demands import a_demand, a_pool_body, decide_demand
from tests.refusals import refuses
from tests.rows import rows
from tests.rules.asked_shapes import refuse_shape


def a_wish(
    template: PodTemplate,
    cluster: str,
    use: Settings,
    *,
    accelerator: str = "tpu-v6e-slice",
    topology: str = "4x4",
) -> Wish:
    return Wish(
        cluster=cluster,
        workload=a_jobset(template=template),
        group=SliceGroup(name="", template=template),
        template=template,
        shape=find_shape(accelerator=accelerator, topology=topology, chips_per_pod=4),
        settings=use,
    )


NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)


SPOT, FLEX, RESERVED = ({labels.SPOT: "true"}, {labels.FLEX_START: "true"}, {labels.RESERVATION_NAME: "r"})
LASTING, BLOCK = {labels.MAX_RUN_DURATION: "3600"}, {labels.RESERVATION_BLOCKS: "b"}
LENT = RESERVED | {labels.RESERVATION_PROJECT: "other-project"}


# --- node labels ---


@rows(
    "shape node_labels",
    {
        "the author's own domains": (
            {"selectors": {"team": "vision", "example.com/rack": "7"}, "node_affinity": {"tier": ("gold",)}},
            {"team": "vision", "example.com/rack": "7", "tier": "gold"},
        ),
        "the Go provisioner's pin": ({"selectors": {PINNED_JOB_KEY: "abc"}}, {PINNED_JOB_KEY: "abc"}),
        "flex-start": ({"selectors": FLEX}, {}),
        "its duration": ({"selectors": FLEX | LASTING}, LASTING),
        **{key: ({"selectors": {key: "x"}}, {key: "x"}) for key in sorted(COPIED_FROM_SELECTORS)},
    },
)
def test_selectors_become_labels_of_the_nodes(shape: dict[str, Any], node_labels: dict[str, str]) -> None:
    assert a_demand(**shape).node_labels == node_labels


SHAPED = {
    labels.ACCELERATOR_COUNT: ("4", "8"),
    labels.MACHINE_FAMILY: ("ct6e", "ct5lp"),
    labels.OPERATING_SYSTEM: ("linux", "windows"),
    labels.OS_DISTRIBUTION: ("cos", "ubuntu"),
    labels.ARCHITECTURE: ("amd64", "arm64"),
    labels.REGION: ("us-east5", "us-west1"),
}
"""What the nodes have, and what they have not."""
RESERVED_KEYS = (
    *(labels.JOBSET_NAME, labels.MANAGER, labels.HOSTNAME, "cloud.google.com/gke-boot-disk"),
    *("node-role.kubernetes.io/control-plane", "autoscaling.gke.io/x", "x.k8s.io/y"),
)
NO_ZONES = [
    {labels.ZONE: "us-west1-a"},
    {labels.ZONE: "us-east5"},
    {labels.ZONE: "us-east51-a"},
    {labels.RESERVATION_ZONE: "europe-west4-b"},
]
TO_EXIST = ("team", "cloud.google.com/gke-boot-disk", labels.RESERVATION_AFFINITY)
"""The pool would be paid for, and the pod would never fit it: nobody says the value."""


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        *(({"selectors": {key: wrong}}, (key, wrong, right)) for key, (right, wrong) in SHAPED.items()),
        *(({"selectors": {key: "x"}}, (f"{key}=x",)) for key in RESERVED_KEYS),
        *(
            ({"selectors": {labels.GPU_NODE: value}}, (labels.GPU_NODE, "valid: remove this selector"))
            for value in ("true", "false")
        ),
        *(({"node_affinity": {key: ()}}, (key,)) for key in TO_EXIST),
        *(({"selectors": zone}, ("valid: a zone of us-east5",)) for zone in NO_ZONES),
    ],
)
def test_a_selector_that_no_pool_of_ours_satisfies_is_refused(
    shape: dict[str, Any], words: tuple[str, ...]
) -> None:
    decision = refuse_shape(**shape)

    assert decision.reason == Reason.SELECTOR_UNSUPPORTED
    assert [word for word in words if word not in decision.message] == []


def test_a_selector_that_agrees_with_the_shape_is_served() -> None:
    for key, (right, _) in SHAPED.items():
        a_demand(selectors={key: right})


@pytest.mark.parametrize("key", [labels.SPOT, labels.FLEX_START])
@pytest.mark.parametrize("affinity", [(), ("false",)])
def test_a_tier_that_must_exist_or_not_be_is_refused(key: str, affinity: tuple[str, ...]) -> None:
    assert refuse_shape(node_affinity={key: affinity}).reason == Reason.CAPACITY_CONFLICT


@pytest.mark.parametrize("key", [labels.HOSTNAME, labels.OPERATING_SYSTEM, labels.ACCELERATOR_COUNT, "copied"])
def test_exists_on_a_label_that_the_nodes_have_anyway_asks_for_nothing(key: str) -> None:
    if key == labels.ACCELERATOR_COUNT:
        pod = a_pod(shape={"selectors": {key: "4"}, "node_affinity": {key: ()}})
    else:
        pod = a_pod(shape={"node_affinity": {key: ()}}, pod_labels={"copied": "v"})

    jobset = a_jobset(template=pod.template)

    assert isinstance(decide_demand(CLUSTER, pod, jobset, settings(copy_labels=("copied",))), Demand)


def test_labels_are_copied_by_setting_and_by_annotation() -> None:
    pod = a_pod(pod_labels={"a": "1", "b": "2", "c": "3"}, annotations={labels.COPY_LABELS: "b"})
    demand = a_demand(pod=pod, use=settings(copy_labels=("a", "absent")))

    assert demand.node_labels == {"a": "1", "b": "2"}


OF_OWNERS = build_owner_labels(
    a_claim(), Try(attempt=1, candidate=1, round=1, useless=1), created_at=1, cluster_uid="u", warm_seconds=1
).keys()
OWNER_KEYS = st.sampled_from(sorted(OF_OWNERS))
KEYS = st.one_of(OWNER_KEYS, NAMES, st.sampled_from([labels.COPY_LABELS, jobset_keys.NAMESPACED_JOB, labels.SPOT]))


@given(
    selectors=st.dictionaries(KEYS, NAMES, max_size=3),
    affinity=st.dictionaries(KEYS, st.lists(NAMES, max_size=2).map(tuple), max_size=2),
    pod_labels=st.dictionaries(KEYS, NAMES, max_size=4),
    copied=st.lists(KEYS, max_size=4),
    setting=st.lists(KEYS, max_size=3).map(tuple),
)
def test_nothing_that_a_pod_s_author_says_overwrites_an_owner_label(
    selectors: dict[str, str],
    affinity: dict[str, tuple[str, ...]],
    pod_labels: dict[str, str],
    copied: list[str],
    setting: tuple[str, ...],
) -> None:
    use = settings(copy_labels=setting)
    pod = a_pod(
        shape={"selectors": selectors, "node_affinity": affinity},
        pod_labels=pod_labels,
        annotations={labels.COPY_LABELS: ",".join(copied)},
    )
    found = decide_demand(CLUSTER, pod, a_jobset(template=pod.template), use)
    if isinstance(found, Decision):
        return
    built = a_pool_body(found, use=use)["config"]["labels"]
    plain = a_pool_body(a_demand())["config"]["labels"]
    assert {key for key in OF_OWNERS if built.get(key) != plain.get(key)} == set()


# --- zones ---


def in_cluster(location: str, zone: str = "") -> tuple[str, Any]:
    cluster = f"projects/p/locations/{location}/clusters/c"
    return cluster, settings(clusters={cluster: ClusterSettings(endpoint="http://h", zone=zone)})


@pytest.mark.parametrize(
    ("location", "setting", "selectors", "zone"),
    [
        ("us-east5", "us-east5-b", {}, "us-east5-b"),
        ("us-east5", "us-east5-b", {labels.ZONE: "us-east5-a"}, "us-east5-a"),
        ("us-east5", "us-east5-b", {labels.RESERVATION_ZONE: "us-east5-c"}, "us-east5-c"),
        ("us-east5", "", {labels.ZONE: "us-east5-a"}, "us-east5-a"),
        ("us-east5-a", "", {}, "us-east5-a"),
        ("us-east5-a", "us-east5-b", {}, "us-east5-b"),
        ("us-east5", "us-east5-b", {labels.REGION: "us-east5"}, "us-east5-b"),
        ("us-central2", "us-central2-b", {}, "us-central2-b"),
    ],
)
def test_the_zone_is_the_pod_s_else_the_setting_s_else_the_cluster_s(
    location: str, setting: str, selectors: dict[str, str], zone: str
) -> None:
    cluster, use = in_cluster(location, setting)

    assert a_wish(a_template(selectors=selectors), cluster, use).zone == zone


def test_without_any_zone_the_setting_to_make_is_named() -> None:
    cluster, use = in_cluster("us-east5")

    with refuses(ZoneMissing) as missing:
        _ = a_wish(a_template(), cluster, use).zone
    assert missing.value.reason == Reason.ZONE_MISSING
    assert f"clusters.{cluster}.zone" in str(missing.value)


# --- capacity ---


def tier_of(accelerator: str = "tpu-v6e-slice", topology: str = "4x4", **shape: Any) -> Way:
    template = a_template(accelerator=accelerator, topology=topology, **shape)
    use = settings(allowed_reservations=("*", "other-project/r"))
    return a_wish(template, CLUSTER, use, accelerator=accelerator, topology=topology).selected


@pytest.mark.parametrize(
    ("shape", "way"),
    [
        ({}, {"tier": Tier.ON_DEMAND}),
        ({"selectors": {labels.PROVISIONING: "standard"}}, {"tier": Tier.ON_DEMAND}),
        ({"selectors": SPOT}, {"tier": Tier.SPOT}),
        ({"selectors": {labels.PROVISIONING: "spot"}}, {"tier": Tier.SPOT}),
        ({"node_affinity": {labels.SPOT: ("true",)}}, {"tier": Tier.SPOT}),
        ({"selectors": FLEX}, {"tier": Tier.FLEX_START, "run_seconds": 604_800}),
        ({"selectors": FLEX | {labels.MAX_RUN_DURATION: "600"}}, {"run_seconds": 600}),
        ({"selectors": {labels.PROVISIONING: "flex-start"}}, {"tier": Tier.FLEX_START}),
        ({"selectors": RESERVED}, {"tier": Tier.RESERVATION, "reservation.path": "r"}),
        ({"selectors": RESERVED | {labels.RESERVATION_AFFINITY: "specific"}}, {"tier": Tier.RESERVATION}),
        ({"selectors": LENT}, {"reservation.path": "projects/other-project/reservations/r"}),
        ({"selectors": RESERVED | BLOCK}, {"reservation.path": "r/reservationBlocks/b"}),
        (
            {"selectors": LENT | BLOCK | {labels.RESERVATION_SUBBLOCKS: "s"}},
            {
                "reservation.path": (
                    "projects/other-project/reservations/r/reservationBlocks/b/reservationSubBlocks/s"
                )
            },
        ),
    ],
)
def test_the_way_is_what_the_pod_selects(shape: dict[str, Any], way: dict[str, Any]) -> None:
    selected = tier_of(**shape)

    assert {field: attrgetter(field)(selected) for field in way} == way


CONFLICTS = {
    "spot + flex-start": (SPOT | FLEX, ("spot + flex-start",)),
    "spot + reservation": (SPOT | RESERVED, ("spot + reservation",)),
    "flex-start + reservation": (FLEX | RESERVED, ("flex-start + reservation",)),
    "spot + any": (SPOT | {labels.RESERVATION_AFFINITY: "any"}, (labels.RESERVATION_AFFINITY,)),
    "TPU + any": ({labels.RESERVATION_AFFINITY: "any"}, ("any", "specific", "specific")),
    "name + any": (RESERVED | {labels.RESERVATION_AFFINITY: "any"}, ("any", "specific")),
    "specific, no name": ({labels.RESERVATION_AFFINITY: "specific"}, (labels.RESERVATION_NAME,)),
    "sub-block, no block": (RESERVED | {labels.RESERVATION_SUBBLOCKS: "s"}, (labels.RESERVATION_BLOCKS,)),
    "block, no name": (
        {labels.RESERVATION_AFFINITY: "specific", labels.RESERVATION_BLOCKS: "b"},
        (labels.RESERVATION_NAME,),
    ),
    "spot + preemptible": (SPOT | {labels.PREEMPTIBLE: "true"}, (labels.PREEMPTIBLE, labels.SPOT)),
    "preemptible": ({labels.PROVISIONING: "preemptible"}, (labels.SPOT,)),
    "unknown model": ({labels.PROVISIONING: "queued"}, ("'queued'", "standard, spot, flex-start")),
    "bad name": ({labels.RESERVATION_NAME: "Not Legal"}, ("'Not Legal'", "not a name")),
    "a project that is a path": (RESERVED | {labels.RESERVATION_PROJECT: "../p"}, ("'../p'", "not a name")),
    "a path as name": ({labels.RESERVATION_NAME: "r/reservationBlocks/b"}, ("not a name",)),
    "too short": (FLEX | {labels.MAX_RUN_DURATION: "599"}, ("'599'", "600 to 604800")),
    "too long": (FLEX | {labels.MAX_RUN_DURATION: "604801"}, ("'604801'",)),
    "no number": (FLEX | {labels.MAX_RUN_DURATION: "1h"}, ("'1h'",)),
    "no ASCII number": (FLEX | {labels.MAX_RUN_DURATION: "٦٠٠"}, ("600 to 604800",)),
}


@rows("selectors words", CONFLICTS)
def test_a_combination_that_gke_cannot_give_is_refused(selectors: dict[str, str], words: tuple[str, ...]) -> None:
    with refuses(CapacityConflict) as refused:
        tier_of(selectors=selectors)
    assert refused.value.reason == Reason.CAPACITY_CONFLICT
    assert [word for word in words if word not in str(refused.value)] == []


@pytest.mark.parametrize(
    ("accelerator", "topology"),
    [
        ("tpu-v3-slice", "4x4"),
        ("tpu-v4-podslice", "2x2x2"),
        ("tpu-v5-lite-device", "2x2"),
        ("tpu-v3-device", "2x2"),
    ],
)
def test_flex_start_is_refused_where_it_is_not_offered(accelerator: str, topology: str) -> None:
    with refuses(CapacityConflict, match="GKE does not offer flex-start"):
        tier_of(accelerator, topology, selectors=FLEX)


@pytest.mark.parametrize(
    "selectors", [SPOT, FLEX, RESERVED, SPOT | RESERVED, {labels.RESERVATION_AFFINITY: "any"}]
)
def test_forced_on_demand_ignores_what_the_pod_selects(selectors: dict[str, str]) -> None:
    wish = a_wish(a_template(selectors=selectors), CLUSTER, settings(force_on_demand=True))

    assert dataclasses.replace(wish.selected, words=frozenset()) == Way(
        Tier.ON_DEMAND, machine=wish.shape.machine.name
    )


ANY_VALUE = st.one_of(st.sampled_from(["true", "false", "spot", "any", "specific", ZONE, "4", "r"]), NAMES)
ANY_KEY = st.sampled_from(
    sorted(value for name, value in vars(labels).items() if name.isupper() and isinstance(value, str))
)


@given(
    selectors=st.dictionaries(ANY_KEY, ANY_VALUE, max_size=4),
    affinity=st.dictionaries(ANY_KEY, st.lists(ANY_VALUE, max_size=2).map(tuple), max_size=3),
)
def test_whatever_is_selected_is_a_demand_or_a_decision_with_words(
    selectors: dict[str, str], affinity: dict[str, tuple[str, ...]]
) -> None:
    pod = a_pod(shape={"selectors": selectors, "node_affinity": affinity})
    found = decide_demand(CLUSTER, pod, a_jobset(), settings())

    if isinstance(found, Decision):
        assert found.reason in Reason
        assert found.message
    else:
        kept = a_pool_body(found)
        assert kept["locations"] == [found.way.zone]


def test_every_refusal_of_selectors_is_a_rejection_with_a_field() -> None:
    for error in (UnsupportedSelector("x", field="f"), ZoneMissing("x", field="f"), NotAllowed("x", field="f")):
        assert isinstance(error, Rejected)
        assert str(error).startswith("f: x")
