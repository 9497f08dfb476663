"""Node labels, zones, capacity tiers: a selector is satisfied or refused; nothing is ignored."""

import dataclasses
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
from tests.unit.asked_shapes import refuse_shape


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


# --- node labels ---


def test_a_selector_of_the_user_s_own_domain_becomes_a_node_label() -> None:
    demand = a_demand(selectors={"team": "vision", "example.com/rack": "7"}, node_affinity={"tier": ("gold",)})

    assert demand.node_labels == {"team": "vision", "example.com/rack": "7", "tier": "gold"}


def test_the_go_provisioner_s_pin_is_honoured() -> None:
    assert a_demand(selectors={PINNED_JOB_KEY: "abc"}).node_labels == {PINNED_JOB_KEY: "abc"}


@pytest.mark.parametrize("key", sorted(COPIED_FROM_SELECTORS))
def test_keys_that_gke_reads_from_labels_are_sent_as_labels(key: str) -> None:
    assert a_demand(selectors={key: "x"}).node_labels == {key: "x"}


@pytest.mark.parametrize(
    ("key", "right", "wrong"),
    [
        (labels.ACCELERATOR_COUNT, "4", "8"),
        (labels.MACHINE_FAMILY, "ct6e", "ct5lp"),
        (labels.OPERATING_SYSTEM, "linux", "windows"),
        (labels.OS_DISTRIBUTION, "cos", "ubuntu"),
        (labels.ARCHITECTURE, "amd64", "arm64"),
        (labels.REGION, "us-east5", "us-west1"),
    ],
)
def test_a_selector_that_contradicts_the_shape_is_refused(key: str, right: str, wrong: str) -> None:
    a_demand(selectors={key: right})

    decision = refuse_shape(selectors={key: wrong})
    assert decision.reason == Reason.SELECTOR_UNSUPPORTED
    assert all(part in decision.message for part in (key, wrong, right))


@pytest.mark.parametrize(
    "key",
    [
        labels.JOBSET_NAME,
        labels.MANAGER,
        "cloud.google.com/gke-boot-disk",
        "node-role.kubernetes.io/control-plane",
        "autoscaling.gke.io/x",
        "x.k8s.io/y",
        labels.HOSTNAME,
    ],
)
def test_a_reserved_selector_that_no_pool_of_ours_carries_is_refused(key: str) -> None:
    decision = refuse_shape(selectors={key: "x"})

    assert decision.reason == Reason.SELECTOR_UNSUPPORTED
    assert f"{key}=x" in decision.message


@pytest.mark.parametrize("value", ["true", "false"])
def test_no_tpu_node_has_the_label_of_gpu_nodes(value: str) -> None:
    decision = refuse_shape(selectors={labels.GPU_NODE: value})

    assert decision.reason == Reason.SELECTOR_UNSUPPORTED
    assert decision.message.startswith(labels.GPU_NODE)
    assert "valid: remove this selector" in decision.message


@pytest.mark.parametrize("key", ["team", "cloud.google.com/gke-boot-disk", labels.RESERVATION_AFFINITY])
def test_a_label_that_must_exist_but_whose_value_nobody_says_is_refused(key: str) -> None:
    """The pool would be paid for, and the pod would never fit it."""
    decision = refuse_shape(node_affinity={key: ()})

    assert decision.reason == Reason.SELECTOR_UNSUPPORTED
    assert key in decision.message


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


@pytest.mark.parametrize(
    "selectors",
    [
        {labels.ZONE: "us-west1-a"},
        {labels.ZONE: "us-east5"},
        {labels.ZONE: "us-east51-a"},
        {labels.RESERVATION_ZONE: "europe-west4-b"},
    ],
)
def test_a_zone_that_is_not_the_cluster_s_is_refused(selectors: dict[str, str]) -> None:
    refused = refuse_shape(selectors=selectors)

    assert refused.reason == Reason.SELECTOR_UNSUPPORTED
    assert "valid: a zone of us-east5" in refused.message


# --- capacity ---


def tier_of(accelerator: str = "tpu-v6e-slice", topology: str = "4x4", **shape: Any) -> Way:
    template = a_template(accelerator=accelerator, topology=topology, **shape)
    use = settings(allowed_reservations=("*", "other-project/r"))
    return a_wish(template, CLUSTER, use, accelerator=accelerator, topology=topology).selected


@pytest.mark.parametrize(
    ("shape", "tier"),
    [
        ({}, Tier.ON_DEMAND),
        ({"selectors": {labels.PROVISIONING: "standard"}}, Tier.ON_DEMAND),
        ({"selectors": {labels.SPOT: "true"}}, Tier.SPOT),
        ({"selectors": {labels.PROVISIONING: "spot"}}, Tier.SPOT),
        ({"node_affinity": {labels.SPOT: ("true",)}}, Tier.SPOT),
        ({"selectors": {labels.FLEX_START: "true"}}, Tier.FLEX_START),
        ({"selectors": {labels.PROVISIONING: "flex-start"}}, Tier.FLEX_START),
        ({"selectors": {labels.RESERVATION_NAME: "r"}}, Tier.RESERVATION),
        ({"selectors": {labels.RESERVATION_NAME: "r", labels.RESERVATION_AFFINITY: "specific"}}, Tier.RESERVATION),
    ],
)
def test_the_tier_is_what_the_pod_selects(shape: dict[str, Any], tier: Tier) -> None:
    assert tier_of(**shape).tier == tier


@pytest.mark.parametrize(
    ("selectors", "path"),
    [
        ({}, "r"),
        ({labels.RESERVATION_PROJECT: "other-project"}, "projects/other-project/reservations/r"),
        ({labels.RESERVATION_BLOCKS: "b"}, "r/reservationBlocks/b"),
        (
            {
                labels.RESERVATION_PROJECT: "other-project",
                labels.RESERVATION_BLOCKS: "b",
                labels.RESERVATION_SUBBLOCKS: "s",
            },
            "projects/other-project/reservations/r/reservationBlocks/b/reservationSubBlocks/s",
        ),
    ],
)
def test_a_reservation_is_named_as_gke_wants_it(selectors: dict[str, str], path: str) -> None:
    assert tier_of(selectors={labels.RESERVATION_NAME: "r", **selectors}).reservation.path == path


SPOT, FLEX, RESERVED = ({labels.SPOT: "true"}, {labels.FLEX_START: "true"}, {labels.RESERVATION_NAME: "r"})
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


@pytest.mark.parametrize(("selectors", "seconds"), [({}, 604_800), ({labels.MAX_RUN_DURATION: "600"}, 600)])
def test_flex_start_lives_as_long_as_asked_or_as_set(selectors: dict[str, str], seconds: int) -> None:
    assert tier_of(selectors=FLEX | selectors).run_seconds == seconds


def test_a_run_duration_that_is_selected_is_on_the_nodes() -> None:
    asked = a_demand(selectors=FLEX | {labels.MAX_RUN_DURATION: "3600"})

    assert asked.node_labels == {labels.MAX_RUN_DURATION: "3600"}
    assert a_demand(selectors=FLEX).node_labels == {}


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
