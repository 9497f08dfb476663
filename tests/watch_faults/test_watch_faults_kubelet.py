"""The simulated kubelet's own watch: it follows the cluster, even to a state that is older."""

import asyncio
import json
from collections import deque
from typing import Any

import httpx
import pytest

from standins.kubelet.watching import PodWatch
from standins.processes.stand_ins import PATIENCE_SECONDS

Json = dict[str, Any]


def pod(uid: str, version: int) -> Json:
    return {"metadata": {"uid": uid, "resourceVersion": str(version)}}


def listing(version: int, *pods: Json) -> Json:
    return {"metadata": {"resourceVersion": str(version)}, "items": list(pods)}


class Api:
    """Answers lists in turn; every watch shows one event and then ends as it is told to."""

    def __init__(self, *lists: Json, event: Json, broken: bool) -> None:
        self.lists, self.event, self.broken = deque(lists), event, broken

    def answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.params.get("watch") != "true":
            return httpx.Response(200, json=self.lists.popleft())
        lines = [json.dumps({"type": "MODIFIED", "object": self.event})]
        if self.broken:
            lines.append('{"type": "MODI')
        return httpx.Response(200, text="\n".join(lines))


async def take(api: Api, count: int) -> list[tuple[str, bool]]:
    """Return the first changes: whose, and whether that pod is gone."""
    client = httpx.AsyncClient(base_url="http://kubernetes", transport=httpx.MockTransport(api.answer))
    seen: list[tuple[str, bool]] = []
    async with client:
        async for found, gone in PodWatch(client).pods():
            seen.append((found["metadata"]["uid"], gone))
            if len(seen) == count:
                return seen
    return seen


@pytest.mark.parametrize("broken", [False, True], ids=["ended", "broken"])
def test_a_pod_that_was_set_back_goes_and_comes_again_and_a_lost_one_goes(broken: bool) -> None:
    api = Api(
        listing(11, pod("kept", 10), pod("lost", 11)),
        listing(8, pod("kept", 8)),
        event=pod("kept", 12),
        broken=broken,
    )

    seen = asyncio.run(asyncio.wait_for(take(api, 6), PATIENCE_SECONDS))

    assert seen[:3] == [("kept", False), ("lost", False), ("kept", False)]
    assert seen[3:] == [("kept", True), ("lost", True), ("kept", False)]
