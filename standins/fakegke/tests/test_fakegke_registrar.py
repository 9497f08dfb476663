"""Node objects in a Kubernetes API: registered when a pool gets ready, changed, drained and
removed.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from google.cloud import container_v1

from standins.fakegke.model.node_events import NodeUp
from standins.fakegke.nodes.kubernetes_calls import KubernetesApi
from standins.fakegke.nodes.registrar import Registrar
from standins.fakegke.tests.fakegke_worlds import LONG, InProcessWorld, cpu_pool, reserved

Json = dict[str, Any]


class TinyKubernetes:
    """As much of a Kubernetes API as nodes and pods need; `failures` answers 503 so many times."""

    def __init__(self) -> None:
        self.nodes: dict[str, Json] = {}
        self.pods: dict[tuple[str, str], str] = {}
        self.deletions: list[str] = []
        self.failures = 0
        self.obedient = True

    def answer(self, request: httpx.Request) -> httpx.Response:
        parts = request.url.path.removeprefix("/api/v1/").removesuffix("/status").split("/")
        if parts == ["nodes"]:
            return self._create(json.loads(request.content))
        if parts == ["pods"]:
            return self._list(request.url.params["fieldSelector"].removeprefix("spec.nodeName="))
        *_, kind, name = parts
        if kind == "pods":
            at_once = request.url.params.get("gracePeriodSeconds") == "0"
            self.deletions.append(f"{name}{' at once' if at_once else ''}")
            if self.obedient or at_once:
                self.pods.pop((parts[1], name), None)
            return httpx.Response(200)
        if name not in self.nodes:
            return httpx.Response(404)
        if request.method == "PATCH":
            assert request.headers["content-type"] == "application/merge-patch+json"
            _merge(self.nodes[name], json.loads(request.content))
        answer = httpx.Response(200, json=self.nodes[name])
        if request.method == "DELETE":
            self.deletions.append(name)
            del self.nodes[name]
        return answer

    def _create(self, node: Json) -> httpx.Response:
        if self.failures:
            self.failures -= 1
            return httpx.Response(503)
        if node["metadata"]["name"] in self.nodes:
            return httpx.Response(409)
        self.nodes[node["metadata"]["name"]] = node
        return httpx.Response(201)

    def _list(self, node: str) -> httpx.Response:
        found = [{"namespace": pod[0], "name": pod[1]} for pod, place in self.pods.items() if place == node]
        return httpx.Response(200, json={"items": [{"metadata": each} for each in found]})


def _merge(target: Json, patch: Json) -> None:
    for key, value in patch.items():
        if isinstance(value, dict):
            _merge(target.setdefault(key, {}), value)
        elif value is None:
            target.pop(key, None)
        else:
            target[key] = value


class Stage(InProcessWorld):
    """A model whose nodes are registered in a tiny Kubernetes each time that `settle` is called."""

    def __init__(self) -> None:
        super().__init__()
        self.kubernetes = TinyKubernetes()
        transport = httpx.MockTransport(self.kubernetes.answer)
        self._loop = asyncio.new_event_loop()
        client = httpx.AsyncClient(base_url="http://kubernetes", transport=transport)
        self._registrar = Registrar(KubernetesApi(client))
        self.told: list[Any] = []
        self.gke.listen(self.told.append)

    def settle(self) -> list[Json]:
        """Carry out what the model has told so far; return the nodes."""

        async def work() -> None:
            for event in self.told:
                self._registrar.note(event)
            self.told.clear()
            await self._registrar.settled()

        self._loop.run_until_complete(work())
        return list(self.kubernetes.nodes.values())

    def register(self, **changes: Any) -> list[Json]:
        """Create a pool and return its nodes."""
        self.created(**changes)
        return self.settle()

    def remove(self) -> None:
        self.delete()
        self.advance(LONG)
        self.settle()

    def close(self) -> None:
        self._loop.run_until_complete(self._registrar.close())
        self._loop.close()


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setattr("standins.fakegke.nodes.registrar._POD_PATIENCE", 0.05)
    monkeypatch.setattr("standins.fakegke.nodes.registrar._FIRST_PAUSE", 0.001)
    made = Stage()
    yield made
    made.close()


def test_a_ready_slice_registers_its_hosts_with_labels_taints_and_capacity(stage: Stage) -> None:
    taint = {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NO_SCHEDULE"}
    nodes = stage.register(config={"labels": {"example.com/claim": "x"}, "taints": [taint]})

    assert len(nodes) == 4
    expected = {
        "cloud.google.com/gke-nodepool": "pool-1",
        "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
        "cloud.google.com/gke-tpu-topology": "4x4",
        "cloud.google.com/gke-accelerator-count": "4",
        "cloud.google.com/gke-spot": "true",
        "cloud.google.com/gke-provisioning": "spot",
        "node.kubernetes.io/instance-type": "ct6e-standard-4t",
        "topology.kubernetes.io/zone": "us-east5-b",
        "topology.kubernetes.io/region": "us-east5",
        "example.com/claim": "x",
    }
    assert expected.items() <= nodes[0]["metadata"]["labels"].items()
    assert nodes[0]["spec"]["taints"] == [
        {"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"},
        {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"},
    ]
    assert nodes[0]["spec"]["providerID"].startswith("gce://demo/us-east5-b/gke-tpu-")
    status = nodes[0]["status"]
    assert (status["allocatable"]["google.com/tpu"], status["capacity"]["pods"]) == ("4", "110")
    (ready,) = [condition for condition in status["conditions"] if condition["type"] == "Ready"]
    assert (ready["status"], ready["lastHeartbeatTime"][-1], ready["lastTransitionTime"][-1]) == ("True", "Z", "Z")


def test_a_reserved_pool_labels_its_nodes_with_the_reservation(stage: Stage) -> None:
    nodes = stage.register(config=reserved("projects/other/reservations/res-1"))
    labels = nodes[0]["metadata"]["labels"]
    assert labels["cloud.google.com/reservation-name"] == "res-1"
    assert labels["cloud.google.com/reservation-project"] == "other"
    assert labels["cloud.google.com/gke-provisioning"] == "standard"


def test_a_deleted_pool_takes_pods_first_and_then_its_nodes(stage: Stage) -> None:
    first, *_ = stage.register()
    stage.kubernetes.pods["default", "worker-0"] = first["metadata"]["name"]
    stage.kubernetes.pods["default", "elsewhere"] = "another-node"
    stage.remove()

    assert stage.kubernetes.nodes == {}
    assert list(stage.kubernetes.pods) == [("default", "elsewhere")]
    assert stage.kubernetes.deletions[0] == "worker-0"


def test_a_pod_that_does_not_go_is_removed_at_once_in_the_end(stage: Stage) -> None:
    first, *_ = stage.register()
    stage.kubernetes.obedient = False
    stage.kubernetes.pods["default", "stubborn"] = first["metadata"]["name"]
    stage.remove()

    assert (stage.kubernetes.nodes, stage.kubernetes.pods) == ({}, {})
    assert "stubborn at once" in stage.kubernetes.deletions


def test_a_kubernetes_api_that_is_down_is_tried_again_and_does_not_hold_up_the_pool(stage: Stage) -> None:
    stage.kubernetes.failures = 3
    stage.created()

    assert stage.pool().status == container_v1.NodePool.Status.RUNNING
    assert len(stage.settle()) == 4


def test_a_node_that_exists_already_is_taken_over(stage: Stage) -> None:
    stage.created()
    names = [event.node.name for event in stage.told if isinstance(event, NodeUp)]
    stage.kubernetes.nodes = {name: {"metadata": {"name": name, "labels": {}}} for name in names}

    pools = [node["metadata"]["labels"]["cloud.google.com/gke-nodepool"] for node in stage.settle()]
    assert pools == ["pool-1"] * 4


def test_a_label_update_reaches_the_nodes_and_spares_foreign_taints(stage: Stage) -> None:
    foreign = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    for node in stage.register(config={"labels": {"old": "1"}}):
        node["spec"]["taints"].append(foreign)
    labels = container_v1.NodeLabels(labels={"new": "2"})
    stage.client.update_node_pool(request={"name": f"{stage.parent}/nodePools/pool-1", "labels": labels})
    stage.advance(60)

    for node in stage.settle():
        assert (node["metadata"]["labels"]["new"], "old" in node["metadata"]["labels"]) == ("2", False)
        assert [taint["key"] for taint in node["spec"]["taints"]] == ["google.com/tpu", foreign["key"]]


def test_a_resize_registers_and_removes_single_nodes(stage: Stage) -> None:
    stage.client.create_node_pool(parent=stage.parent, node_pool=cpu_pool(initial_node_count=2))
    stage.advance(LONG)
    for count in (3, 1):
        stage.client.set_node_pool_size(request={"name": f"{stage.parent}/nodePools/pool-1", "node_count": count})
        stage.advance(LONG)
        assert len(stage.settle()) == count
