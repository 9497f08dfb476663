"""A cluster is at rest when nothing is left to be written; what is left is told in words."""

from __future__ import annotations

from typing import Any

import pytest
from differential_rest import TRACKING, list_unwritten

Json = dict[str, Any]

JOB_UID = "00000001-0000-4000-8000-000000000000"


def pod(phase: str = "Running", *, ready: bool = True, going: bool = False, **meta: object) -> Json:
    conditions = [condition("PodScheduled"), *([condition("Ready")] if ready else [])]
    owner = {"kind": "Job", "name": "slice", "uid": JOB_UID, "controller": True}
    return {
        "metadata": {"name": "slice-0", "ownerReferences": [owner], **marked(going=going), **meta},
        "status": {"phase": phase, "conditions": conditions},
    }


def job(*, going: bool = False, attempt: int = 0, ended: str = "", **status: object) -> Json:
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "train",
        "jobset.sigs.k8s.io/replicatedjob-name": "slice",
        "jobset.sigs.k8s.io/restart-attempt": str(attempt),
    }
    conditions = [condition(ended)] if ended else []
    return {
        "metadata": {"name": "slice", "uid": JOB_UID, "labels": labels, **marked(going=going)},
        "spec": {"parallelism": 1, "completions": 1},
        "status": {"conditions": conditions, **status},
    }


def jobset(*, restarts: int = 0, **counts: int) -> Json:
    replicated = [{"name": "slice", **counts}]
    return {"metadata": {"name": "train"}, "status": {"restarts": restarts, "replicatedJobsStatus": replicated}}


def condition(kind: str) -> Json:
    return {"type": kind, "status": "True"}


def marked(*, going: bool) -> Json:
    return {"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {}


@pytest.mark.parametrize(
    ("jobsets", "jobs", "pods"),
    [
        pytest.param([jobset(active=1, ready=1)], [job(active=1, ready=1)], [pod()], id="all counted"),
        pytest.param([], [job(terminating=1)], [pod(going=True)], id="a pod that goes is counted as going"),
        pytest.param([], [job(going=True, active=1)], [pod(going=True)], id="a Job that goes counts no more"),
        pytest.param([], [job(ended="Failed", active=1)], [], id="a Job that is over counts no more"),
        pytest.param(
            [jobset(restarts=1)], [job(attempt=0, active=1)], [pod(ready=False)], id="an earlier attempt"
        ),
    ],
)
def test_what_is_written_in_full_is_at_rest(jobsets: list[Json], jobs: list[Json], pods: list[Json]):
    assert list_unwritten(jobsets, jobs, pods) == []


@pytest.mark.parametrize(
    ("jobsets", "jobs", "pods", "unwritten"),
    [
        ([], [job()], [pod(ready=False)], ["job slice says 0 active of 1"]),
        ([], [job(active=1)], [pod()], ["job slice says 0 ready of 1"]),
        (
            [],
            [job(active=1)],
            [pod(going=True)],
            ["job slice says 1 active of 0", "job slice says 0 terminating of 1"],
        ),
        (
            [],
            [job()],
            [pod("Failed", finalizers=[TRACKING])],
            ["job slice has not counted the end of pod slice-0"],
        ),
        ([jobset(active=1)], [job(active=1, ready=1)], [pod()], ["jobset train says 0 ready slice of 1"]),
        ([], [], [pod() | {"status": {}}], ["pod slice-0 has no word from the scheduler"]),
    ],
)
def test_what_is_yet_to_be_written_is_named(
    jobsets: list[Json], jobs: list[Json], pods: list[Json], unwritten: list[str]
):
    assert list_unwritten(jobsets, jobs, pods) == unwritten
