"""The bound pods of the cluster as an endless stream.

List, watch, and list again however the watch ended.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx

from standins.kit.lifecycle import write_record

Json = dict[str, Any]

_PATH = "/api/v1/pods"
_BOUND = "spec.nodeName!="
_WATCH_SECONDS = 300
_READ_TIMEOUT_SECONDS = _WATCH_SECONDS + 30
_PAGE = 500
_RETRY_SECONDS = 0.3
_GONE = 410


class LostPlaceError(Exception):
    """The resource version is too old: only a new list helps."""


class PodWatch:
    """Follows all bound pods through restarts of the watch, of the server and of its history."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._known: dict[str, Json] = {}

    async def pods(self) -> AsyncIterator[tuple[Json, bool]]:
        """Yield each new state of a pod, and whether the pod is gone."""
        while True:
            try:
                # Never from where the last watch was: another history may answer now, as after a
                # restored backup, and a watch from a version that it has not reached yet would be
                # kept open and silent.
                found, version = await self._list()
                for change in self._compare(found):
                    yield change
                async for event, pod in self._watch(version):
                    if event != "BOOKMARK":
                        yield self._note(event, pod)
            except LostPlaceError as error:
                write_record("watch lost its place, listing again", error=repr(error))
            except (httpx.HTTPError, ValueError) as error:
                write_record("watch broke off, listing again", error=repr(error))
                await asyncio.sleep(_RETRY_SECONDS)

    async def _list(self) -> tuple[dict[str, Json], str]:
        found: dict[str, Json] = {}
        query: dict[str, str | int] = {"fieldSelector": _BOUND, "limit": _PAGE}
        while True:
            answer = await self._client.get(_PATH, params=query)
            if answer.status_code == _GONE:
                raise LostPlaceError(answer.text)
            answer.raise_for_status()
            page = answer.json()
            found.update({pod["metadata"]["uid"]: pod for pod in page["items"]})
            if not page["metadata"].get("continue"):
                return found, page["metadata"]["resourceVersion"]
            query["continue"] = page["metadata"]["continue"]

    def _compare(self, found: dict[str, Json]) -> list[tuple[Json, bool]]:
        """Return what is new; a pod that was set back to an older version goes and comes again."""
        changes = [
            (pod, True)
            for uid, pod in self._known.items()
            if uid not in found or _version_of(found[uid]) < _version_of(pod)
        ]
        changes += [(pod, False) for pod in found.values()]
        self._known = found
        return changes

    def _note(self, event: str, pod: Json) -> tuple[Json, bool]:
        uid = pod["metadata"]["uid"]
        if event == "DELETED":
            self._known.pop(uid, None)
            return pod, True
        self._known[uid] = pod
        return pod, False

    async def _watch(self, version: str) -> AsyncIterator[tuple[str, Json]]:
        query: dict[str, str | int] = {
            "watch": "true",
            "fieldSelector": _BOUND,
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": _WATCH_SECONDS,
        }
        timeout = httpx.Timeout(30.0, read=_READ_TIMEOUT_SECONDS)
        async with self._client.stream("GET", _PATH, params=query, timeout=timeout) as answer:
            if answer.status_code == _GONE:
                raise LostPlaceError("410 as HTTP status")
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    if event["object"].get("code") == _GONE:
                        raise LostPlaceError(event["object"].get("message", ""))
                    raise ValueError(f"watch error: {event['object']}")
                yield event["type"], event["object"]


def _version_of(pod: Json) -> int:
    return int(pod["metadata"]["resourceVersion"])
