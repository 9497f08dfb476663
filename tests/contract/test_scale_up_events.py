"""What GKE's autoscaler tells a pod by Events: the edge and the fake, and each form of an Event."""

from typing import Any

import msgspec
import pytest

from shared.edges.event_writer import StoredEvent, read_scale_up
from shared.model.readings import FillError
from tests.builders import NOW
from tests.contract.cluster_worlds import EVENTS, edge_world, fake_world
from tests.contract.stand_ins import ask

PODS = "/api/v1/namespaces/default/pods"
FAILED = (
    "Node scale up in zones us-east5-a associated with this pod failed: GCE out of resources. Pod is at risk of "
    "not being scheduled."
)
BACK_OFF = "pod didn't trigger scale-up: 1 in backoff after failed scale-up, 2 node(s) had untolerated taint(s)"
FOREIGN = "pod didn't trigger scale-up: 2 node(s) didn't match Pod's node affinity/selector"


def an_event(pod: dict[str, Any], reason: str, message: str, **more: Any) -> dict[str, Any]:
    meta = pod["metadata"]
    about = {"kind": "Pod", "namespace": "default", "name": meta["name"], "uid": meta["uid"]}
    return {
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "type": "Warning",
        "source": {"component": "cluster-autoscaler"},
        **more,
    }


@pytest.fixture(scope="module")
def url(cluster_url: str) -> str:
    """A cluster with Events on two pods, of which one was told of scale-ups."""
    for name in ("told", "other"):
        pod = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        ask("POST", f"{cluster_url}{PODS}", pod)
    told, other = (ask("GET", f"{cluster_url}{PODS}/{name}") for name in ("told", "other"))
    events = (
        an_event(told, "FailedScaleUp", FAILED, lastTimestamp="2027-01-15T08:00:00Z"),
        an_event(told, "NotTriggerScaleUp", BACK_OFF, eventTime="2027-01-15T08:01:00.000000Z"),
        an_event(told, "NotTriggerScaleUp", FOREIGN, lastTimestamp="2027-01-15T08:00:00Z"),
        an_event(told, "TriggeredScaleUp", "pod triggered scale-up"),
        an_event(other, "FailedScheduling", "0/3 nodes are available"),
    )
    for number, each in enumerate(events):
        ask("POST", f"{cluster_url}{EVENTS}", each | {"metadata": {"name": f"e-{number}"}})
    return cluster_url


@pytest.mark.parametrize("kind", ["edge", "fake"])
def test_what_the_autoscaler_told_the_pod_is_listed(url: str, kind: str) -> None:
    cluster = (edge_world(url) if kind == "edge" else fake_world(url)).port
    told, other = cluster.get_pod("default", "told"), cluster.get_pod("default", "other")
    assert told is not None
    assert other is not None

    assert set(cluster.list_scale_ups(told)) == {
        FillError(FAILED, NOW),
        FillError(BACK_OFF, NOW + 60),
        FillError(FOREIGN, NOW, tries=True),
        FillError("pod triggered scale-up", tries=True),
    }
    assert list(cluster.list_scale_ups(other)) == []


@pytest.mark.parametrize(
    ("event", "at"),
    [
        ({"lastTimestamp": "2027-01-15T08:00:00Z", "eventTime": None, "count": 7}, NOW),
        ({"lastTimestamp": None, "eventTime": "2027-01-15T08:00:00.000000Z"}, NOW),
        ({"lastTimestamp": "yesterday"}, None),
        ({}, None),
    ],
    ids=str,
)
def test_the_time_of_an_event_is_its_last_one_or_none(event: dict[str, Any], at: float | None) -> None:
    stored = msgspec.convert({"reason": "FailedScaleUp", "message": FAILED, **event}, StoredEvent)
    assert read_scale_up(stored) == FillError(FAILED, at)


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"reason": "FailedScaleUp2", "message": FAILED},
        {"reason": "ScaleDown", "message": FOREIGN},
        {"reason": "NodePoolCreationFailed", "message": BACK_OFF},
    ],
    ids=str,
)
def test_any_other_event_is_none(event: dict[str, Any]) -> None:
    assert read_scale_up(msgspec.convert(event, StoredEvent)) is None
