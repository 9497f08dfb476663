"""The kubelet's loop: one task for each bound pod, started and stopped by what the watch says."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from datetime import UTC, datetime
from typing import Any

import httpx

from standins.kit.lifecycle import write_record
from standins.kubelet.statuses import SIGTERM_EXIT_CODE, Json, Plan, crashed, ended, plan_for, running

_START_SECONDS = 2.0
_CRASH_BACKOFF_SECONDS, _CRASH_BACKOFF_SECONDS_MAX = 10.0, 300.0
_RETRY_REAL_SECONDS = 0.5
_JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
_STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
_NOT_FOUND, _CONFLICT, _SERVER_ERRORS = 404, 409, 500
_PODS = "/api/v1/pods"
_BOUND = {"fieldSelector": "spec.nodeName!="}
_WATCH_SECONDS = 300


class PodWatch:
    """Follows all bound pods through restarts of the watch, of the server and of its history."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._latest: dict[str, Json] = {}

    async def pods(self) -> AsyncIterator[tuple[Json, bool]]:
        """Yield each new state of a pod, and whether the pod is gone."""
        while True:
            try:
                # Never from where the last watch was: another history may answer now, as after a
                # restored backup, and a watch from a version that it has not reached yet would be
                # kept open and silent.
                answer = (await self._client.get(_PODS, params=_BOUND)).raise_for_status().json()
                for change in self._compare({pod["metadata"]["uid"]: pod for pod in answer["items"]}):
                    yield change
                async for event, pod in self._watch(answer["metadata"]["resourceVersion"]):
                    self._latest[pod["metadata"]["uid"]] = pod
                    if event == "DELETED":
                        del self._latest[pod["metadata"]["uid"]]
                    yield pod, event == "DELETED"
            except (httpx.HTTPError, ValueError) as error:
                write_record("watch broke off, listing again", error=repr(error))
                await asyncio.sleep(_RETRY_REAL_SECONDS)

    def _compare(self, listed: dict[str, Json]) -> list[tuple[Json, bool]]:
        """Return what is new; a pod that was set back to an older version goes and comes again."""
        gone = [
            (pod, True)
            for uid, pod in self._latest.items()
            if uid not in listed or _version_of(listed[uid]) < _version_of(pod)
        ]
        self._latest = listed
        return gone + [(pod, False) for pod in listed.values()]

    async def _watch(self, version: str) -> AsyncIterator[tuple[str, Json]]:
        query = _BOUND | {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        timeout = httpx.Timeout(30.0, read=_WATCH_SECONDS + 30)
        async with self._client.stream("GET", _PODS, params=query, timeout=timeout) as answer:
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise ValueError(f"watch error: {event['object']}")
                if event["type"] != "BOOKMARK":
                    yield event["type"], event["object"]


def _version_of(pod: Json) -> int:
    return int(pod["metadata"]["resourceVersion"])


class Kubelet:
    """Runs the pods of all nodes, `run_seconds` long unless a pod says otherwise.

    `speed` is virtual seconds per real second.
    """

    def __init__(self, client: httpx.AsyncClient, *, speed: float, run_seconds: float) -> None:
        self._client = client
        self._speed = speed
        self._run_seconds = run_seconds
        self._latest: dict[str, Json] = {}
        self._changed = asyncio.Event()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._stopping: dict[str, asyncio.Task[None]] = {}
        self._sending: set[asyncio.Task[httpx.Response]] = set()

    async def run(self, watch: PodWatch) -> None:
        """Follow the watch until cancelled, then stop all tasks."""
        try:
            async for pod, gone in watch.pods():
                self.see(pod, gone=gone)
        finally:
            for tasks in ([*self._running.values(), *self._stopping.values()], tuple(self._sending)):
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def see(self, pod: Json, *, gone: bool) -> None:
        """Begin, go on with or stop a pod, as its latest state says."""
        uid = pod["metadata"]["uid"]
        self._latest[uid] = pod
        if gone:
            del self._latest[uid]
            self._cancel(self._running, uid)
            self._cancel(self._stopping, uid)
        elif pod["metadata"].get("deletionTimestamp"):
            life = self._cancel(self._running, uid)
            if uid not in self._stopping:
                self._begin(self._stopping, uid, self._stop(pod, life))
        elif uid not in self._running and pod.get("status", {}).get("phase") in {"Pending", "Running", None}:
            self._begin(self._running, uid, self._live(pod))
        self._changed.set()  # whoever waits looks again, and then waits for the next one
        self._changed = asyncio.Event()

    def _begin(self, tasks: dict[str, asyncio.Task[None]], uid: str, life: Coroutine[Any, Any, None]) -> None:
        tasks[uid] = asyncio.create_task(life)
        tasks[uid].add_done_callback(_report_failure)

    def _cancel(self, tasks: dict[str, asyncio.Task[None]], uid: str) -> asyncio.Task[None] | None:
        task = tasks.pop(uid, None)
        if task is not None:
            task.cancel()
        return task

    def _plan(self, pod: Json) -> Plan:
        try:
            return plan_for(pod, run_seconds=self._run_seconds)
        except ValueError as error:
            write_record("pod annotation ignored", "WARNING", pod=_name(pod), error=str(error))
            plain = pod | {"metadata": pod["metadata"] | {"annotations": {}}}
            return plan_for(plain, run_seconds=self._run_seconds)

    async def _live(self, pod: Json) -> None:
        plan = self._plan(pod)
        restarts = 0
        if pod.get("status", {}).get("phase") != "Running":
            await self._sleep(_START_SECONDS)
            await self._write(pod, running(pod, _now()))
        while self._count_running(pod) < plan.pods_together:
            await self._changed.wait()
        while True:
            await self._sleep(plan.run_seconds)
            exit_code = plan.exit_code_of(restarts)
            if not plan.restarts_in_place(restarts):
                break
            restarts += 1
            await self._write(pod, crashed(pod, _now(), exit_code=exit_code, restarts=restarts))
            await self._sleep(min(_CRASH_BACKOFF_SECONDS_MAX, _CRASH_BACKOFF_SECONDS * 2 ** (restarts - 1)))
            await self._write(pod, running(pod, _now(), restarts=restarts))
        if await self._node_is_gone(pod):
            write_record("pod lost with its node", pod=_name(pod), node=pod["spec"]["nodeName"])
            return
        await self._write(pod, ended(pod, _now(), exit_code=exit_code, restarts=restarts))

    def _count_running(self, pod: Json) -> int:
        """Return how many pods of a pod's JobSet run now or have run to their end."""
        return sum(
            _jobset_of(each) == _jobset_of(pod)
            and each.get("status", {}).get("phase") in {"Running", "Succeeded"}
            and not each["metadata"].get("deletionTimestamp")
            for each in self._latest.values()
        )

    async def _node_is_gone(self, pod: Json) -> bool:
        """Return whether the node no longer exists.

        Then nobody is left to report how the pod ended.
        """
        try:
            answer = await self._request("GET", f"/api/v1/nodes/{pod['spec']['nodeName']}")
        except httpx.TransportError:
            return False
        return answer.status_code == _NOT_FOUND

    async def _stop(self, pod: Json, life: asyncio.Task[None] | None) -> None:
        if life is not None:
            await asyncio.wait({life})
        await self._sleep(self._plan(pod).grace_seconds)
        if pod.get("status", {}).get("phase") not in {"Succeeded", "Failed"}:
            await self._write(pod, ended(pod, _now(), exit_code=SIGTERM_EXIT_CODE))
        uid = pod["metadata"]["uid"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        await self._send("DELETE", _path(pod), options, {"Content-Type": "application/json"})
        write_record("pod stopped", pod=_name(pod), uid=uid)

    async def _write(self, pod: Json, patch: Json) -> None:
        patch["metadata"] = {"uid": pod["metadata"]["uid"]}
        await self._send("PATCH", f"{_path(pod)}/status", patch, _STRATEGIC)
        write_record("pod state", pod=_name(pod), phase=patch["status"]["phase"], uid=pod["metadata"]["uid"])

    async def _send(self, method: str, path: str, body: Json, headers: dict[str, str]) -> None:
        """Send until the server takes it; a pod that is gone or replaced needs nothing more."""
        while True:
            try:
                answer = await self._request(method, path, content=json.dumps(body), headers=headers)
            except httpx.TransportError as error:
                write_record("server not reached, trying again", "WARNING", path=path, error=repr(error))
            else:
                if answer.status_code in {_NOT_FOUND, _CONFLICT} or answer.is_success:
                    return
                write_record(
                    "server refused", "WARNING", path=path, code=answer.status_code, answer=answer.text[:500]
                )
                if answer.status_code < _SERVER_ERRORS:
                    return
            await asyncio.sleep(_RETRY_REAL_SECONDS)

    async def _request(self, method: str, path: str, **what: Any) -> httpx.Response:
        """Send one request, to its end even if the pod's task is cancelled meanwhile.

        A deleted pod often leaves the watch before the delete is answered. Requests that are cut
        off then would take their connections with them: the client's pool counts them as in use for
        ever.
        """
        sending = asyncio.create_task(self._client.request(method, path, **what))
        self._sending.add(sending)
        sending.add_done_callback(self._forget)
        return await asyncio.shield(sending)

    def _forget(self, sending: asyncio.Task[httpx.Response]) -> None:
        self._sending.discard(sending)
        if not sending.cancelled():
            sending.exception()  # whoever still waits gets it; of a pod that is gone nobody wants to know

    async def _sleep(self, virtual_seconds: float) -> None:
        await asyncio.sleep(virtual_seconds / self._speed)


def _report_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        write_record("pod task failed", "ERROR", error=repr(error))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _name(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _jobset_of(pod: Json) -> tuple[str, str]:
    found = pod["metadata"].get("labels") or {}
    return pod["metadata"]["namespace"], found.get(_JOBSET_NAME, "")


def _path(pod: Json) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
