"""Pods without chips that select TPU nodes must be able to run there, beside pods with chips."""

import copy
from typing import Any

import pytest
from msgspec import structs

from shared.kinds.table import KIND_NAMES
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.workloads import WorkloadView
from shared.needs.nodepool import Demand
from tests.demands import expect_demand
from tests.rows import rows
from tests.rules.live_pods import ONE_HOST, a_body, a_leader, a_workload, decide, plan
from tests.rules.test_elastic import a_gpu_body

Json = dict[str, Any]
CLAIMS = [{"name": "chips", "resourceClaimTemplateName": "all-chips"}]
MESSAGES = (
    "resources.google.com/tpu: missing; ",
    " needs 4 chips; ",
    "google.com/tpu=present:NoSchedule",
    "google.com/tpu in the limits",
    "operator Exists",
)


def change(body: Json, **spec: Any) -> Json:
    """Return a pod template with other fields of its pods' spec."""
    changed = copy.deepcopy(body)
    changed["spec"] |= spec
    return changed


def is_refused(found: Demand | Decision, *messages: str) -> bool:
    return (
        isinstance(found, Decision)
        and (found.verdict, found.reason) == (Verdict.REFUSE, Reason.SHAPE_UNSUPPORTED)
        and all(each in found.message for each in messages)
    )


CHIPLESS = change(a_body(chips=0, selectors=ONE_HOST["spec"]["nodeSelector"]), tolerations=[])


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_pods_that_could_not_run_on_tpu_nodes_get_none_in_plan_and_live(kind: str) -> None:
    workload = a_workload(kind, CHIPLESS, hosts=1)

    assert [is_refused(each, *MESSAGES) for each in plan(workload)] == [True]
    assert is_refused(decide(a_leader(kind, CHIPLESS), workload), *MESSAGES)


@pytest.mark.parametrize("kind", KIND_NAMES)
@pytest.mark.parametrize(
    "toleration",
    [
        {"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "google.com/tpu", "operator": "Equal", "value": "present"},
        {"operator": "Exists"},
    ],
)
def test_pods_that_tolerate_the_taint_are_served_as_ever(kind: str, toleration: Json) -> None:
    found = plan(a_workload(kind, change(CHIPLESS, tolerations=[toleration]), hosts=1))

    assert [isinstance(each, Demand) for each in found] == [True], found


@pytest.mark.parametrize("kind", KIND_NAMES)
@pytest.mark.parametrize("tolerations", [[], [{"operator": "Exists"}]])
def test_pods_that_claim_their_chips_are_told_what_to_change(kind: str, tolerations: list[Json]) -> None:
    body = change(CHIPLESS, tolerations=tolerations, resourceClaims=CLAIMS)
    workload = a_workload(kind, body, hosts=1)

    for each in (*plan(workload), decide(a_leader(kind, body), workload)):
        assert is_refused(each, "spec.resourceClaims", "google.com/tpu in the limits", labels.NODE_POOL), each


def test_claims_beside_requested_chips_are_for_other_devices() -> None:
    expect_demand(*plan(a_workload("Job", change(a_body(), resourceClaims=CLAIMS))))


def led(head: Json) -> WorkloadView:
    """A LeaderWorkerSet of four workers with chips and this leader on their slice."""
    return a_workload("LeaderWorkerSet", a_body(), leader=head)


def headed(head: Json) -> WorkloadView:
    """A JobSet whose head is on the slice of its workers, as Pathways makes it."""
    workers = a_workload("JobSet", a_body()).groups[0]
    guest = a_workload("JobSet", head, hosts=1).groups[0]
    groups = (structs.replace(guest, name="head", beside=workers.name), workers)
    return structs.replace(a_workload("JobSet", a_body()), groups=groups)


@pytest.mark.parametrize("make", [led, headed])
def test_a_slice_is_not_bought_if_its_head_could_not_run_there(make: Any) -> None:
    workload = make(change(a_body(chips=0), tolerations=[]))

    assert [is_refused(each, *MESSAGES) for each in plan(workload)] == [True]


@pytest.mark.parametrize("make", [led, headed])
@pytest.mark.parametrize("claims", [[], CLAIMS])
def test_a_head_that_tolerates_the_nodes_is_served_with_claims_too(make: Any, claims: list[Json]) -> None:
    found = expect_demand(*plan(make(change(a_body(chips=0), resourceClaims=claims))))

    assert found.shape.node_count == 4


@rows(
    "head served",
    {
        "it could not run there": ({}, False),
        "it tolerates the nodes": ({"tolerations": [{"operator": "Exists"}]}, True),
        "it runs elsewhere": ({"nodeSelector": {}}, True),
    },
)
def test_gpus_are_not_bought_if_the_head_selects_them_and_could_not_run_there(head: Json, *, served: bool) -> None:
    chipless = change(a_gpu_body(), containers=[{"name": "c"}], **head)
    (found,) = plan(a_workload("LeaderWorkerSet", a_gpu_body(), leader=chipless))

    assert isinstance(found, Demand) == served, found
    assert served or is_refused(found, "nvidia.com/gpu=present:NoSchedule", "nvidia.com/gpu in the limits")
