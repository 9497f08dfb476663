"""Keeps the Node objects of a Kubernetes API in step with the model's nodes.

Works through the model's events pool by pool, in order, each until it succeeds: an API that is down
is tried again and logged, and never holds up the model. Uses nothing but the public Kubernetes API,
so that any API server will do.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from standins.google.gke.model.node_objects import Event, Node, NodeChanged, NodesDown, NodesDraining, NodeUp
from standins.kit.kubernetes import open_async_client
from standins.kit.lifecycle import write_record

_TIMEOUT_SECONDS = 10.0
_MERGE = {"Content-Type": "application/merge-patch+json"}


class KubernetesApi:
    """A client of one Kubernetes API.

    Every call raises httpx.HTTPError when the API is down or refuses.
    """

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def create_node(self, manifest: dict[str, Any]) -> None:
        """Create a Node; one that exists already is brought in line with the manifest."""
        answer = await self._client.post("/api/v1/nodes", json=manifest)
        if answer.status_code == httpx.codes.CONFLICT:
            patch = {"metadata": {"labels": manifest["metadata"]["labels"]}, "spec": manifest["spec"]}
            await self.patch_node(manifest["metadata"]["name"], patch)
            return
        answer.raise_for_status()

    async def node(self, name: str) -> dict[str, Any] | None:
        """Return a Node, None when there is none."""
        answer = await self._client.get(f"/api/v1/nodes/{name}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        return dict(answer.raise_for_status().json())

    async def patch_node(self, name: str, patch: dict[str, Any], part: str = "") -> None:
        """Merge `patch` into a Node, or into its subresource `part`.

        A Node that is gone is left alone.
        """
        path = f"/api/v1/nodes/{name}" + (f"/{part}" if part else "")
        answer = await self._client.patch(path, json=patch, headers=_MERGE)
        if answer.status_code != httpx.codes.NOT_FOUND:
            answer.raise_for_status()

    async def delete_node(self, name: str) -> None:
        """Delete a Node; one that is gone already is fine."""
        answer = await self._client.delete(f"/api/v1/nodes/{name}")
        if answer.status_code != httpx.codes.NOT_FOUND:
            answer.raise_for_status()

    async def pods_on(self, node: str) -> list[tuple[str, str]]:
        """Return namespace and name of every pod that is bound to a node."""
        answer = await self._client.get("/api/v1/pods", params={"fieldSelector": f"spec.nodeName={node}"})
        pods = answer.raise_for_status().json()["items"]
        return [(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods]

    async def delete_pod(self, namespace: str, name: str, *, at_once: bool = False) -> None:
        """Delete a pod, with its own grace or at once; one that is gone already is fine."""
        parameters = {"gracePeriodSeconds": "0"} if at_once else {}
        answer = await self._client.delete(f"/api/v1/namespaces/{namespace}/pods/{name}", params=parameters)
        if answer.status_code != httpx.codes.NOT_FOUND:
            answer.raise_for_status()


def connect(target: str) -> KubernetesApi:
    """Return a client for a URL or a kubeconfig path.

    Raises ValueError when the file cannot be used.
    """
    if target.startswith(("http://", "https://")):
        return KubernetesApi(httpx.AsyncClient(base_url=target, timeout=_TIMEOUT_SECONDS, trust_env=False))
    return KubernetesApi(open_async_client(Path(target).expanduser(), timeout_seconds=_TIMEOUT_SECONDS))


_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_POD_PATIENCE, _POD_POLL = 3.0, 0.1
_AT_ONCE = 8
_NOT_WORTH_RETRYING = (400, 403, 405, 422)


class Registrar:
    """Carries node events to a Kubernetes API."""

    def __init__(self, open_api: Callable[[], KubernetesApi]) -> None:
        self._open_api = open_api
        self._opened: KubernetesApi | None = None
        self._queues: dict[tuple[str, str], asyncio.Queue[Event]] = {}
        self._workers: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._limit = asyncio.Semaphore(_AT_ONCE)

    def note(self, event: Event) -> None:
        """Take an event of the model; those about nodes are queued for their pool."""
        if isinstance(event, (NodeUp, NodeChanged)):
            key = (event.node.cluster.path, event.node.pool)
        elif isinstance(event, (NodesDraining, NodesDown)):
            key = (event.cluster.path, event.pool)
        else:
            return
        self._queues.setdefault(key, asyncio.Queue()).put_nowait(event)
        if key not in self._workers:
            self._workers[key] = asyncio.get_running_loop().create_task(self._work(key))

    async def close(self) -> None:
        """Stop working and close the connections; what is queued is dropped."""
        workers = list(self._workers.values())
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        if self._opened is not None:
            await self._opened.close()

    @property
    def _api(self) -> KubernetesApi:
        """The API, opened when it is used first: it may start beside this process."""
        self._opened = self._opened or self._open_api()
        return self._opened

    async def settled(self) -> None:
        """Wait until everything that was noted has been carried out."""
        while self._workers:
            await asyncio.gather(*list(self._workers.values()))

    async def _work(self, key: tuple[str, str]) -> None:
        queue = self._queues[key]
        while not queue.empty():
            await self._until_done(queue.get_nowait(), key[1])
        del self._workers[key]
        del self._queues[key]

    async def _until_done(self, event: Event, pool: str) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._carry_out(event)
            except httpx.HTTPStatusError as error:
                status = error.response.status_code
                if status in _NOT_WORTH_RETRYING:
                    text = error.response.text[:500]
                    write_record("kubernetes refused", "ERROR", pool=pool, status=status, answer=text)
                    return
                write_record("kubernetes trouble, trying again", "WARNING", pool=pool, status=status)
            except httpx.HTTPError as error:
                write_record("kubernetes unreachable, trying again", "WARNING", pool=pool, error=repr(error))
            except (ValueError, KeyError, TypeError) as error:
                write_record("kubernetes answered nonsense, trying again", "WARNING", pool=pool, error=repr(error))
            else:
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _carry_out(self, event: Event) -> None:
        if isinstance(event, NodeUp):
            await self._register(event.node)
        elif isinstance(event, NodeChanged):
            await self._relabel(event)
        elif isinstance(event, NodesDraining):
            await asyncio.gather(*(self._drain(name) for name in event.names))
        elif isinstance(event, NodesDown):
            await asyncio.gather(*(self._remove(name) for name in event.names))
            write_record("nodes removed", pool=event.pool, nodes=event.names)

    async def _register(self, node: Node) -> None:
        manifest = {key: value for key, value in node.manifest.items() if key != "status"}
        await self._api.create_node(manifest)
        status = {**node.manifest["status"], "conditions": _conditions()}
        await self._api.patch_node(node.name, {"status": status}, "status")
        write_record("node registered", pool=node.pool, node=node.name)

    async def _relabel(self, event: NodeChanged) -> None:
        current = await self._api.node(event.node.name)
        if current is None:
            return
        labels = {**dict.fromkeys(event.labels_removed), **event.node.manifest["metadata"]["labels"]}
        foreign = [
            taint
            for taint in (current.get("spec") or {}).get("taints") or []
            if taint["key"].startswith("node.kubernetes.io/")
        ]
        taints = [*event.node.manifest["spec"]["taints"], *foreign]
        await self._api.patch_node(event.node.name, {"metadata": {"labels": labels}, "spec": {"taints": taints}})

    async def _drain(self, name: str) -> None:
        async with self._limit:
            await self._api.patch_node(name, {"spec": {"unschedulable": True}})
            for namespace, pod in await self._api.pods_on(name):
                await self._api.delete_pod(namespace, pod)
                write_record("pod deleted", node=name, namespace=namespace, pod=pod)

    async def _remove(self, name: str) -> None:
        async with self._limit:
            deadline = asyncio.get_running_loop().time() + _POD_PATIENCE
            while pods := await self._api.pods_on(name):
                if asyncio.get_running_loop().time() > deadline:
                    for namespace, pod in pods:
                        await self._api.delete_pod(namespace, pod, at_once=True)
                    break
                await asyncio.sleep(_POD_POLL)
            await self._api.delete_node(name)


def _conditions() -> list[dict[str, Any]]:
    now = datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
    }
    pressures = [
        {
            "type": f"{kind}Pressure",
            "status": "False",
            "reason": f"KubeletHas{good}",
            "message": f"kubelet has {good}",
        }
        for kind, good in (("Memory", "SufficientMemory"), ("Disk", "NoDiskPressure"), ("PID", "SufficientPID"))
    ]
    return [{**condition, **times} for condition in (*pressures, ready)]
