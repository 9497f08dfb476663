"""A RayJob that has ended and keeps its RayCluster: when that is so, and what is said of it."""

from typing import Any

import pytest
from msgspec import structs

from shared.edges.pods import read_template
from shared.kinds.objects import UnexpectedValue
from shared.kinds.raycluster import RAYCLUSTER, judge_rayjob
from shared.model.workloads import Parent
from tests.rows import rows
from tests.rules.rayclusters import a_body

Json = dict[str, Any]
KEEPING = Parent(kind="RayJob", namespace="default", name="train", uid="u", keeps="RayJob default/train keeps it")


def a_rayjob(deployment: str = "Complete", **spec: Any) -> Json:
    status = {"jobDeploymentStatus": deployment}
    return {"metadata": {"namespace": "default", "name": "train"}, "spec": spec, "status": status}


@rows(
    "body",
    {
        "new": {"metadata": {"name": "train"}},
        "running": a_rayjob("Running"),
        "about to retry": a_rayjob("Retrying"),
        "suspended": a_rayjob("Suspended"),
        "its cluster goes with it": a_rayjob(shutdownAfterJobFinishes=True),
        "its cluster goes in an hour": a_rayjob(shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=3600),
        "its author chose what stays": a_rayjob(deletionStrategy={"deletionRules": []}),
    },
)
def test_nothing_is_said_of_a_rayjob_that_goes_on_or_lets_go(body: Json) -> None:
    assert judge_rayjob(body) == ""


@rows(
    "body remedy",
    {
        "no policy at all": (a_rayjob(), "set shutdownAfterJobFinishes: true"),
        "it failed": (a_rayjob("Failed"), "set shutdownAfterJobFinishes: true"),
        "invalid": (a_rayjob("ValidationFailed", shutdownAfterJobFinishes=True), "delete the RayJob"),
    },
)
def test_a_rayjob_that_keeps_its_cluster_is_told_what_would_release_it(body: Json, remedy: str) -> None:
    answer = judge_rayjob(body)

    assert answer.startswith(f"RayJob default/train is {body['status']['jobDeploymentStatus']} and keeps")
    assert remedy in answer
    assert answer.endswith("delete the RayJob or the RayCluster")


def test_a_status_that_is_no_text_is_not_judged() -> None:
    with pytest.raises(UnexpectedValue):
        judge_rayjob(a_rayjob() | {"status": {"jobDeploymentStatus": 1}})


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ({"kind": "RayJob", "controller": True}, True),
        ({"kind": "RayJob"}, False),
        ({"kind": "RayService", "controller": True}, False),
    ],
)
def test_only_the_rayjob_that_controls_a_cluster_is_its_parent(reference: Json, found: bool) -> None:
    body = a_body()
    body["metadata"]["ownerReferences"] = [
        {"name": "other", "uid": "v"},
        {"name": "train", "uid": "u"} | reference,
    ]
    workload = RAYCLUSTER.read(body, read_template)

    assert workload.parent == (structs.replace(KEEPING, keeps="") if found else None)
