"""What LeaderWorkerSet itself makes of a set on TPU slices: leaders, then workers, and how their slice is told."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from controlplane_worlds import POOL, SELECTOR, START_SECONDS_MAX, TPU, World, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from local.controlplane.plane import ControlPlane

Json = dict[str, Any]

LWS = "lws-0.7"
pytestmark = [pytest.mark.cluster, pytest.mark.controller(LWS), pytest.mark.timeout(START_SECONDS_MAX)]

_PREFIX = "leaderworkerset.sigs.k8s.io/"
_worlds = itertools.count()


class LwsWorld(World):
    """A namespace with LeaderWorkerSets."""

    def submit(self, body: Json) -> Json:
        return self.api.create(self._path(), body, dict)

    def change(self, name: str, **spec: Any) -> None:
        self.api.patch(self._path(name), {"spec": spec})

    def delete(self, name: str) -> None:
        self.api.delete(self._path(name), propagation="Background")

    def clear(self) -> None:
        self.remove_all(self._path())
        super().clear()

    def _path(self, name: str = "") -> str:
        root = f"/apis/leaderworkerset.x-k8s.io/v1/namespaces/{self.namespace}/leaderworkersets"
        return root + (f"/{name}" if name else "")


@pytest.fixture
def sets(plane_with: Callable[..., ControlPlane]) -> Iterator[LwsWorld]:
    world = LwsWorld(plane_with(LWS).api, f"sets-{next(_worlds)}")
    yield world
    world.clear()


def serving(name: str, *, replicas: int = 2, size: int = 4, **template: Any) -> Json:
    container = {"name": "server", "image": "server", "resources": {"limits": {TPU: "4"}}}
    pod = {"spec": {"nodeSelector": SELECTOR, "containers": [container]}}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "annotations": {_PREFIX + "exclusive-topology": POOL}},
        "spec": {
            "replicas": replicas,
            "leaderWorkerTemplate": {"size": size, "workerTemplate": pod} | template,
        },
    }


def label(pod: Json, key: str) -> str:
    return pod["metadata"]["labels"].get(_PREFIX + key, "")


def test_an_exclusive_set_without_nodes_has_its_leaders_only(sets: LwsWorld):
    sets.submit(serving("serve"))
    leaders = wait_for("two unschedulable leaders", lambda: (w := sets.unschedulable()) and len(w) == 2 and w)

    assert [pod["metadata"]["name"] for pod in sets.pods()] == ["serve-0", "serve-1"]
    assert [label(pod, "name") for pod in leaders] == ["serve", "serve"]
    assert [label(pod, "group-index") for pod in leaders] == ["0", "1"]
    assert [label(pod, "worker-index") for pod in leaders] == ["0", "0"]
    assert {pod["metadata"]["annotations"][_PREFIX + "size"] for pod in leaders} == {"4"}
    assert len({label(pod, "group-key") for pod in leaders}) == 2
    for pod in leaders:
        (term,) = pod["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term["topologyKey"] == POOL
        (owner,) = pod["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("StatefulSet", "serve")


def test_workers_follow_their_bound_leader_onto_its_pool(sets: LwsWorld):
    sets.submit(serving("serve", replicas=1))
    wait_for("the leader", sets.unschedulable)
    sets.add_pool("a")

    def bound() -> list[Json]:
        pods = sets.pods()
        return pods if len(pods) == 4 and all(pod["spec"].get("nodeName") for pod in pods) else []

    pods = wait_for("four bound pods", bound)
    assert [label(pod, "worker-index") for pod in pods] == ["0", "1", "2", "3"]
    assert {label(pod, "group-index") for pod in pods} == {"0"}
    assert len({label(pod, "group-key") for pod in pods}) == 1
    for pod in pods[1:]:
        assert pod["spec"]["nodeSelector"][POOL] == f"{sets.namespace}-a"
        assert pod["metadata"]["annotations"][_PREFIX + "leader-name"] == "serve-0"
        (owner,) = pod["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("StatefulSet", "serve-0")


def test_scaling_down_takes_the_group_of_the_highest_index(sets: LwsWorld):
    sets.submit(serving("serve", replicas=3, size=1))
    wait_for("three leaders", lambda: len(sets.unschedulable()) == 3)
    sets.change("serve", replicas=1)
    wait_for("one leader", lambda: len(sets.pods()) == 1)

    assert [label(pod, "group-index") for pod in sets.pods()] == ["0"]


def test_a_deleted_set_takes_its_pods_with_it(sets: LwsWorld):
    sets.submit(serving("serve"))
    wait_for("two leaders", lambda: len(sets.pods()) == 2)
    sets.delete("serve")

    wait_for("no pods", lambda: not sets.pods())


@pytest.mark.parametrize(
    ("kind", "leaders"), [("LeaderExcluded", ""), ("LeaderWorker", "0")], ids=["left out", "counted"]
)
def test_behind_a_leader_without_chips_workers_come_at_once_and_tell_their_sub_group(
    kind: str, leaders: str, sets: LwsWorld
):
    leader = {"spec": {"containers": [{"name": "head", "image": "head"}]}}
    policy = {"subGroupPolicyType": kind, "subGroupSize": 2}
    body = serving("serve", replicas=1, size=5, leaderTemplate=leader, subGroupPolicy=policy)
    body["metadata"]["annotations"] = {_PREFIX + "subgroup-exclusive-topology": POOL}
    sets.submit(body)
    pods = wait_for("five pods", lambda: (found := sets.pods()) and len(found) == 5 and found)

    assert [label(pod, "worker-index") for pod in pods] == ["0", "1", "2", "3", "4"]
    assert [label(pod, "subgroup-index") for pod in pods] == [leaders, "0", "0", "1", "1"]
    assert len({label(pod, "subgroup-key") for pod in pods[1:]}) == 2
    assert len({label(pod, "group-key") for pod in pods}) == 1
    assert {pod["metadata"]["annotations"][_PREFIX + "subgroup-size"] for pod in pods} == {"2"}
    assert TPU not in str(pods[0]["spec"]["containers"])


def test_its_validation_refuses_what_it_refuses_on_gke(sets: LwsWorld):
    body = serving("serve", subGroupPolicy={"subGroupSize": 5})

    with pytest.raises(Exception, match="subGroupSize"):
        sets.submit(body)
