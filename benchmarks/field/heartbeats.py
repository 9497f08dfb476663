"""Reports the status of accelerator nodes as kubelets do: unchanged, once in five minutes.

The simulated kubelet writes no such reports. The Go TPU Provisioner looks at a pool when one of its
nodes changes, so it would never delete a pool without them.
"""

import random
import threading
import time
from datetime import UTC, datetime
from typing import Any, Self

import httpx

from standins.processes.kubeconfig import open_client

PERIOD_SECONDS = 300.0
"""https://kubernetes.io/docs/reference/node/node-status/#heartbeats."""
_LOOK_SECONDS = 2.0


class Heartbeats:
    """Reports for every accelerator node, each at its own time, while its ``with`` block runs."""

    def __init__(self, kubeconfig: str) -> None:
        self._client = open_client(kubeconfig, timeout_seconds=30.0)
        self._due: dict[str, float] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_SECONDS):
            try:
                self._look()
            except httpx.HTTPError:
                continue

    def _look(self) -> None:
        selector = {"labelSelector": "cloud.google.com/gke-tpu-accelerator"}
        nodes = self._client.get("/api/v1/nodes", params=selector).raise_for_status().json()["items"]
        now = time.time()
        for node in nodes:
            name = node["metadata"]["name"]
            # Of the name alone, so that both sides get the same.
            first = now + random.Random(name).uniform(0, PERIOD_SECONDS)
            if self._due.setdefault(name, first) <= now:
                self._due[name] = now + PERIOD_SECONDS
                self._client.patch(
                    f"/api/v1/nodes/{name}/status",
                    json=build_report(node, now),
                    headers={"Content-Type": "application/merge-patch+json"},
                )


def build_report(node: dict[str, Any], now: float) -> dict[str, Any]:
    """Return the patch of a node's status that changes nothing but the times of its reports."""
    at = datetime.fromtimestamp(now, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = node.get("status", {}).get("conditions") or []
    return {"status": {"conditions": [{**each, "lastHeartbeatTime": at} for each in conditions]}}
