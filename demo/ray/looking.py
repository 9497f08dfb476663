"""Looks at a running stack from outside: Kubernetes and GKE by API, other parts by log."""

import time
from pathlib import Path
from typing import Any, Self

import httpx

from demo.loop.log_records import parse_line, read_exporter_record, read_function_record
from demo.loop.observations import Called, Decided, MessagePublished
from demo.ray.ray_manifests import NAMESPACE, PATH
from demo.ray.run_log import Look
from demo.stack.layout import FUNCTIONS
from demo.stack.stack import Stack
from standins.processes.kubeconfig import open_client

Json = dict[str, Any]

_ANSWER_SECONDS_MAX = 60.0


class LineReader:
    """Reads a growing file line by line; a line counts once it is whole."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0

    def read(self) -> list[str]:
        """Return the lines since the last call."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as stream:
            stream.seek(self._offset)
            whole, newline, _rest = stream.read().rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        return whole.decode("utf-8", "replace").split("\n") if whole else []


class Looker:
    """Looks at one stack; used as a context manager. It changes nothing."""

    def __init__(self, stack: Stack, driver_log: Path) -> None:
        addresses = stack.addresses
        self._kubernetes = open_client(addresses.kubeconfig, timeout_seconds=_ANSWER_SECONDS_MAX)
        self._gke = httpx.Client(base_url=addresses.gke_rest, timeout=_ANSWER_SECONDS_MAX)
        self._logs = {name: LineReader(stack.layout.log(name)) for name in ("exporter", *FUNCTIONS)}
        self._driver = LineReader(driver_log)
        self._calls_told = 0

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
            pools={str(each["pool"]): str(each["status"]) for each in self._admin("pools")},
            records=[*self._records(), *self._calls()],
            driver=[record for line in self._driver.read() if (record := parse_line(line)) and "step" in record],
        )

    def _items(self, path: str) -> list[Json]:
        return list(self._kubernetes.get(path).raise_for_status().json()["items"])

    def _admin(self, what: str) -> list[Json]:
        return list(self._gke.get(f"/admin/{what}").raise_for_status().json()[what])

    def _calls(self) -> list[Called]:
        calls = self._admin("calls")
        new, self._calls_told = calls[self._calls_told :], len(calls)
        return [
            Called(at=float(each["at"]), method=each["method"], pool=each["pool"], code=str(each["code"]))
            for each in new
        ]

    def _records(self) -> list[Decided | MessagePublished]:
        found: list[Decided | MessagePublished] = []
        for name, log in self._logs.items():
            read = read_exporter_record if name == "exporter" else read_function_record
            records = [record for line in log.read() if (record := parse_line(line))]
            found += [seen for record in records if (seen := read(record, time.time())) is not None]
        return found
