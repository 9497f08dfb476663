"""The StatefulSet: interchangeable single hosts, or one slice made by hand, and what is neither."""

from typing import Any

from shared.edges.pods import read_template
from shared.kinds.replicas import POD_NAME, STATEFULSET
from shared.kinds.table import find_kind_of_pod
from shared.model.decisions import Reason
from shared.model.errors import SliceUnknown
from shared.model.workloads import PodView, WorkloadView
from shared.needs.nodepool import Demand
from tests.builders import expect_decision
from tests.demands import expect_demand
from tests.refusals import refuses
from tests.rows import rows
from tests.rules.live_pods import a_pod_body, a_pod_of, decide
from tests.slices import list_slices

UID = "7a1c52d0-5b0e-4d62-8a52-3d9f0f0c1a41"
PARALLEL = {"podManagementPolicy": "Parallel"}


SLICE = {"template": a_pod_body(topology="4x4")}


def a_set(**spec: Any) -> WorkloadView:
    """A StatefulSet of four single hosts, unless overridden."""
    body = {
        "metadata": {"namespace": "default", "name": "shard", "uid": UID},
        "spec": {"replicas": 4, "template": a_pod_body()} | spec,
    }
    return STATEFULSET.read(body, read_template)


def a_pod(ordinal: int = 0, *, template: dict[str, Any] | None = None, **owner: Any) -> PodView:
    name = f"shard-{ordinal}"
    controller = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "shard", "uid": UID} | owner
    return a_pod_of(controller, template or a_pod_body(), name=name, labels={POD_NAME: name})


def test_single_hosts_share_one_pool_whichever_pod_is_the_leader() -> None:
    found = [decide(a_pod(ordinal), a_set()) for ordinal in range(4)]

    assert all(isinstance(each, Demand) and each.need.elastic and each.shape.node_count == 4 for each in found)
    assert [each.name for each in list_slices(a_set())] == ["shard"]


def test_as_many_parallel_pods_as_hosts_are_one_slice() -> None:
    found = expect_demand(decide(a_pod(3, template=SLICE["template"]), a_set(**SLICE, **PARALLEL)))

    assert not found.need.elastic
    assert found.shape.node_count == 4
    assert [each.name for each in list_slices(a_set(**SLICE, **PARALLEL))] == ["shard"]


@rows(
    "spec reason message",
    {
        "one after another by default": (SLICE, Reason.SLICE_UNKNOWN, "valid: Parallel"),
        "in turn": (SLICE | {"podManagementPolicy": "OrderedReady"}, Reason.SLICE_UNKNOWN, "valid: Parallel"),
        "too few": (SLICE | PARALLEL | {"replicas": 3}, Reason.HOSTS_DIFFER, "valid: 4"),
        "two slices in one": (SLICE | PARALLEL | {"replicas": 8}, Reason.HOSTS_DIFFER, "valid: 4"),
        "one pod of several hosts": (SLICE | {"replicas": 1}, Reason.HOSTS_DIFFER, "valid: 4"),
    },
)
def test_a_slice_that_would_never_be_whole_is_refused_with_what_is_valid(
    spec: dict[str, Any], reason: Reason, message: str
) -> None:
    found = expect_decision(decide(a_pod(template=SLICE["template"]), a_set(**spec)))

    assert found.reason == reason
    assert message in found.message


def test_what_is_refused_is_not_listed_either() -> None:
    with refuses(SliceUnknown):
        list_slices(a_set(**SLICE))


@rows(
    "pod workload reason",
    {
        "other": (a_pod(template=a_pod_body(topology="1x1", chips=1)), a_set(), Reason.POD_CONTRADICTS_SPEC),
        "scaled to nothing": (
            a_pod(template=SLICE["template"]),
            a_set(**SLICE, **PARALLEL, replicas=0),
            Reason.IDENTITY_MISMATCH,
        ),
    },
)
def test_a_pod_that_the_spec_does_not_have_gets_nothing(
    pod: PodView, workload: WorkloadView, reason: Reason
) -> None:
    found = expect_decision(decide(pod, workload))

    assert found.reason == reason


def test_the_pods_of_other_controllers_are_not_its_pods() -> None:
    assert find_kind_of_pod(a_pod()) is STATEFULSET
    assert STATEFULSET.find_owner(a_pod(apiVersion="apps.kruise.io/v1")) == ""
    assert STATEFULSET.find_owner(a_pod(kind="ReplicaSet")) == ""
