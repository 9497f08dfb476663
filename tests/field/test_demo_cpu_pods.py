"""The demo names a pod without accelerators that no node takes, and ends for its sake."""

from typing import Any

import pytest

from demo.loop.kubernetes_views import read_jobset, read_pod
from demo.loop.progress import Patience, Refuser, describe_missing, find_unplaced, list_quiet
from demo.loop.timeline import Timeline

KEY = ("default", "head-and-slice")
WORDS = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."


def a_pod(spec: dict[str, Any], *, jobset: str = KEY[1], node: str = "") -> dict[str, Any]:
    """A pod of the JobSet that waits, or that runs on a node."""
    labels = {"jobset.sigs.k8s.io/jobset-name": jobset, "batch.kubernetes.io/job-name": f"{jobset}-head-0"}
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": WORDS}
    return {
        "metadata": {"namespace": KEY[0], "name": f"{jobset}-head-0-0", "uid": "u", "labels": labels},
        "spec": {**spec, "nodeName": node},
        "status": {"phase": "Pending", "conditions": [] if node else [waiting]},
    }


def a_timeline() -> Timeline:
    timeline = Timeline([KEY], 0.0)
    timeline.observe(read_jobset({"metadata": {"namespace": KEY[0], "name": KEY[1]}, "spec": {}}, 0.0))
    return timeline


SELECTING = {"nodeSelector": {"cloud.google.com/machine-family": "n2"}, "containers": [{"name": "c"}]}


def test_the_pod_is_told_at_once_and_once_with_its_selector_and_the_schedulers_words() -> None:
    timeline = a_timeline()

    (line,) = timeline.observe(read_pod(a_pod(SELECTING), 1.0))
    assert line.who == "head-and-slice-head-0-0"
    assert "no node with cloud.google.com/machine-family=n2 takes this pod" in line.text
    assert WORDS in line.text
    assert timeline.observe(read_pod(a_pod(SELECTING), 2.0)) == []


@pytest.mark.parametrize(
    "spec",
    [
        SELECTING,
        {"containers": [{"name": "c", "resources": {"requests": {"cpu": "200"}}}]},
        {"containers": [{"name": "c"}], "tolerations": [{"key": "dedicated"}]},
    ],
    ids=["selector", "size", "taint"],
)
def test_a_quiet_workload_is_refused_for_it(spec: dict[str, Any]) -> None:
    timeline = a_timeline()
    timeline.observe(read_pod(a_pod(spec), 1.0))
    quiet = list_quiet(timeline, 100.0, Patience.at_speed(30))

    ((workload, (refusal,)),) = find_unplaced(timeline, quiet)
    assert (workload.name, refusal.slice, refusal.by) == (KEY[1], "head-and-slice-head-0-0", Refuser.CLUSTER)
    assert any(WORDS in each for each in describe_missing(timeline, 100.0))


def test_a_pod_that_got_a_node_or_is_another_workloads_is_no_lack() -> None:
    timeline = a_timeline()
    timeline.observe(read_pod(a_pod(SELECTING), 1.0))
    timeline.observe(read_pod(a_pod(SELECTING, node="cpu-0"), 2.0))
    timeline.observe(read_pod(a_pod(SELECTING, jobset="other"), 3.0))

    assert find_unplaced(timeline, list_quiet(timeline, 100.0, Patience.at_speed(30))) == []


def test_a_pod_that_waits_for_accelerators_is_none_of_these() -> None:
    timeline = a_timeline()
    limits = {"resources": {"limits": {"google.com/tpu": 4}}}
    timeline.observe(read_pod(a_pod({"containers": [{"name": "c", **limits}]}), 1.0))

    assert timeline.unplaced == {}
