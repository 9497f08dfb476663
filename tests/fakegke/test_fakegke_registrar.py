"""Node objects in a Kubernetes API: registered when a pool gets ready, changed, drained and removed."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml
from fakegke_worlds import LONG, InProcessWorld, cpu_pool
from google.cloud import container_v1
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from local.fakegke.kubernetes_api import KubernetesApi, connect
from local.fakegke.registrar import Registrar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from starlette.requests import Request


class TinyKubernetes:
    """As much of a Kubernetes API as nodes and pods need; `failures` answers 503 so many times."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.pods: dict[tuple[str, str], str] = {}
        self.deletions: list[str] = []
        self.failures = 0
        self.obedient = True

    def api(self) -> KubernetesApi:
        routes = [
            Route("/api/v1/nodes", self._create, methods=["POST"]),
            Route("/api/v1/nodes/{name}", self._get, methods=["GET"]),
            Route("/api/v1/nodes/{name}", self._patch, methods=["PATCH"]),
            Route("/api/v1/nodes/{name}/status", self._patch, methods=["PATCH"]),
            Route("/api/v1/nodes/{name}", self._delete, methods=["DELETE"]),
            Route("/api/v1/pods", self._pods, methods=["GET"]),
            Route("/api/v1/namespaces/{namespace}/pods/{name}", self._delete_pod, methods=["DELETE"]),
        ]
        transport = httpx.ASGITransport(Starlette(routes=routes))
        return KubernetesApi(httpx.AsyncClient(base_url="http://kubernetes", transport=transport))

    async def _create(self, request: Request) -> JSONResponse:
        if self.failures:
            self.failures -= 1
            return JSONResponse({}, status_code=503)
        node = await request.json()
        name = node["metadata"]["name"]
        if name in self.nodes:
            return JSONResponse({}, status_code=409)
        self.nodes[name] = node
        return JSONResponse(node, status_code=201)

    async def _get(self, request: Request) -> JSONResponse:
        node = self.nodes.get(request.path_params["name"])
        return JSONResponse(node or {}, status_code=200 if node else 404)

    async def _patch(self, request: Request) -> JSONResponse:
        node = self.nodes.get(request.path_params["name"])
        if node is None:
            return JSONResponse({}, status_code=404)
        assert request.headers["content-type"] == "application/merge-patch+json"
        _merge(node, await request.json())
        return JSONResponse(node)

    async def _delete(self, request: Request) -> JSONResponse:
        self.deletions.append(request.path_params["name"])
        gone = self.nodes.pop(request.path_params["name"], None)
        return JSONResponse({}, status_code=200 if gone else 404)

    async def _pods(self, request: Request) -> JSONResponse:
        node = request.query_params["fieldSelector"].removeprefix("spec.nodeName=")
        items = [
            {"metadata": {"namespace": namespace, "name": name}}
            for (namespace, name), place in self.pods.items()
            if place == node
        ]
        return JSONResponse({"items": items})

    async def _delete_pod(self, request: Request) -> JSONResponse:
        key = (request.path_params["namespace"], request.path_params["name"])
        at_once = request.query_params.get("gracePeriodSeconds") == "0"
        self.deletions.append(f"{key[1]}{' at once' if at_once else ''}")
        if self.obedient or at_once:
            self.pods.pop(key, None)
        return JSONResponse({})


def _merge(target: dict[str, Any], patch: dict[str, Any]) -> None:
    for key, value in patch.items():
        if isinstance(value, dict):
            _merge(target.setdefault(key, {}), value)
        elif value is None:
            target.pop(key, None)
        else:
            target[key] = value


def _play(scene: Callable[[InProcessWorld, TinyKubernetes, Registrar], Awaitable[None]]) -> TinyKubernetes:
    """Run a scene with a model whose nodes are registered in a tiny Kubernetes."""
    kubernetes = TinyKubernetes()

    async def run() -> None:
        registrar = Registrar(kubernetes.api())
        model = InProcessWorld()
        model.gke.listen(registrar.note)
        await scene(model, kubernetes, registrar)
        await registrar.close()

    asyncio.run(run())
    return kubernetes


async def _created(model: InProcessWorld, registrar: Registrar, **changes: Any) -> None:
    model.created(**changes)
    await registrar.settled()


def test_a_ready_slice_registers_its_hosts_with_labels_taints_and_capacity():
    async def scene(model: InProcessWorld, _: TinyKubernetes, registrar: Registrar) -> None:
        taint = {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NO_SCHEDULE"}
        await _created(model, registrar, config={"labels": {"example.com/claim": "x"}, "taints": [taint]})

    nodes = list(_play(scene).nodes.values())
    assert len(nodes) == 4
    labels = nodes[0]["metadata"]["labels"]
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
    assert labels | expected == labels
    assert nodes[0]["spec"]["taints"] == [
        {"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"},
        {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"},
    ]
    assert nodes[0]["spec"]["providerID"].startswith("gce://demo/us-east5-b/gke-tpu-")
    assert nodes[0]["status"]["allocatable"]["google.com/tpu"] == "4"
    assert nodes[0]["status"]["capacity"]["pods"] == "110"


def test_a_registered_node_is_ready_with_time_stamps():
    async def scene(model: InProcessWorld, _: TinyKubernetes, registrar: Registrar) -> None:
        await _created(model, registrar)

    (condition,) = [
        condition
        for condition in next(iter(_play(scene).nodes.values()))["status"]["conditions"]
        if condition["type"] == "Ready"
    ]
    assert condition["status"] == "True"
    assert condition["lastHeartbeatTime"].endswith("Z")
    assert condition["lastTransitionTime"].endswith("Z")


def test_a_reserved_pool_labels_its_nodes_with_the_reservation():
    async def scene(model: InProcessWorld, _: TinyKubernetes, registrar: Registrar) -> None:
        affinity = {
            "consume_reservation_type": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": ["projects/other/reservations/res-1"],
        }
        await _created(model, registrar, config={"spot": False, "reservation_affinity": affinity})

    labels = next(iter(_play(scene).nodes.values()))["metadata"]["labels"]
    assert labels["cloud.google.com/reservation-name"] == "res-1"
    assert labels["cloud.google.com/reservation-project"] == "other"
    assert labels["cloud.google.com/gke-provisioning"] == "standard"


def test_a_deleted_pool_takes_pods_first_and_then_its_nodes():
    async def scene(model: InProcessWorld, kubernetes: TinyKubernetes, registrar: Registrar) -> None:
        await _created(model, registrar)
        kubernetes.pods["default", "worker-0"] = next(iter(kubernetes.nodes))
        kubernetes.pods["default", "elsewhere"] = "another-node"
        model.delete()
        model.advance(LONG)
        await registrar.settled()

    kubernetes = _play(scene)
    assert kubernetes.nodes == {}
    assert list(kubernetes.pods) == [("default", "elsewhere")]
    assert kubernetes.deletions[0] == "worker-0"


def test_a_pod_that_does_not_go_is_removed_at_once_in_the_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("local.fakegke.registrar._POD_PATIENCE", 0.05)

    async def scene(model: InProcessWorld, kubernetes: TinyKubernetes, registrar: Registrar) -> None:
        await _created(model, registrar)
        kubernetes.obedient = False
        kubernetes.pods["default", "stubborn"] = next(iter(kubernetes.nodes))
        model.delete()
        model.advance(LONG)
        await registrar.settled()

    kubernetes = _play(scene)
    assert (kubernetes.nodes, kubernetes.pods) == ({}, {})
    assert "stubborn at once" in kubernetes.deletions


def test_a_kubernetes_api_that_is_down_is_tried_again_and_does_not_hold_up_the_pool(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("local.fakegke.registrar._FIRST_PAUSE", 0.001)

    async def scene(model: InProcessWorld, kubernetes: TinyKubernetes, registrar: Registrar) -> None:
        kubernetes.failures = 3
        model.created()
        assert model.pool().status == container_v1.NodePool.Status.RUNNING
        await registrar.settled()

    assert len(_play(scene).nodes) == 4


def test_a_node_that_exists_already_is_taken_over():
    async def scene(model: InProcessWorld, kubernetes: TinyKubernetes, registrar: Registrar) -> None:
        model.gke.listen(lambda event: kubernetes.nodes.update(_leftover(event)))
        await _created(model, registrar)

    nodes = _play(scene).nodes
    assert {node["metadata"]["labels"]["cloud.google.com/gke-nodepool"] for node in nodes.values()} == {"pool-1"}


def _leftover(event: Any) -> dict[str, dict[str, Any]]:
    name = event.node.name if hasattr(event, "node") else ""
    return {name: {"metadata": {"name": name, "labels": {}}}} if name else {}


def test_a_label_update_reaches_the_nodes_and_spares_foreign_taints():
    async def scene(model: InProcessWorld, kubernetes: TinyKubernetes, registrar: Registrar) -> None:
        await _created(model, registrar, config={"labels": {"old": "1"}})
        foreign = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        for node in kubernetes.nodes.values():
            node["spec"]["taints"].append(foreign)
        labels = container_v1.NodeLabels(labels={"new": "2"})
        model.client.update_node_pool(request={"name": f"{model.parent}/nodePools/pool-1", "labels": labels})
        model.advance(60)
        await registrar.settled()

    for node in _play(scene).nodes.values():
        assert (node["metadata"]["labels"]["new"], "old" in node["metadata"]["labels"]) == ("2", False)
        assert [taint["key"] for taint in node["spec"]["taints"]] == [
            "google.com/tpu",
            "node.kubernetes.io/unschedulable",
        ]


def test_a_resize_registers_and_removes_single_nodes():
    async def scene(model: InProcessWorld, kubernetes: TinyKubernetes, registrar: Registrar) -> None:
        model.client.create_node_pool(parent=model.parent, node_pool=cpu_pool(initial_node_count=2))
        model.advance(LONG)
        for count, wanted in ((3, 3), (1, 1)):
            request = {"name": f"{model.parent}/nodePools/pool-1", "node_count": count}
            model.client.set_node_pool_size(request=request)
            model.advance(LONG)
            await registrar.settled()
            assert len(kubernetes.nodes) == wanted

    _play(scene)


def test_a_kubeconfig_gives_server_and_token(tmp_path: Path):
    path = tmp_path / "config"
    authority = base64.b64encode(b"").decode()
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "here",
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [
                    {
                        "name": "c",
                        "cluster": {"server": "https://127.0.0.1:6443", "certificate-authority-data": authority},
                    }
                ],
                "users": [{"name": "u", "user": {"token": "secret"}}],
            }
        )
    )
    api = connect(str(path))
    assert str(api._client.base_url) == "https://127.0.0.1:6443"
    assert api._client.headers["Authorization"] == "Bearer secret"
    asyncio.run(api.close())


@pytest.mark.parametrize("content", ["", "[]", "{}", "current-context: gone\ncontexts: []\n"])
def test_an_unusable_kubeconfig_is_refused_by_its_path(tmp_path: Path, content: str):
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(ValueError, match="usable kubeconfig"):
        connect(str(path))
    with pytest.raises(ValueError, match="absent"):
        connect(str(tmp_path / "absent"))
