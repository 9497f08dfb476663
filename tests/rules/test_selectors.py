"""Node labels and zones: a selector is satisfied or refused; nothing is ignored."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.kinds import jobset as jobset_keys
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.names import Try, build_owner_labels
from shared.needs.nodepool import Demand
from shared.needs.selectors import COPIED_FROM_SELECTORS
from shared.settings import ClusterSettings
from tests.builders import CLUSTER, ZONE, a_claim, a_jobset, a_pod, a_template, settings
from tests.demands import a_demand, a_pool_body, decide_demand, expect_demand
from tests.refusals import expect_words
from tests.rules.live_pods import ONE_HOST, a_workload, change, plan

NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)


@pytest.mark.parametrize("key", sorted(COPIED_FROM_SELECTORS))
def test_a_selector_of_gke_that_nodes_may_have_becomes_their_label(key: str) -> None:
    assert a_demand(selectors={key: "x"}).node_labels == {key: "x"}


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
