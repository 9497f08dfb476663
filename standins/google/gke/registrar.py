"""Keeps the Node objects of a Kubernetes API in step with the model's nodes.

Works through the model's events pool by pool, in order, each until it succeeds: an API that is down
is tried again and logged, and never holds up the model. Uses nothing but the public Kubernetes API,
so that any API server will do.
"""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from standins.google.gke.nodes import Event, Node, NodesLeave, NodeUp
from standins.kit.kubernetes import open_async_client
from standins.kit.lifecycle import write_record

_TIMEOUT_SECONDS = 10.0
_MERGE = {"Content-Type": "application/merge-patch+json"}
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_POD_PATIENCE, _POD_POLL = 3.0, 0.2
_AT_ONCE = 8
_NOT_WORTH_RETRYING = (400, 403, 405, 422)
_NODES = "/api/v1/nodes"


class Registrar:
    """Carries node events to a Kubernetes API, which is opened when it is used first."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._opened: httpx.AsyncClient | None = None
        self._queues: dict[tuple[str, str], asyncio.Queue[Event]] = {}
        self._workers: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._limit = asyncio.Semaphore(_AT_ONCE)

    def note(self, event: Event) -> None:
        """Take an event of the model; those about nodes are queued for their pool."""
        if not isinstance(event, NodeUp | NodesLeave):
            return
        of = event.node if isinstance(event, NodeUp) else event
        key = (of.cluster.path, of.pool)
        self._queues.setdefault(key, asyncio.Queue()).put_nowait(event)
        if key not in self._workers:
            self._workers[key] = asyncio.create_task(self._work(key))

    async def close(self) -> None:
        """Stop all work and close the connections."""
        workers = list(self._workers.values())
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        if self._opened is not None:
            await self._opened.aclose()

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
                status, text = error.response.status_code, error.response.text[:500]
                if status in _NOT_WORTH_RETRYING:
                    write_record("kubernetes refused", "ERROR", pool=pool, status=status, answer=text)
                    return
                write_record("kubernetes trouble, trying again", "WARNING", pool=pool, status=status)
            except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
                write_record("kubernetes unreachable, trying again", "WARNING", pool=pool, error=repr(error))
            else:
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _carry_out(self, event: Event) -> None:
        if isinstance(event, NodeUp):
            await self._register(event.node)
        elif isinstance(event, NodesLeave):
            step = self._remove if event.gone else self._drain
            await asyncio.gather(*map(step, event.names))
            write_record("nodes removed" if event.gone else "nodes drained", pool=event.pool, nodes=event.names)

    async def _call(self, verb: str, path: str, **options: Any) -> httpx.Response:
        """Return the answer to a call; what is gone, or there already, is fine."""
        self._opened = self._opened or open_async_client(self._kubeconfig, timeout_seconds=_TIMEOUT_SECONDS)
        async with self._limit:  # and not while pods are waited for: other pools are to be cordoned
            answer = await self._opened.request(verb, path, **options)
        if answer.status_code not in (httpx.codes.NOT_FOUND, httpx.codes.CONFLICT):
            answer.raise_for_status()
        return answer

    async def _patch(self, path: str, patch: dict[str, Any]) -> None:
        await self._call("PATCH", f"{_NODES}/{path}", json=patch, headers=_MERGE)

    async def _register(self, node: Node) -> None:
        """Create a Node; one that exists already is brought in line."""
        manifest = {key: value for key, value in node.manifest.items() if key != "status"}
        created = await self._call("POST", _NODES, json=manifest)
        if created.status_code == httpx.codes.CONFLICT:
            labels = manifest["metadata"]["labels"]
            await self._patch(node.name, {"metadata": {"labels": labels}, "spec": manifest["spec"]})
        status = {**node.manifest["status"], "conditions": _list_conditions()}
        await self._patch(f"{node.name}/status", {"status": status})
        write_record("node registered", pool=node.pool, node=node.name)

    async def _drain(self, node: str) -> None:
        await self._patch(node, {"spec": {"unschedulable": True}})
        await self._delete_pods(node)

    async def _remove(self, node: str) -> None:
        deadline = asyncio.get_running_loop().time() + _POD_PATIENCE
        while await self._list_pods(node):
            if asyncio.get_running_loop().time() > deadline:
                await self._delete_pods(node, gracePeriodSeconds="0")
                break
            await asyncio.sleep(_POD_POLL)
        await self._call("DELETE", f"{_NODES}/{node}")

    async def _list_pods(self, node: str) -> list[str]:
        """Return the path of every pod that is bound to a node."""
        answer = await self._call("GET", "/api/v1/pods", params={"fieldSelector": f"spec.nodeName={node}"})
        pods = [pod["metadata"] for pod in answer.json()["items"]]
        return [f"/api/v1/namespaces/{pod['namespace']}/pods/{pod['name']}" for pod in pods]

    async def _delete_pods(self, node: str, **parameters: str) -> None:
        for path in await self._list_pods(node):
            await self._call("DELETE", path, params=parameters)
            write_record("pod deleted", node=node, pod=path)


def _list_conditions() -> list[dict[str, str]]:
    now = datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    rows = (
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has SufficientMemory"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has NoDiskPressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has SufficientPID"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    )
    names = ("type", "status", "reason", "message")
    return [{**dict(zip(names, row, strict=True)), **times} for row in rows]
