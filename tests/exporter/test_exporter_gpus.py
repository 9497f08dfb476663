"""Pods that ask for GPUs are demands, and those of one shape are spoken of one at a time."""

from typing import Any

import msgspec
import pytest

from exporter.observed_objects import ObservedPods
from exporter.predicates import is_demand
from shared.core import labels
from shared.core.kinds.job import JOB, JOB_NAME_ON_POD
from shared.edges.workload_objects import Pod
from tests.exporter.exporter_builders import CLUSTER, UNSCHEDULABLE


def a_gpu_pod(name: str, *, gpus: int = 1, index: str | None = None) -> Pod:
    controller = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-1", "controller": True}
    pod_labels = {JOB_NAME_ON_POD: "train"} | ({labels.COMPLETION_INDEX: index} if index else {})
    resources: dict[str, Any] = {"limits": {labels.GPU_RESOURCE: gpus}} if gpus else {}
    selector = {labels.GPU_ACCELERATOR: "nvidia-l4"}
    body = {
        "metadata": {
            "namespace": "a",
            "name": name,
            "uid": name,
            "labels": pod_labels,
            "ownerReferences": [controller],
        },
        "spec": {"nodeSelector": selector, "containers": [{"name": "c", "resources": resources}]},
        "status": {"conditions": [UNSCHEDULABLE]},
    }
    return msgspec.convert(body, Pod)


@pytest.mark.parametrize("index", [None, "0", "7"])
def test_any_pod_with_gpus_may_be_a_leader(index: str | None) -> None:
    assert is_demand(a_gpu_pod("p", index=index), JOB)


def test_a_selector_for_gpus_without_any_is_no_demand() -> None:
    assert not is_demand(a_gpu_pod("p", gpus=0), JOB)


def test_a_hundred_pods_of_one_shape_give_one_event_and_the_next_when_that_one_has_its_node() -> None:
    observed = ObservedPods(CLUSTER, JOB)
    pods = [a_gpu_pod(f"p{at}", index=str(at)) for at in range(100)]
    assert [event.incarnation for pod in pods for event in observed.see(pod)] == ["p0"]
    assert [event.incarnation for event in observed.lose(pods[0])] == ["p1"]


def test_pods_of_two_shapes_give_two() -> None:
    observed = ObservedPods(CLUSTER, JOB)
    pods = [a_gpu_pod("one"), a_gpu_pod("two", gpus=2)]
    assert [event.incarnation for pod in pods for event in observed.see(pod)] == ["one", "two"]
