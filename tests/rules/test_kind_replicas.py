"""Deployment and StatefulSet: whose a pod is, one pool for single hosts, a slice made by hand."""

from typing import Any

import pytest

from shared.edges.pods import read_template
from shared.kinds.objects import UnexpectedValue
from shared.kinds.replicas import DEPLOYMENT, POD_NAME, STATEFULSET, TEMPLATE_HASH
from shared.kinds.table import find_kind_of_pod, select_pods
from shared.model.decisions import Reason
from shared.model.errors import SliceUnknown
from shared.model.workloads import PodView, WorkloadView
from tests.builders import expect_decision
from tests.demands import expect_demand
from tests.refusals import refuses
from tests.rows import rows
from tests.rules.live_pods import a_pod_body, a_pod_of, decide
from tests.slices import list_slices

UID = "7a1c52d0-5b0e-4d62-8a52-3d9f0f0c1a31"
HASH = "5d9c7b6f8"
SLICE: dict[str, Any] = {"template": a_pod_body(topology="4x4")}
PARALLEL = SLICE | {"podManagementPolicy": "Parallel"}
OF_3_CHIPS, OF_ANOTHER_SHAPE = a_pod_body(chips=3), a_pod_body(topology="1x1", chips=1)


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


def a_server(
    *, template: dict[str, Any] | None = None, pod_labels: dict[str, str] | None = None, **owner: Any
) -> PodView:
    """A pod of the Deployment."""
    controller = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"serve-{HASH}"} | owner
    found = {TEMPLATE_HASH: HASH} if pod_labels is None else pod_labels
    return a_pod_of(controller, template or a_pod_body(), name=f"serve-{HASH}-x2x4z", labels=found)


def a_set(**spec: Any) -> WorkloadView:
    """A StatefulSet of four single hosts, unless overridden."""
    metadata = {"namespace": "default", "name": "shard", "uid": UID}
    return STATEFULSET.read(
        {"metadata": metadata, "spec": {"replicas": 4, "template": a_pod_body()} | spec}, read_template
    )


def a_shard(ordinal: int = 0, *, template: dict[str, Any] | None = None, **owner: Any) -> PodView:
    """A pod of the StatefulSet."""
    name = f"shard-{ordinal}"
    controller = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "shard", "uid": UID} | owner
    return a_pod_of(controller, template or a_pod_body(), name=name, labels={POD_NAME: name})


def test_a_pod_leads_to_its_deployment_by_the_name_of_its_set_and_its_hash() -> None:
    assert DEPLOYMENT.find_owner(a_server()) == "serve"
    assert find_kind_of_pod(a_server()) is DEPLOYMENT
    assert DEPLOYMENT.find_owner_uid(a_server()) == ""


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
def test_a_pod_of_anything_else_is_none_of_a_deployment(
    pod_labels: dict[str, str] | None, owner: dict[str, Any]
) -> None:
    assert DEPLOYMENT.find_owner(a_server(pod_labels=pod_labels, **owner)) == ""


def test_the_pods_of_other_controllers_are_none_of_a_stateful_set() -> None:
    assert find_kind_of_pod(a_shard()) is STATEFULSET
    assert STATEFULSET.find_owner(a_shard(apiVersion="apps.kruise.io/v1")) == ""
    assert STATEFULSET.find_owner(a_shard(kind="ReplicaSet")) == ""


def test_single_hosts_share_one_pool_whichever_pod_is_the_leader() -> None:
    server = expect_demand(decide(a_server(), a_deployment()))
    shards = [expect_demand(decide(a_shard(ordinal), a_set())) for ordinal in range(4)]

    assert server.need.elastic
    assert (server.shape.node_count, server.shape.chips, server.shape.machine.name) == (3, 12, "ct6e-standard-4t")
    assert {(each.need.elastic, each.shape.node_count) for each in shards} == {(True, 4)}


def test_as_many_parallel_pods_as_hosts_are_one_slice() -> None:
    found = expect_demand(decide(a_shard(3, template=SLICE["template"]), a_set(**PARALLEL)))

    assert not found.need.elastic
    assert found.shape.node_count == 4


@pytest.mark.parametrize("surge", ["a lot", "%", "-5%", True, 1.5, None, {}])
def test_a_surge_of_another_type_makes_the_object_unreadable(surge: Any) -> None:
    strategy = {"rollingUpdate": {"maxSurge": surge}}
    with pytest.raises(UnexpectedValue, match="maxSurge"):
        a_deployment(shown=4, strategy=strategy)


@rows(
    "pod workload reason",
    {
        "several hosts": (a_server(**SLICE), a_deployment(**SLICE), Reason.HOSTS_DIFFER),
        "chips of no machine": (
            a_server(template=OF_3_CHIPS),
            a_deployment(template=OF_3_CHIPS),
            Reason.SHAPE_UNSUPPORTED,
        ),
        "an earlier revision": (a_server(template=OF_ANOTHER_SHAPE), a_deployment(), Reason.POD_CONTRADICTS_SPEC),
        "scaled to nothing": (a_server(), a_deployment(replicas=0), Reason.IDENTITY_MISMATCH),
        "another shape": (a_shard(template=OF_ANOTHER_SHAPE), a_set(), Reason.POD_CONTRADICTS_SPEC),
        "a slice scaled to nothing": (a_shard(**SLICE), a_set(**PARALLEL, replicas=0), Reason.IDENTITY_MISMATCH),
    },
)
def test_what_cannot_be_served_is_told_its_reason(pod: PodView, workload: WorkloadView, reason: Reason) -> None:
    assert expect_decision(decide(pod, workload)).reason == reason


@rows(
    "spec reason message",
    {
        "one after another by default": (SLICE, Reason.SLICE_UNKNOWN, "valid: Parallel"),
        "in turn": (SLICE | {"podManagementPolicy": "OrderedReady"}, Reason.SLICE_UNKNOWN, "valid: Parallel"),
        "too few": (PARALLEL | {"replicas": 3}, Reason.HOSTS_DIFFER, "valid: 4"),
        "two slices in one": (PARALLEL | {"replicas": 8}, Reason.HOSTS_DIFFER, "valid: 4"),
        "one pod of several hosts": (SLICE | {"replicas": 1}, Reason.HOSTS_DIFFER, "valid: 4"),
    },
)
def test_a_slice_that_would_never_be_whole_is_refused_with_what_is_valid(
    spec: dict[str, Any], reason: Reason, message: str
) -> None:
    found = expect_decision(decide(a_shard(template=SLICE["template"]), a_set(**spec)))

    assert found.reason == reason
    assert message in found.message


def test_what_is_refused_is_not_listed_either() -> None:
    with refuses(SliceUnknown):
        list_slices(a_set(**SLICE))


def test_a_cluster_s_other_pods_are_not_watched_for_deployments() -> None:
    wanted = select_pods(DEPLOYMENT).split(",")

    assert wanted[0] == TEMPLATE_HASH
    assert "!batch.kubernetes.io/job-name" in wanted
