"""Node labels and zones: a selector is satisfied or refused; nothing is ignored."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.kinds import jobset as jobset_keys
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.names import Try, build_owner_labels
from shared.model.workloads import Requirement, TermKind, TopologyTerm
from shared.needs.nodepool import Demand
from shared.needs.selectors import COPIED_FROM_SELECTORS
from shared.settings import ClusterSettings
from tests.builders import CLUSTER, PINNED_JOB_KEY, ZONE, a_claim, a_jobset, a_pod, a_template, settings
from tests.demands import a_demand, a_pool_body, decide_demand, expect_demand, want
from tests.rows import rows
from tests.rules.asked_shapes import Refused, decide_shape, expect_words, no
from tests.rules.live_pods import ONE_HOST, a_workload, change, plan

NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
FLEX, LASTING = {labels.FLEX_START: "true"}, {labels.MAX_RUN_DURATION: "3600"}
refused = partial(no, Reason.SELECTOR_UNSUPPORTED)


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
NO_TIERS = [
    *((labels.PROVISIONING, model, "standard") for model in ("queued", "preemptible")),
    (labels.PREEMPTIBLE, "true", "no such selector"),
    *((key, "false", "valid: true") for key in (labels.SPOT, labels.FLEX_START)),
]
"""What GKE does not offer, and what is valid."""
NO_ZONES = [(labels.ZONE, zone) for zone in ("us-west1-a", "us-east5", "us-east51-a")]
OF_NETWORKS = {labels.NETWORK_PROFILE: "auto", "cloud.google.com/gke-networking-dra-driver": "true"}
METADATA = {"selectors": {labels.METADATA_SERVER: "true"}}
METADATA_EXISTS = {"node_terms": ((Requirement(labels.METADATA_SERVER, "Exists"),),)}
REFUSED: dict[str, Refused] = {
    **{key: refused(key, wrong, right, selectors={key: wrong}) for key, (right, wrong) in SHAPED.items()},
    **{f"{key}=x": refused(f"{key}=x", selectors={key: "x"}) for key in RESERVED_KEYS},
    **{
        f"GPU node {value}": refused(
            labels.GPU_NODE, "valid: no such selector", selectors={labels.GPU_NODE: value}
        )
        for value in ("true", "false")
    },
    # The pool would be paid for, and the pod would never fit it: nobody says the value.
    "an own label exists": refused("team", node_affinity={"team": ()}),
    **{f"{key} {wrong}": refused(key, wrong, valid, selectors={key: wrong}) for key, wrong, valid in NO_TIERS},
    "any reservation": refused(
        "any", "valid: specific", selectors={labels.RESERVATION_NAME: "r", labels.RESERVATION_AFFINITY: "any"}
    ),
    **{
        f"{key} {zone}": refused("valid: a zone of us-east5", selectors={key: zone})
        for key, zone in (*NO_ZONES, (labels.RESERVATION_ZONE, "europe-west4-b"))
    },
    **{key: refused(key, "remove this selector", selectors={key: value}) for key, value in OF_NETWORKS.items()},
    "no metadata server": refused("no such selector", use={"node_workload_identity": False}, **METADATA),
    "none exists": refused("no such selector", use={"node_workload_identity": False}, **METADATA_EXISTS),
    "without it": refused(labels.METADATA_SERVER, selectors={labels.METADATA_SERVER: "false"}),
}


@rows("row", REFUSED)
def test_a_selector_that_no_pool_of_ours_satisfies_is_refused(row: Refused) -> None:
    row.check()


@pytest.mark.parametrize(
    "shape",
    [*({"selectors": {key: right}} for key, (right, _) in SHAPED.items()), METADATA, METADATA_EXISTS],
    ids=str,
)
def test_a_selector_that_agrees_with_the_nodes_asks_for_nothing(shape: dict[str, Any]) -> None:
    demand = a_demand(**shape)

    assert demand.node_labels.keys() <= {labels.ACCELERATOR_COUNT}
    assert "networkConfig" not in a_pool_body(demand)


@pytest.mark.parametrize("key", [labels.HOSTNAME, labels.OPERATING_SYSTEM, labels.ACCELERATOR_COUNT, "copied"])
def test_exists_on_a_label_that_the_nodes_have_anyway_asks_for_nothing(key: str) -> None:
    own = {"selectors": {key: "4"}} if key == labels.ACCELERATOR_COUNT else {}
    pod = a_pod(shape={"node_affinity": {key: ()}, **own}, pod_labels={"copied": "v"})

    a_demand(pod=pod, use=settings(copy_labels=("copied",)))


def test_labels_are_copied_by_setting_and_by_annotation() -> None:
    pod = a_pod(pod_labels={"a": "1", "b": "2", "c": "3"}, annotations={labels.COPY_LABELS: "b"})
    demand = a_demand(pod=pod, use=settings(copy_labels=("a", "absent")))

    assert demand.node_labels == {"a": "1", "b": "2"}


OF_OWNERS = build_owner_labels(
    a_claim(), Try(attempt=1, candidate=1, round=1, useless=1), created_at=1, cluster_uid="u", warm_seconds=1
).keys()
OWNER_KEYS = st.sampled_from(sorted(OF_OWNERS))
KEYS = st.one_of(OWNER_KEYS, NAMES, st.sampled_from([labels.COPY_LABELS, jobset_keys.NAMESPACED_JOB, labels.SPOT]))
AFFINITY = st.dictionaries(KEYS, st.lists(NAMES, max_size=2).map(tuple), max_size=2)


@given(
    shape=st.fixed_dictionaries(
        {"selectors": st.dictionaries(KEYS, NAMES, max_size=3), "node_affinity": AFFINITY}
    ),
    pod_labels=st.dictionaries(KEYS, NAMES, max_size=4),
    copied=st.lists(KEYS, max_size=4),
    setting=st.lists(KEYS, max_size=3).map(tuple),
)
def test_nothing_that_a_pod_s_author_says_overwrites_an_owner_label(
    shape: dict[str, Any], pod_labels: dict[str, str], copied: list[str], setting: tuple[str, ...]
) -> None:
    use = settings(copy_labels=setting)
    pod = a_pod(shape=shape, pod_labels=pod_labels, annotations={labels.COPY_LABELS: ",".join(copied)})
    found = decide_demand(CLUSTER, pod, a_jobset(template=pod.template), use)
    if isinstance(found, Decision):
        return
    built = a_pool_body(found, use=use)["config"]["labels"]
    plain = a_pool_body(a_demand())["config"]["labels"]
    assert {key for key in OF_OWNERS if built.get(key) != plain.get(key)} == set()


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
        assert a_pool_body(found)["locations"] == [found.way.zone]


def test_networks_are_those_that_the_operator_names() -> None:
    use = settings(node_additional_networks=("n:s",))

    assert a_pool_body(a_demand(use=use), use=use)["networkConfig"] == {
        "additionalNodeNetworkConfigs": [{"network": "n", "subnetwork": "s"}]
    }


# --- zones ---


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
        ("us-east5", "", {}, None),
    ],
)
def test_the_zone_is_the_pod_s_else_the_setting_s_else_the_cluster_s(
    location: str, setting: str, selectors: dict[str, str], zone: str | None
) -> None:
    cluster, template = f"projects/p/locations/{location}/clusters/c", a_template(selectors=selectors)
    use = settings(clusters={cluster: ClusterSettings(endpoint="http://h", zone=setting)})
    found = decide_demand(cluster, a_pod(template=template), a_jobset(template=template), use)

    if zone is None:
        expect_words(found, Reason.ZONE_MISSING, f"clusters.{cluster}.zone")
    else:
        assert expect_demand(found).way.zone == zone


# --- slices that GKE's dynamic slicing forms are left alone, and the text names the feature ---


SLICE = "cloud.google.com/gke-tpu-slice"
PARTITION = "cloud.google.com/gke-tpu-partition-4x4x4-state"
PART = "cloud.google.com/gke-tpu-slice-2x4-id"
LARGE = {labels.SLICE_TOPOLOGY: "4x12x16"}
IRONWOOD: dict[str, Any] = {"accelerator": "tpu7x", "topology": "4x4x4"}
NO_TOPOLOGY: dict[str, Any] = {"accelerator": "tpu7x", "topology": None}


@rows(
    "shape key",
    {
        "a slice by its name": (IRONWOOD | {"selectors": {SLICE: "test-slice"}}, SLICE),
        "healthy partitions": (IRONWOOD | {"selectors": {PARTITION: "HEALTHY"}}, PARTITION),
        "two states": (IRONWOOD | {"node_affinity": {PARTITION: ("HEALTHY", "DEGRADED")}}, PARTITION),
        "a slice for each Job": (
            IRONWOOD | {"topology_terms": (TopologyTerm(kind=TermKind.AFFINITY, key=SLICE),)},
            SLICE,
        ),
        "a part": ({"annotations": {"kueue.x-k8s.io/podset-required-topology": PART}}, PART),
        "a slice of several pools": (NO_TOPOLOGY | {"annotations": LARGE}, labels.SLICE_TOPOLOGY),
    },
)
def test_a_slice_that_gke_forms_is_left_alone_and_the_feature_is_named(shape: dict[str, Any], key: str) -> None:
    words = ("dynamic slicing", f"remove {key}")

    expect_words(decide_shape(**shape), Reason.DEMAND_LEFT_TO_GKE, *words, verdict=Verdict.NOTHING)


@rows(
    "shape",
    {
        "an annotation of what one pool can be": NO_TOPOLOGY | {"annotations": {labels.SLICE_TOPOLOGY: "4x4x4"}},
        "a selector of a large topology": {"accelerator": "tpu7x", "topology": "4x8x8"},
        "a generation without dynamic slicing": {
            "accelerator": "tpu-v5p-slice",
            "topology": None,
            "annotations": {labels.SLICE_TOPOLOGY: "4x8x8"},
        },
    },
)
def test_what_one_pool_serves_gets_it(shape: dict[str, Any]) -> None:
    expect_demand(decide_shape(**shape))


# --- our annotations and labels: unknown, with an unknown value, or in the wrong place ---


OWN = "tpu-provisioner.cloud.google.com/"
PLACES = ("annotations", "pod_labels", "of_jobset")


def decide_keys(**keys: dict[str, str]) -> Demand | Decision:
    """Decide the one slice of a JobSet with keys in one or more of the places."""
    annotations, pod_labels, of_jobset = (keys.get(place, {}) for place in PLACES)
    pod = change(ONE_HOST, {}, annotations=annotations, labels=pod_labels)
    (found,) = plan(a_workload("JobSet", pod, hosts=1, annotations=of_jobset))
    return found


@pytest.mark.parametrize("key", [f"{OWN}disable-autoprovision", f"{OWN}idle-second", f"{OWN}slice-selection"])
@pytest.mark.parametrize("place", PLACES)
def test_a_key_that_is_not_ours_to_the_letter_stops_the_purchase(key: str, place: str) -> None:
    unknown = f"annotation or label {key}: is an unknown key, so no node pool is created"
    listed = labels.DISABLE_AUTOPROVISIONING

    expect_words(decide_keys(**{place: {key: "true"}}), Reason.REQUEST_NOT_ALLOWED, unknown, listed)


@pytest.mark.parametrize("value", ["yes", "True", "gpu", "1"])
@pytest.mark.parametrize("key", [labels.DISABLE_AUTOPROVISIONING, labels.PARTIAL_SLICE])
def test_an_unknown_value_stops_the_purchase(key: str, value: str) -> None:
    found = decide_keys(annotations={key: value})

    expect_words(found, Reason.REQUEST_NOT_ALLOWED, f"got '{value}'", "valid: true, false")


@pytest.mark.parametrize("place", PLACES)
def test_an_opt_out_counts_on_the_workload_too(place: str) -> None:
    found = decide_keys(**{place: {labels.DISABLE_AUTOPROVISIONING: "true"}})

    expect_words(found, Reason.DEMAND_OPTED_OUT, verdict=Verdict.NOTHING)


@pytest.mark.parametrize(("value", "left"), [("true", True), ("gpu", False), ("false", False), ("", False)])
def test_an_opt_out_of_the_namespace_leaves_its_workloads_to_others(value: str, *, left: bool) -> None:
    wanted = want(a_jobset(), a_pod(), namespace_labels={labels.DISABLE_AUTOPROVISIONING: value})

    assert (bool(wanted.left), bool(wanted.refusals), bool(wanted.needs)) == (left, left, not left)


def test_an_annotation_in_a_place_where_it_is_not_read_is_told_its_place() -> None:
    wrong_place = f"metadata.annotations {labels.IDLE_SECONDS}: this annotation is read from the pod template"

    expect_words(decide_keys(of_jobset={labels.IDLE_SECONDS: "60"}), Reason.REQUEST_NOT_ALLOWED, wrong_place)
    expect_demand(decide_keys(annotations={labels.IDLE_SECONDS: "0"}, of_jobset={labels.IDLE_SECONDS: "0"}))


@pytest.mark.parametrize(
    "key",
    [
        *("cloud.google.com/gke-tpu-topology-hint", "example.com/tpu-provisioner", "gke-gcsfuse/volumes"),
        *("google.com/tpu-provisioner-idle", "kueue.x-k8s.io/podset-preferred-topology"),
        *("app.kubernetes.io/provisioned-by", "tpu-provisioner.google.com/disable-autoprovisioning"),
    ],
)
def test_keys_of_others_are_not_ours_to_judge(key: str) -> None:
    expect_demand(decide_keys(annotations={key: "x"}, pod_labels={key: "x"}, of_jobset={key: "x"}))
