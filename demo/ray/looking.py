"""Looks at a running stack from outside: Kubernetes and GKE by API, other parts by log."""

import time
from pathlib import Path
from typing import Any, Self

import httpx

from demo.loop.growing_logs import CallLog, LineReader, RecordLog
from demo.loop.log_records import parse_line
from demo.ray.ray_manifests import NAMESPACE, PATH
from demo.ray.run_log import Look
from demo.stack.layout import FUNCTIONS
from demo.stack.stack import Stack
from standins.processes.kubeconfig import open_client

Json = dict[str, Any]

_ANSWER_SECONDS_MAX = 60.0


class Looker:
    """Looks at one stack; used as a context manager. It changes nothing."""

    def __init__(self, stack: Stack, driver_log: Path) -> None:
        addresses = stack.addresses
        self._kubernetes = open_client(addresses.kubeconfig, timeout_seconds=_ANSWER_SECONDS_MAX)
        self._gke = httpx.Client(base_url=addresses.gke_rest, timeout=_ANSWER_SECONDS_MAX)
        self._calls = CallLog(self._gke)
        self._logs = [RecordLog(stack.layout.log(name), name) for name in ("exporter", *FUNCTIONS)]
        self._driver = LineReader(driver_log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._kubernetes.close()
        self._gke.close()

    def look(self) -> Look:
        """Return everything as it is now.

        Raises httpx.HTTPError: one of the APIs did not answer.
        """
        return Look(
            at=time.time(),
            clusters=self._items(PATH),
            pods=self._items(f"/api/v1/namespaces/{NAMESPACE}/pods"),
            nodes=self._items("/api/v1/nodes"),
            pools=self._read_pools(),
            records=[*(record for log in self._logs for record in log.read()), *self._calls.read()],
            driver=[record for line in self._driver.read() if (record := parse_line(line)) and "step" in record],
        )

    def _items(self, path: str) -> list[Json]:
        return list(self._kubernetes.get(path).raise_for_status().json()["items"])

    def _read_pools(self) -> dict[str, str]:
        found = self._gke.get("/admin/pools").raise_for_status().json()["pools"]
        return {str(each["pool"]): str(each["status"]) for each in found}
