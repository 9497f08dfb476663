"""Our annotations and labels: misspelt, with an unknown value, or in a place that is not read."""

import pytest

from shared.model import labels
from shared.model.decisions import Decision, Reason
from shared.needs.nodepool import Demand
from tests.builders import a_jobset, a_pod, expect_decision
from tests.demands import want
from tests.rules.live_pods import ONE_HOST, a_workload, change, plan

OWN = "tpu-provisioner.cloud.google.com/"


def decide(
    annotations: dict[str, str] | None = None,
    *,
    pod_labels: dict[str, str] | None = None,
    of_jobset: dict[str, str] | None = None,
) -> Demand | Decision:
    """Decide the one slice of a JobSet with these keys."""
    pod = change(ONE_HOST, {}, annotations=annotations or {}, labels=pod_labels or {})
    (found,) = plan(a_workload("JobSet", pod, hosts=1, annotations=of_jobset or {}))
    return found


@pytest.mark.parametrize(
    ("key", "near"),
    [
        (f"{OWN}disable-autoprovision", labels.DISABLE_AUTOPROVISIONING),
        ("tpu-provisoner.cloud.google.com/disable-autoprovisioning", labels.DISABLE_AUTOPROVISIONING),
        ("tpu-provisioner.google.com/disable-autoprovisioning", labels.DISABLE_AUTOPROVISIONING),
        (f"{OWN}idle-second", labels.IDLE_SECONDS),
        (f"{OWN}copy-label", labels.COPY_LABELS),
        (f"{OWN}slice-selection", ""),
    ],
)
@pytest.mark.parametrize("place", ["annotations", "pod_labels", "of_jobset"])
def test_a_key_that_is_not_ours_to_the_letter_stops_the_purchase(key: str, near: str, place: str) -> None:
    found = expect_decision(decide(**{place: {key: "true"}}))
    assert found.reason == Reason.REQUEST_NOT_ALLOWED
    assert f"annotation or label {key}: is an unknown key, so no node pool is created" in found.message
    assert f"valid: {near}" in found.message


@pytest.mark.parametrize("value", ["yes", "True", "gpu", "1"])
@pytest.mark.parametrize("key", [labels.DISABLE_AUTOPROVISIONING, labels.PARTIAL_SLICE])
def test_an_unknown_value_stops_the_purchase(key: str, value: str) -> None:
    found = expect_decision(decide({key: value}))
    assert (found.reason, "valid: true, false" in found.message) == (Reason.REQUEST_NOT_ALLOWED, True)
    assert f"got '{value}'" in found.message


def test_an_opt_out_counts_on_the_workload_too() -> None:
    for place in ("annotations", "pod_labels", "of_jobset"):
        found = expect_decision(decide(**{place: {labels.DISABLE_AUTOPROVISIONING: "true"}}))
        assert found.reason == Reason.DEMAND_OPTED_OUT


@pytest.mark.parametrize(("value", "left"), [("true", True), ("gpu", False), ("false", False), ("", False)])
def test_an_opt_out_of_the_namespace_leaves_its_workloads_to_others(value: str, *, left: bool) -> None:
    wanted = want(a_jobset(), a_pod(), namespace_labels={labels.DISABLE_AUTOPROVISIONING: value})

    assert (bool(wanted.left), bool(wanted.refusals), bool(wanted.needs)) == (left, left, not left)


def test_an_annotation_in_a_place_where_it_is_not_read_is_told_its_place() -> None:
    found = expect_decision(decide(of_jobset={labels.IDLE_SECONDS: "60"}))
    assert (
        f"metadata.annotations {labels.IDLE_SECONDS}: this annotation is read from the pod template"
        in found.message
    )
    assert isinstance(decide({labels.IDLE_SECONDS: "0"}, of_jobset={labels.IDLE_SECONDS: "0"}), Demand)


@pytest.mark.parametrize(
    "key",
    [
        "cloud.google.com/gke-tpu-topology-hint",
        "example.com/tpu-provisioner",
        "google.com/tpu-provisioner-idle",
        "gke-gcsfuse/volumes",
        "kueue.x-k8s.io/podset-preferred-topology",
        "app.kubernetes.io/provisioned-by",
    ],
)
def test_keys_of_others_are_not_ours_to_judge(key: str) -> None:
    assert isinstance(decide({key: "x"}, pod_labels={key: "x"}, of_jobset={key: "x"}), Demand)
