"""The Deployment: its pods' way to it, one pool for all, and how many a rollout has at once."""

from typing import Any

import pytest

from shared.edges.pods import read_template
from shared.kinds.objects import UnexpectedValue
from shared.kinds.replicas import DEPLOYMENT, TEMPLATE_HASH
from shared.kinds.table import find_kind_of_pod, select_pods
from shared.model.decisions import Reason
from shared.model.workloads import PodView, WorkloadView
from tests.builders import expect_decision
from tests.demands import expect_demand
from tests.rows import rows
from tests.rules.live_pods import a_pod_body, a_pod_of, decide

UID = "7a1c52d0-5b0e-4d62-8a52-3d9f0f0c1a31"
HASH = "5d9c7b6f8"


def a_deployment(
    *, template: dict[str, Any] | None = None, shown: int = 0, deleted: str = "", **spec: Any
) -> WorkloadView:
    """A Deployment of three single hosts; a None takes a field of the spec away."""
    plain = {"replicas": 3, "template": template or a_pod_body()}
    body = {
        "metadata": {"namespace": "default", "name": "serve", "uid": UID}
        | ({"deletionTimestamp": deleted} if deleted else {}),
        "spec": {key: value for key, value in (plain | spec).items() if value is not None},
        "status": {"replicas": shown},
    }
    return DEPLOYMENT.read(body, read_template)


def a_pod(
    *, template: dict[str, Any] | None = None, pod_labels: dict[str, str] | None = None, **owner: Any
) -> PodView:
    controller = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"serve-{HASH}"} | owner
    found = {TEMPLATE_HASH: HASH} if pod_labels is None else pod_labels
    return a_pod_of(controller, template or a_pod_body(), name=f"serve-{HASH}-x2x4z", labels=found)


def test_a_pod_leads_to_its_deployment_by_the_name_of_its_set_and_its_hash() -> None:
    assert DEPLOYMENT.find_owner(a_pod()) == "serve"
    assert find_kind_of_pod(a_pod()) is DEPLOYMENT
    assert DEPLOYMENT.find_owner_uid(a_pod()) == ""


@rows(
    "pod_labels owner",
    {
        "no hash: a set of its own": ({}, {}),
        "another hash than the set's": ({TEMPLATE_HASH: "other"}, {}),
        "an empty hash": ({TEMPLATE_HASH: ""}, {"name": "serve-"}),
        "no ReplicaSet": (None, {"kind": "StatefulSet"}),
        "a ReplicaSet of another API": (None, {"apiVersion": "extensions/v1beta1"}),
    },
)
def test_a_pod_of_anything_else_is_not_its_pod(pod_labels: dict[str, str] | None, owner: dict[str, Any]) -> None:
    assert DEPLOYMENT.find_owner(a_pod(pod_labels=pod_labels, **owner)) == ""


def test_all_replicas_share_one_pool_with_a_host_for_each() -> None:
    found = expect_demand(decide(a_pod(), a_deployment()))

    assert found.need.elastic
    assert (found.shape.node_count, found.shape.chips, found.shape.machine.name) == (3, 12, "ct6e-standard-4t")


@pytest.mark.parametrize("surge", ["a lot", "%", "-5%", True, 1.5, None, {}])
def test_a_surge_of_another_type_makes_the_object_unreadable(surge: Any) -> None:
    strategy = {"rollingUpdate": {"maxSurge": surge}}
    with pytest.raises(UnexpectedValue, match="maxSurge"):
        a_deployment(shown=4, strategy=strategy)


@rows(
    "pod workload reason",
    {
        "several hosts: no Deployment makes a slice": (
            a_pod(template=a_pod_body(topology="4x4")),
            a_deployment(template=a_pod_body(topology="4x4")),
            Reason.HOSTS_DIFFER,
        ),
        "chips of no machine": (
            a_pod(template=a_pod_body(chips=3)),
            a_deployment(template=a_pod_body(chips=3)),
            Reason.SHAPE_UNSUPPORTED,
        ),
        "a pod of an earlier revision, of another shape": (
            a_pod(template=a_pod_body(topology="1x1", chips=1)),
            a_deployment(),
            Reason.POD_CONTRADICTS_SPEC,
        ),
        "scaled to nothing": (a_pod(), a_deployment(replicas=0), Reason.IDENTITY_MISMATCH),
    },
)
def test_what_cannot_be_served_is_refused_with_its_reason(
    pod: PodView, workload: WorkloadView, reason: Reason
) -> None:
    found = expect_decision(decide(pod, workload))

    assert found.reason == reason


def test_a_cluster_s_other_pods_are_not_watched_for_it() -> None:
    wanted = select_pods(DEPLOYMENT).split(",")

    assert wanted[0] == TEMPLATE_HASH
    assert "!batch.kubernetes.io/job-name" in wanted
