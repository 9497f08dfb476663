"""What LeaderWorkerSet itself makes of a set on TPU slices: leaders, then workers, and how their
slice is told.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from standins.controlplane.plane import ControlPlane
from standins.controlplane.tests.controlplane_worlds import (
    POOL,
    SELECTOR,
    START_SECONDS_MAX,
    TPU,
    World,
    clearing,
    label,
    wait_for,
    wait_for_count,
)

Json = dict[str, Any]

LWS = "lws-0.7"
pytestmark = [pytest.mark.cluster, pytest.mark.controller(LWS), pytest.mark.timeout(START_SECONDS_MAX)]

_PREFIX = "leaderworkerset.sigs.k8s.io/"


class LwsWorld(World):
    """A namespace with LeaderWorkerSets."""

    LIST = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/{}/leaderworkersets"


@pytest.fixture
def sets(plane_with: Callable[..., ControlPlane]) -> Iterator[LwsWorld]:
    with clearing(LwsWorld(plane_with(LWS))) as world:
        yield world


def serving(name: str, *, replicas: int = 2, size: int = 4, **template: Any) -> Json:
    container = {"name": "server", "image": "server", "resources": {"limits": {TPU: "4"}}}
    pod = {"spec": {"nodeSelector": SELECTOR, "containers": [container]}}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "annotations": {_PREFIX + "exclusive-topology": POOL}},
        "spec": {"replicas": replicas, "leaderWorkerTemplate": {"size": size, "workerTemplate": pod} | template},
    }


def test_an_exclusive_set_without_nodes_has_its_leaders_only(sets: LwsWorld) -> None:
    sets.submit(serving("serve"))
    leaders = wait_for_count("two unschedulable leaders", 2, sets.unschedulable)

    assert [pod["metadata"]["name"] for pod in sets.pods()] == ["serve-0", "serve-1"]
    assert [label(pod, _PREFIX + "name") for pod in leaders] == ["serve", "serve"]
    assert [label(pod, _PREFIX + "group-index") for pod in leaders] == ["0", "1"]
    assert [label(pod, _PREFIX + "worker-index") for pod in leaders] == ["0", "0"]
    assert {pod["metadata"]["annotations"][_PREFIX + "size"] for pod in leaders} == {"4"}
    assert len({label(pod, _PREFIX + "group-key") for pod in leaders}) == 2
    for pod in leaders:
        (term,) = pod["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term["topologyKey"] == POOL
        (owner,) = pod["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("StatefulSet", "serve")


def test_workers_follow_their_bound_leader_onto_its_pool(sets: LwsWorld) -> None:
    sets.submit(serving("serve", replicas=1))
    wait_for("the leader", sets.unschedulable)
    sets.add_pool("a")

    pods = wait_for_count("four bound pods", 4, sets.bound)
    assert [label(pod, _PREFIX + "worker-index") for pod in pods] == ["0", "1", "2", "3"]
    assert {label(pod, _PREFIX + "group-index") for pod in pods} == {"0"}
    assert len({label(pod, _PREFIX + "group-key") for pod in pods}) == 1
    for pod in pods[1:]:
        assert pod["spec"]["nodeSelector"][POOL] == f"{sets.namespace}-a"
        assert pod["metadata"]["annotations"][_PREFIX + "leader-name"] == "serve-0"
        (owner,) = pod["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("StatefulSet", "serve-0")


def test_scaling_down_takes_the_group_of_the_highest_index(sets: LwsWorld) -> None:
    sets.submit(serving("serve", replicas=3, size=1))
    wait_for_count("three leaders", 3, sets.unschedulable)
    sets.change("serve", replicas=1)
    wait_for_count("one leader", 1, sets.pods)

    assert [label(pod, _PREFIX + "group-index") for pod in sets.pods()] == ["0"]


@pytest.mark.parametrize(
    ("kind", "leaders"), [("LeaderExcluded", ""), ("LeaderWorker", "0")], ids=["left out", "counted"]
)
def test_behind_a_leader_without_chips_workers_come_at_once_and_tell_their_sub_group(
    kind: str, leaders: str, sets: LwsWorld
) -> None:
    leader = {"spec": {"containers": [{"name": "head", "image": "head"}]}}
    policy = {"subGroupPolicyType": kind, "subGroupSize": 2}
    body = serving("serve", replicas=1, size=5, leaderTemplate=leader, subGroupPolicy=policy)
    body["metadata"]["annotations"] = {_PREFIX + "subgroup-exclusive-topology": POOL}
    sets.submit(body)
    pods = wait_for_count("five pods", 5, sets.pods)

    assert [label(pod, _PREFIX + "worker-index") for pod in pods] == ["0", "1", "2", "3", "4"]
    assert [label(pod, _PREFIX + "subgroup-index") for pod in pods] == [leaders, "0", "0", "1", "1"]
    assert len({label(pod, _PREFIX + "subgroup-key") for pod in pods[1:]}) == 2
    assert len({label(pod, _PREFIX + "group-key") for pod in pods}) == 1
    assert {pod["metadata"]["annotations"][_PREFIX + "subgroup-size"] for pod in pods} == {"2"}
    assert TPU not in str(pods[0]["spec"]["containers"])


def test_its_validation_refuses_what_it_refuses_on_gke(sets: LwsWorld) -> None:
    body = serving("serve", subGroupPolicy={"subGroupSize": 5})

    with pytest.raises(Exception, match="subGroupSize"):
        sets.submit(body)
