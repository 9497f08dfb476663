"""The kubelet's loop: one task for each bound pod, started and stopped by what the watch says."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import httpx

from local.kubelet.plan import Plan, PlanError, plan_for
from local.kubelet.statuses import SIGTERM_EXIT_CODE, crashed, ended, running

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from local.kubelet.watching import PodWatch

Json = dict[str, Any]

_START_SECONDS = 2.0
_CRASH_BACKOFF_SECONDS = 10.0
_MAX_CRASH_BACKOFF_SECONDS = 300.0
_RETRY_REAL_SECONDS = 0.5
_STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
_NOT_FOUND, _CONFLICT, _SERVER_ERRORS = 404, 409, 500


def log(message: str, severity: str = "INFO", **fields: Any) -> None:
    """Write one log record as a line of JSON."""
    record = {"severity": severity, "message": message, "time": datetime.now(UTC).isoformat()} | fields
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


class Kubelet:
    """Runs the pods of all nodes."""

    def __init__(self, client: httpx.AsyncClient, *, speed: float, run_seconds: float) -> None:
        if speed <= 0:
            raise ValueError(f"speed: {speed} is not valid; it must be more than 0")
        self._client = client
        self._speed = speed
        self._run_seconds = run_seconds
        self._running: dict[str, asyncio.Task[None]] = {}
        self._stopping: dict[str, asyncio.Task[None]] = {}

    async def run(self, watch: PodWatch) -> None:
        """Follow the watch until cancelled, then stop all tasks."""
        try:
            async for pod, gone in watch.pods():
                self.see(pod, gone=gone)
        finally:
            tasks = [*self._running.values(), *self._stopping.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def see(self, pod: Json, *, gone: bool) -> None:
        """Begin, go on with or stop a pod, as its latest state says."""
        uid = pod["metadata"]["uid"]
        if gone:
            self._cancel(self._running, uid)
            self._cancel(self._stopping, uid)
        elif pod["metadata"].get("deletionTimestamp"):
            self._cancel(self._running, uid)
            if uid not in self._stopping:
                self._begin(self._stopping, uid, self._stop(pod))
        elif uid not in self._running and pod.get("status", {}).get("phase") in {"Pending", "Running", None}:
            self._begin(self._running, uid, self._live(pod))

    def _begin(self, tasks: dict[str, asyncio.Task[None]], uid: str, life: Coroutine[Any, Any, None]) -> None:
        tasks[uid] = asyncio.create_task(life)
        tasks[uid].add_done_callback(_report_failure)

    def _cancel(self, tasks: dict[str, asyncio.Task[None]], uid: str) -> None:
        task = tasks.pop(uid, None)
        if task is not None:
            task.cancel()

    def _plan(self, pod: Json) -> Plan:
        try:
            return plan_for(pod, run_seconds=self._run_seconds)
        except PlanError as error:
            log("pod annotation ignored", "WARNING", pod=_name(pod), error=str(error))
            return plan_for(
                pod | {"metadata": pod["metadata"] | {"annotations": {}}}, run_seconds=self._run_seconds
            )

    async def _live(self, pod: Json) -> None:
        plan = self._plan(pod)
        restarts = 0
        if pod.get("status", {}).get("phase") != "Running":
            await self._sleep(_START_SECONDS)
            await self._write(pod, running(pod, _now()))
        while True:
            await self._sleep(plan.run_seconds)
            exit_code = plan.exit_code_of(restarts)
            if not plan.restarts_in_place(restarts):
                break
            restarts += 1
            await self._write(pod, crashed(pod, _now(), exit_code=exit_code, restarts=restarts))
            await self._sleep(min(_MAX_CRASH_BACKOFF_SECONDS, _CRASH_BACKOFF_SECONDS * 2 ** (restarts - 1)))
            await self._write(pod, running(pod, _now(), restarts=restarts))
        if await self._node_is_gone(pod):
            log("pod lost with its node", pod=_name(pod), node=pod["spec"]["nodeName"])
            return
        await self._write(pod, ended(pod, _now(), exit_code=exit_code, restarts=restarts))

    async def _node_is_gone(self, pod: Json) -> bool:
        """Return whether the node no longer exists: then nobody is left to report how the pod ended."""
        try:
            answer = await self._client.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")
        except httpx.TransportError:
            return False
        return answer.status_code == _NOT_FOUND

    async def _stop(self, pod: Json) -> None:
        await self._sleep(self._plan(pod).grace_seconds)
        if pod.get("status", {}).get("phase") not in {"Succeeded", "Failed"}:
            await self._write(pod, ended(pod, _now(), exit_code=SIGTERM_EXIT_CODE))
        uid = pod["metadata"]["uid"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        await self._send("DELETE", _path(pod), options, {"Content-Type": "application/json"})
        log("pod stopped", pod=_name(pod), uid=uid)

    async def _write(self, pod: Json, patch: Json) -> None:
        patch["metadata"] = {"uid": pod["metadata"]["uid"]}
        await self._send("PATCH", f"{_path(pod)}/status", patch, _STRATEGIC)
        log("pod state", pod=_name(pod), phase=patch["status"]["phase"], uid=pod["metadata"]["uid"])

    async def _send(self, method: str, path: str, body: Json, headers: dict[str, str]) -> None:
        """Send until the server takes it; a pod that is gone or replaced needs nothing more."""
        while True:
            try:
                answer = await self._client.request(method, path, content=json.dumps(body), headers=headers)
            except httpx.TransportError as error:
                log("server not reached, trying again", "WARNING", path=path, error=repr(error))
            else:
                if answer.status_code in {_NOT_FOUND, _CONFLICT} or answer.is_success:
                    return
                log("server refused", "WARNING", path=path, code=answer.status_code, answer=answer.text[:500])
                if answer.status_code < _SERVER_ERRORS:
                    return
            await asyncio.sleep(_RETRY_REAL_SECONDS)

    async def _sleep(self, virtual_seconds: float) -> None:
        await asyncio.sleep(virtual_seconds / self._speed)


def _report_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log("pod task failed", "ERROR", error=repr(error))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _name(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _path(pod: Json) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
