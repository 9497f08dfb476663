"""What the simulated kubelet has begun to say, it says to the end, whatever becomes of the pod meanwhile."""

from __future__ import annotations

import asyncio

import httpx

from local.kubelet.kubelet import Kubelet

POD = {
    "metadata": {
        "namespace": "default",
        "name": "train",
        "uid": "1",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {},
    },
    "spec": {"nodeName": "n", "containers": [{"name": "main"}]},
    "status": {"phase": "Failed"},
}


def test_a_delete_is_answered_even_if_the_pod_leaves_the_watch_before():
    began, answered = asyncio.Event(), []

    async def answer(request: httpx.Request) -> httpx.Response:
        began.set()
        await asyncio.sleep(0.05)
        answered.append(request.method)
        return httpx.Response(200, json={})

    async def live() -> None:
        client = httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://api")
        kubelet = Kubelet(client, speed=1_000, run_seconds=1)
        kubelet.see(POD, gone=False)
        await began.wait()
        kubelet.see(POD, gone=True)
        await asyncio.sleep(0.2)

    asyncio.run(live())

    assert answered == ["DELETE"]
