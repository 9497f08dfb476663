"""A namespace of a real control plane, with all of its nodes; nothing is left after the test.

The real controllers take seconds: the Job controller collects the changes of pods for one second,
the scheduler waits one second before it tries a pod again. So every look has a long time-out.
"""

import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import httpx

from standins.cluster.store.kinds import ACCOUNT, JOB, JOBSET, NAMESPACE, NODE, POD, SERVICE, Kind
from standins.cluster.tests.cluster_world import Change, Json, Refused, World, ours
from standins.processes.kubeconfig import open_client
from standins.processes.stand_ins import PATIENCE_SECONDS

QUIET_SECONDS = 1.6
"""Longer than any pause that a controller makes between two steps of one task."""
POLL_SECONDS = 0.05
STRATEGIC = "application/strategic-merge-patch+json"
WORKLOADS = (JOBSET, JOB, POD)
WATCHED = (*WORKLOADS, SERVICE, NODE)

_numbers = itertools.count()


class RealWorld(World):
    """A namespace of its own, used as a context manager."""

    def __init__(self, kubeconfig: Path) -> None:
        self.namespace = f"world-{next(_numbers)}"
        self._http = open_client(kubeconfig, timeout_seconds=60)

    def __enter__(self) -> Self:
        self._clear()
        self.create(NAMESPACE, {"metadata": {"name": self.namespace}})
        self.eventually(lambda: self.body(ACCOUNT, "default")["metadata"]["name"], "default")
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._clear()
            self.delete(NAMESPACE, self.namespace)
        finally:
            self._http.close()

    def create(self, kind: Kind, body: Json) -> Json:
        return dict(self._send("POST", self._path(kind), body).json())

    def replace(self, kind: Kind, body: Json) -> None:
        self._send("PUT", self._path(kind, body["metadata"]["name"]), body)

    def patch_status(self, kind: Kind, name: str, status: Json) -> None:
        self._send("PATCH", f"{self._path(kind, name)}/status", {"status": status}, content_type=STRATEGIC)

    def delete(
        self, kind: Kind, name: str, *, propagation: str | None = None, grace_seconds: int | None = None
    ) -> None:
        given = {"propagationPolicy": propagation, "gracePeriodSeconds": grace_seconds}
        options = {key: value for key, value in given.items() if value is not None}
        self._send("DELETE", self._path(kind, name), {"kind": "DeleteOptions", "apiVersion": "v1"} | options)

    def body(self, kind: Kind, name: str) -> Json:
        return dict(self._send("GET", self._path(kind, name)).json())

    def objects(self, kind: Kind) -> list[Json]:
        found = self._list(self._path(kind))["items"]
        return sorted(ours(found), key=lambda body: body["metadata"]["name"])

    def settle(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        last, since = self._versions(), time.monotonic()
        while time.monotonic() - since < QUIET_SECONDS:
            assert time.monotonic() < deadline, f"the cluster did not come to rest within {PATIENCE_SECONDS:g} s"
            time.sleep(POLL_SECONDS)
            found = self._versions()
            if found != last:
                last, since = found, time.monotonic()

    def proceed(self) -> None:
        pass  # They never stop.

    def eventually(self, look: Callable[[], object], wanted: object, *, within_seconds: float = 0.5) -> None:
        deadline = time.monotonic() + within_seconds + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                if look() == wanted:
                    return
            except (LookupError, TypeError, ValueError, StopIteration, Refused):
                pass  # Not there yet; when it never comes, the last look says so.
            time.sleep(POLL_SECONDS)
        self.check(look, wanted)

    def record(self, *kinds: Kind) -> Callable[[], list[Change]]:
        began = {kind: self._list(self._path(kind))["metadata"]["resourceVersion"] for kind in kinds}

        def read() -> list[Change]:
            changes = [change for kind in kinds for change in self._changes(kind, began[kind])]
            # One etcd counts the writes of all kinds.
            return sorted(changes, key=lambda change: change.version)

        return read

    def _changes(self, kind: Kind, version: str) -> list[Change]:
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "1"}
        changes = []
        with self._http.stream("GET", self._path(kind), params=query) as answer:
            for line in answer.iter_lines():
                event = json.loads(line)
                body, metadata = event["object"], event["object"]["metadata"]
                told = Change(event["type"], kind.kind, metadata["name"], body, int(metadata["resourceVersion"]))
                changes.append(told)
        return changes

    def _versions(self) -> list[str]:
        return [
            body["metadata"]["uid"] + body["metadata"]["resourceVersion"]
            for kind in WATCHED
            for body in self._list(self._path(kind))["items"]
        ]

    def _clear(self) -> None:
        """Remove every node and workload of earlier tests: they would take part in the next one."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while left := self._left():
            assert time.monotonic() < deadline, f"these do not go away: {left}"
            for kind, body in left:
                self._remove(kind, body)
            time.sleep(POLL_SECONDS)
        for node in self.objects(NODE):
            self.delete(NODE, node["metadata"]["name"])

    def _left(self) -> list[tuple[Kind, Json]]:
        everywhere = [(kind, body) for kind in WORKLOADS for body in self._list(_collection(kind))["items"]]
        return [(kind, body) for kind, body in everywhere if body["metadata"]["namespace"] != "kube-system"]

    def _remove(self, kind: Kind, body: Json) -> None:
        path = f"{_collection(kind, body['metadata']['namespace'])}/{body['metadata']['name']}"
        options = {"propagationPolicy": "Background", "gracePeriodSeconds": 0}
        try:
            self._send("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1"} | options)
            if body["metadata"].get("finalizers"):
                nothing = {"metadata": {"finalizers": None}}
                self._send("PATCH", path, nothing, content_type="application/merge-patch+json")
        except Refused as refusal:
            if refusal.code not in {404, 409}:
                raise

    def _list(self, path: str) -> Json:
        return dict(self._send("GET", path).json())

    def _path(self, kind: Kind, name: str = "") -> str:
        path = _collection(kind, self.namespace if kind.namespaced else "")
        return f"{path}/{name}" if name else path

    def _send(
        self, method: str, path: str, body: Json | None = None, *, content_type: str = "application/json"
    ) -> httpx.Response:
        content = None if body is None else json.dumps(body)
        answer = self._http.request(method, path, content=content, headers={"Content-Type": content_type})
        if answer.is_success:
            return answer
        status: Any = answer.json()
        raise Refused(status["code"], status.get("reason", ""), status.get("message", ""))


def _collection(kind: Kind, namespace: str = "") -> str:
    prefix = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    return f"{prefix}/namespaces/{namespace}/{kind.plural}" if namespace else f"{prefix}/{kind.plural}"
