"""Is each predicate right, row by row?"""

from typing import Any

import pytest

from exporter.observed_objects import find_demand, find_over
from shared.kinds.jobset import JOBSET
from tests.exporter.exporter_builders import (
    SINCE,
    UNSCHEDULABLE,
    a_leader,
    completed,
    read_jobset,
    read_leader,
    resumed,
    suspended,
)

OPT_OUT = "tpu-provisioner.cloud.google.com/disable-autoprovisioning"
LABELS = a_leader()["metadata"]["labels"]


def container(**resources: Any) -> dict[str, Any]:
    return {"name": "main", "resources": resources}


NO_TPU: dict[str, Any] = {"nodeSelector": None, "containers": [container()]}

DEMANDS = {
    "a leader on TPU selectors": {},
    "one that asks for no chips (Pathways head)": {"spec": {"containers": [container()]}},
    "one that has only the accelerator selector": {
        "spec": NO_TPU | {"nodeSelector": {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice"}}
    },
    "one whose index is only an annotation (before Kubernetes 1.28)": {
        "labels": {k: v for k, v in LABELS.items() if "completion-index" not in k},
        "annotations": {"batch.kubernetes.io/job-completion-index": "0"},
    },
    "one that says false to the opt-out": {"annotations": {OPT_OUT: "false"}},
    "one with other conditions beside": {
        "status": {"conditions": [{"type": "PodReadyToStartContainers", "status": "False"}, UNSCHEDULABLE]}
    },
}
NO_DEMANDS = {
    "a running pod": {"status": {"phase": "Running"}},
    "a pod being deleted": {"metadata": {"deletionTimestamp": SINCE}},
    "a bound pod": {"spec": {"nodeName": "n1"}},
    "a gated pod": {"spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}},
    "a pod with a gate's reason": {"status": {"conditions": [UNSCHEDULABLE | {"reason": "SchedulingGated"}]}},
    "a scheduler error": {"status": {"conditions": [UNSCHEDULABLE | {"reason": "SchedulerError"}]}},
    "a pod the scheduler has not looked at": {"status": {"conditions": None}},
    "a scheduled pod": {"status": {"conditions": [UNSCHEDULABLE | {"status": "True"}]}},
    "a pod that preempts others": {"status": {"nominatedNodeName": "n1"}},
    "a follower": {"labels": LABELS | {"batch.kubernetes.io/job-completion-index": "1"}},
    "a pod of no JobSet": {"labels": {"batch.kubernetes.io/job-completion-index": "0"}},
    "a pod opted out by label": {"labels": LABELS | {OPT_OUT: "true"}},
    "a pod opted out by annotation": {"annotations": {OPT_OUT: "true"}},
    "a CPU pod": {"spec": NO_TPU},
    "a pod that asks for zero chips": {
        "spec": NO_TPU | {"containers": [container(limits={"google.com/tpu": "0"})]}
    },
    "a GPU pod": {"spec": NO_TPU | {"nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-l4"}}},
}


@pytest.mark.parametrize("overrides", DEMANDS.values(), ids=DEMANDS)
def test_a_demand_is(overrides: dict[str, Any]) -> None:
    assert find_demand(read_leader(**overrides), JOBSET) is not None


@pytest.mark.parametrize("overrides", NO_DEMANDS.values(), ids=NO_DEMANDS)
def test_no_demand_is(overrides: dict[str, Any]) -> None:
    assert find_demand(read_leader(**overrides), JOBSET) is None


STANDINGS = (
    ((), ""),
    ((completed(),), f"Completed {SINCE}"),
    ((("Failed", "True", SINCE),), f"Failed {SINCE}"),
    ((suspended("2026-01-01T00:00:00Z"),), "Suspended 2026-01-01T00:00:00Z"),
    ((resumed(),), ""),
    ((suspended(), completed("2026-01-01T00:00:00Z")), "Completed 2026-01-01T00:00:00Z"),
    ((("StartupPolicyCompleted", "True", SINCE),), ""),
    ((("RestartingJobSet", "True", SINCE),), ""),
    ((("Completed", "False", SINCE),), ""),
)


@pytest.mark.parametrize(("conditions", "expected"), STANDINGS)
def test_a_jobset_stands_as_its_conditions_say(conditions: Any, expected: Any) -> None:
    assert find_over(read_jobset(conditions=conditions)) == expected


def test_the_spec_of_a_pod_that_waits_for_nothing_is_not_read() -> None:
    unreadable = read_leader(spec={"containers": "none"}, status={"conditions": None})

    assert find_demand(unreadable, JOBSET) is None
