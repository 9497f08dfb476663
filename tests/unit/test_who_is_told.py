"""One place says which objects get an Event for a decision."""

import dataclasses

import pytest
from shared.engine.tell import list_told

from shared.model.decisions import Decision, Reason, Verdict
from shared.model.messages import ObjectName
from shared.model.workloads import Parent, WorkloadView
from tests.builders import a_pod
from tests.unit.rayclusters import a_raycluster

PARENT = Parent(kind="RayJob", namespace="default", name="train", uid="uid-of-train")
LIVE = dataclasses.replace(a_raycluster(), parent=PARENT)
SUSPENDED = dataclasses.replace(LIVE, suspended=True)
WITH_QUOTA = dataclasses.replace(SUSPENDED, quota_reserved=True)
POD = a_pod()
FOREIGN = ObjectName(kind="Pod", namespace="other", name="web", uid="uid-of-web")


@pytest.mark.parametrize(
    ("workload", "reason", "told"),
    [
        (LIVE, Reason.POOL_ABSENT, (LIVE,)),
        (LIVE, Reason.OWNER_GONE, ()),
        (None, Reason.OWNER_GONE, ()),
        (None, Reason.UNAVAILABLE, ()),
        (LIVE, Reason.PARENT_OVER, (LIVE, PARENT)),
        (dataclasses.replace(LIVE, parent=None), Reason.PARENT_OVER, (dataclasses.replace(LIVE, parent=None),)),
        (SUSPENDED, Reason.WORKLOAD_SUSPENDED, (SUSPENDED,)),
        (WITH_QUOTA, Reason.POOL_ABSENT, (WITH_QUOTA,)),
    ],
)
def test_the_objects_that_are_told_follow_from_the_workload_and_the_reason(
    workload: WorkloadView | None, reason: Reason, told: tuple[WorkloadView | Parent, ...]
) -> None:
    decision = Decision(Verdict.WAIT, reason, "words")

    assert list_told(decision, workload) == list(told)
    assert list_told(decision, workload, POD, FOREIGN) == [*told, POD, FOREIGN]


def test_a_pod_that_is_its_own_workload_is_told_once() -> None:
    own = dataclasses.replace(a_raycluster(), uid=POD.uid)

    assert len(list_told(Decision(Verdict.WAIT, Reason.POOL_ABSENT, "words"), own, POD, None)) == 1
