"""The bare pod as its own workload, and the pods that belong to nobody who is known here."""

from typing import Any

import msgspec
import pytest

from shared.edges.pods import Pod, read_template, view_pod
from shared.kinds.table import KINDS, find_kind_of_pod, get_kind, select_pods
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.workloads import PodView, WorkloadView
from shared.needs.nodepool import Demand
from tests.builders import expect_decision
from tests.demands import expect_demand, want
from tests.rows import rows
from tests.rules.live_pods import WAITS, a_pod_body, decide
from tests.slices import list_slices

POD = get_kind("Pod")
Json = dict[str, Any]
UNKNOWN = {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "name": "train", "uid": "u", "controller": True}


def a_body(*owners: Json, topology: str = "2x2", phase: str = "Pending", **meta: Any) -> Json:
    plain = {"namespace": "default", "name": "lab", "uid": "of-lab", "ownerReferences": list(owners)}
    return a_pod_body(topology=topology) | {"metadata": plain | meta, "status": WAITS | {"phase": phase}}


def both(body: Json) -> tuple[PodView, WorkloadView]:
    return view_pod(msgspec.convert(body, Pod)), POD.read(body, read_template)


def ask(body: Json) -> Demand | Decision:
    return decide(*both(body))


def test_a_bare_pod_is_its_own_workload_with_a_pool_of_one_node() -> None:
    found = expect_demand(ask(a_body()))

    assert (found.shape.node_count, found.shape.machine.name) == (1, "ct6e-standard-4t")
    assert len(list_slices(both(a_body())[1])) == 1


def test_flex_start_of_a_pool_that_grows_and_shrinks_waits_without_end() -> None:
    """Its nodes come and go with its pods, so that it has none is no failure."""
    annotations = {labels.CAPACITY: "[{flexStart: {enabled: true}}, {}]", labels.FLEX_START_WAIT: "600"}
    found = expect_decision(ask(a_body(annotations=annotations)))

    assert "candidate 1 is flex-start, which waits without end" in found.message


def test_an_owner_that_does_not_control_leaves_a_pod_bare() -> None:
    assert isinstance(ask(a_body({"kind": "Workflow", "name": "w", "uid": "w"})), Demand)


def test_a_slice_of_several_hosts_is_no_pod_s() -> None:
    found = expect_decision(ask(a_body(topology="4x4")))

    assert (found.verdict, found.reason) == (Verdict.REFUSE, Reason.HOSTS_DIFFER)
    assert "a kind of workload that has slices" in found.message


@rows(
    "owner",
    {
        "an unknown kind": UNKNOWN,
        "another pod": UNKNOWN | {"kind": "Pod", "apiVersion": "v1", "name": "driver"},
        "itself": UNKNOWN | {"kind": "Pod", "apiVersion": "v1", "name": "lab", "uid": "of-lab"},
        "a ReplicaSet of nobody": UNKNOWN | {"kind": "ReplicaSet", "apiVersion": "apps/v1"},
        "another's namesake": UNKNOWN | {"kind": "StatefulSet", "apiVersion": "apps.kruise.io/v1"},
    },
)
def test_a_pod_of_an_unknown_controller_is_told_which_kinds_are_served(owner: Json) -> None:
    found = expect_decision(ask(a_body(owner)))

    assert (found.verdict, found.reason) == (Verdict.REFUSE, Reason.OWNER_KIND_UNKNOWN)
    assert owner["kind"] in found.message
    assert all(kind.name in found.message for kind in KINDS if kind is not POD)
    assert list_slices(both(a_body(owner))[1]) == []


@pytest.mark.parametrize("kind", ["DaemonSet", "Node"])
def test_what_belongs_to_a_node_asks_for_none(kind: str) -> None:
    pod, workload = both(a_body(UNKNOWN | {"kind": kind}))

    assert find_kind_of_pod(pod) is None
    assert want(workload).needs == ()


@pytest.mark.parametrize(
    ("phase", "terminal"), [("Succeeded", "Succeeded"), ("Failed", "Failed"), ("Running", "")]
)
def test_it_is_over_with_its_phase(phase: str, terminal: str) -> None:
    assert both(a_body(phase=phase))[1].terminal == terminal


def test_only_pods_that_no_other_kind_marks_are_watched_and_none_of_them_as_a_workload() -> None:
    marks = {f"!{kind.mark}" for kind in KINDS if kind.mark}

    assert set(select_pods(POD).split(",")) == marks
    assert not POD.watched
    assert POD.path_of("default", "lab") == "/api/v1/namespaces/default/pods/lab"
