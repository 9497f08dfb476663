"""A RayJob that asks for its capacity before it is resumed: how it is read, and what is refused."""

import dataclasses
from typing import Any

import pytest

from shared.core import labels
from shared.core.decide.capacity_first import (
    decide_handed,
    find_wait,
    is_asking,
    is_resumed_by_others,
    read_request,
    write_resumed,
)
from shared.core.decide.gangs import CapacityRequest
from shared.core.decisions import Reason, Verdict
from shared.core.kinds.objects import UnexpectedValue
from shared.core.kinds.raycluster import RAYCLUSTER
from shared.core.kinds.rayjob import RAYJOB
from shared.core.kinds.table import SUSPENDABLE, get_suspendable, is_parent_kind
from shared.core.workloads import WorkloadView
from shared.edges.workload_objects import read_template
from tests.builders import CLUSTER, NOW, expect_decision, settings
from tests.unit.rayclusters import a_body

Json = dict[str, Any]
ON = settings(capacity_first=True)
ASKS = {labels.CAPACITY_FIRST: "true"}


def a_rayjob(
    deployment: str = "Suspended",
    *,
    owner: str = "",
    marks: dict[str, str] | None = None,
    metadata: Json | None = None,
    **spec: Any,
) -> Json:
    """A RayJob as the API has it; an argument of None leaves a field of the spec out."""
    meta: Json = {"namespace": "default", "name": "train", "uid": "u", "resourceVersion": "7"}
    meta |= {"annotations": ASKS | (marks or {})} | (metadata or {})
    if owner:
        meta["ownerReferences"] = [{"kind": owner, "name": "maker", "uid": "m", "controller": True}]
    usual = {"suspend": True, "shutdownAfterJobFinishes": True, "rayClusterSpec": {"rayVersion": "2.52.0"}} | spec
    fields = {key: value for key, value in usual.items() if value is not None}
    return {"metadata": meta, "spec": fields, "status": {"jobDeploymentStatus": deployment}}


def read(body: Json) -> WorkloadView:
    return RAYJOB.read(body, read_template)


def a_made_cluster(*controllers: Json, marks: dict[str, str] = ASKS) -> WorkloadView:
    """A suspended RayCluster with these annotations, as its controller makes it."""
    made = a_body(suspend=True)
    owners = [each | {"controller": True} for each in controllers]
    made["metadata"] |= {"annotations": marks, "ownerReferences": owners}
    return RAYCLUSTER.read(made, read_template)


def test_a_suspended_rayjob_asks_and_has_no_slices_itself() -> None:
    found = read(a_rayjob())

    assert (found.kind, found.name, found.uid, found.version) == ("RayJob", "train", "u", "7")
    assert (found.groups, found.suspended, found.marks) == ((), True, ASKS)
    assert isinstance(read_request(found, ON), CapacityRequest)
    assert is_parent_kind("RayJob")
    assert SUSPENDABLE == ("JobSet", "RayCluster", "Job", "RayJob")
    assert (get_suspendable("RayJob"), get_suspendable("RayCluster")) == (RAYJOB, RAYCLUSTER)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(a_rayjob(suspend=False), id="not suspended"),
        pytest.param(a_rayjob("Complete"), id="ended"),
        pytest.param(a_rayjob("Failed"), id="failed"),
        pytest.param(a_rayjob(metadata={"deletionTimestamp": "2027-01-15T08:00:00Z"}), id="being deleted"),
        pytest.param(a_rayjob(marks={labels.CAPACITY_FIRST_HANDED: "2027-01-15T08:00:00Z"}), id="handed over"),
        pytest.param(a_rayjob(marks={labels.CAPACITY_FIRST: "false"}), id="does not ask"),
    ],
)
def test_no_other_rayjob_asks(body: Json) -> None:
    assert read_request(read(body), ON) is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            a_rayjob(clusterSelector={"ray.io/cluster": "c"}),
            "spec.clusterSelector names a RayCluster that this RayJob does not",
        ),
        (a_rayjob("ValidationFailed", shutdownAfterJobFinishes=None), "valid: a new RayJob with shutdownAfter"),
        (a_rayjob(rayClusterSpec=None), "it has no spec.rayClusterSpec"),
        (a_rayjob("ValidationFailed"), "KubeRay has refused this RayJob (ValidationFailed)"),
        (a_rayjob(managedBy="kueue.x-k8s.io/multikueue"), "spec.managedBy names another controller"),
        (a_rayjob(owner="AppWrapper"), "AppWrapper maker controls this workload"),
        (a_rayjob(metadata={"labels": {labels.QUEUE_NAME: "q"}}), "leaves it to a queue"),
        (a_rayjob(marks={labels.CAPACITY_FIRST: "yes"}), "valid: true, false"),
        (a_rayjob(marks={labels.CAPACITY_FIRST_SECONDS: "5"}), "valid: 60 to 86400"),
        (a_rayjob(marks={labels.DISABLE_AUTOPROVISIONING: "true"}), "contradicts"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(body: Json, words: str) -> None:
    found = expect_decision(read_request(read(body), ON))

    assert (found.verdict, found.reason) == (Verdict.REFUSE, Reason.REQUEST_NOT_ALLOWED)
    assert words in found.message


@pytest.mark.parametrize(
    "body",
    [
        a_rayjob(managedBy="ray.io/kuberay-operator"),
        a_rayjob(owner="RayCronJob"),
        a_rayjob("Initializing"),
        a_rayjob("Suspending"),
        a_rayjob(""),
    ],
)
def test_what_fits_is_not_refused(body: Json) -> None:
    assert isinstance(read_request(read(body), ON), CapacityRequest)


def test_the_setting_that_is_off_is_told() -> None:
    found = expect_decision(read_request(read(a_rayjob()), settings()))

    assert "the setting capacity_first is off" in found.message


def test_the_mark_of_the_rayjob_is_not_that_of_the_raycluster_which_inherits_it() -> None:
    rayjob = read(a_rayjob())
    fields = {key: value for key, value in write_resumed(rayjob, NOW).items() if value}
    handed = dataclasses.replace(rayjob, marks=rayjob.marks | fields)
    cluster = a_made_cluster(marks=handed.marks)

    assert set(fields) == {labels.CAPACITY_FIRST_HANDED}
    assert (is_asking(handed), is_asking(cluster)) == (False, True)
    assert isinstance(read_request(cluster, ON), CapacityRequest)
    assert decide_handed(rayjob).reason == Reason.WORKLOAD_RESUMED


def test_one_that_a_person_resumed_counts_as_resumed() -> None:
    assert is_resumed_by_others(read(a_rayjob(suspend=False)))
    assert not is_resumed_by_others(read(a_rayjob("Complete", suspend=False)))


@pytest.mark.parametrize(
    ("body", "ended"),
    [
        (a_rayjob("Running"), ""),
        (a_rayjob("Retrying"), ""),
        (a_rayjob("Suspended"), ""),
        (a_rayjob("Complete"), "Complete"),
        (a_rayjob("Failed"), "Failed"),
        (a_rayjob("ValidationFailed"), "ValidationFailed"),
        (a_rayjob("Running", metadata={"deletionTimestamp": "2027-01-15T08:00:00Z"}), "being deleted"),
    ],
)
def test_a_raycluster_waits_while_its_rayjob_needs_it(body: Json, ended: str) -> None:
    cluster = a_made_cluster({"kind": "RayJob", "name": "train", "uid": "u"})
    assert cluster.parent is not None
    now = dataclasses.replace(cluster, parent=dataclasses.replace(cluster.parent, ended=RAYJOB.find_end(body)))

    assert RAYJOB.find_end(body) == ended
    assert (find_wait(CLUSTER, now, (), ON, now=NOW) is None) == bool(ended)


def test_a_field_of_another_type_is_not_read() -> None:
    with pytest.raises(UnexpectedValue):
        read(a_rayjob(suspend="yes"))


def test_a_raycluster_of_another_controller_is_refused_by_name() -> None:
    cluster = a_made_cluster({"kind": "RayService", "name": "serve", "uid": "s"})
    found = expect_decision(read_request(cluster, ON))

    assert "RayService serve controls it and decides whether it is suspended" in found.message
