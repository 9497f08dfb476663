"""One workload of any kind in a namespace of its own, for scenarios that live it through the whole loop.

What lives here: looking and bounded waiting. Bodies and what happens to them are in the scenarios.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.lives.cloud import wait_for
from tests.lives.jobset_bodies import LIFE

if TYPE_CHECKING:
    from tests.lives.cloud import Cloud

Json = dict[str, Any]
LONG = 36_000
"""Virtual seconds: until somebody ends the pods."""
CALLS_PER_SLICE_MAX = 8
"""As for the slice of any other kind: docs/lives.md."""
POOL = "cloud.google.com/gke-nodepool"


class Life:
    """One workload; its pools are told from others' by its name.

    Args:
        cloud: The running stack.
        name: Of the workload, unlike that of any other life on the stack.
        resource: The path of its kind without namespace: ``apis/GROUP/VERSION/PLURAL``.
    """

    def __init__(self, cloud: Cloud, name: str, resource: str) -> None:
        self.cloud, self.name, self.namespace = cloud, name, f"life-{name}"
        self._root, _, self._plural = resource.rpartition("/")
        cloud.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        if cloud.is_real:  # without its account a namespace can have no pods
            account = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default"
            wait_for("the namespace's default account", lambda: cloud.get(account))

    @property
    def folder(self) -> str:
        return f"/{self._root}/namespaces/{self.namespace}/{self._plural}"

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}"

    def create(self, body: Json) -> Json:
        return self.cloud.create(self.folder, body)

    def end(self) -> None:
        """Delete the workload, and return once it has neither pools nor nodes."""
        self.cloud.delete(self.path)
        self.wait_nothing_left()

    def wait_running(self, count: int) -> list[Json]:
        return wait_for(f"{self.name}: {count} running pods", lambda: self._running(count))

    def wait_pools(self, count: int) -> list[str]:
        wait_for(f"{self.name}: {count} pools", lambda: len(self.pools()) == count)
        return self.pools()

    def wait_nothing_left(self) -> None:
        """Return once the workload has neither pools nor nodes."""
        wait_for(f"{self.name}: no pools", lambda: not self.pools())
        nodes = {"labelSelector": f"{LIFE}={self.name}"}
        wait_for(f"{self.name}: no nodes", lambda: not self.cloud.items("/api/v1/nodes", **nodes))

    def pods(self) -> list[Json]:
        return self.cloud.items(f"/api/v1/namespaces/{self.namespace}/pods")

    def conditions(self) -> set[str]:
        found = (self.cloud.get(self.path) or {}).get("status", {}).get("conditions", ())
        return {each["type"] for each in found if each["status"] == "True"}

    def pools(self) -> list[str]:
        return sorted(name for name in self.cloud.pools() if name.startswith(f"{self.name}-"))

    def slices(self) -> list[str]:
        """The slices that pools were made for, by the beginnings of their names."""
        return [name.rsplit("-", 2)[0] for name in self.pools()]

    def pool_of(self, pod: Json) -> str:
        node = self.cloud.get(f"/api/v1/nodes/{pod['spec']['nodeName']}") or {}
        return str(node["metadata"]["labels"].get(POOL, ""))

    def refusals(self) -> list[Json]:
        found = self.cloud.items(f"/api/v1/namespaces/{self.namespace}/events")
        return [each for each in found if each["reason"] == "NodePoolRefused"]

    def calls(self, method: str = "") -> list[Json]:
        mine = [each for each in self.cloud.calls() if each["pool"].startswith(f"{self.name}-")]
        return [each for each in mine if method in ("", each["method"])]

    def accepted(self, method: str) -> int:
        return sum(each["code"] == "OK" for each in self.calls(method))

    def _running(self, count: int) -> list[Json]:
        found = [
            pod
            for pod in self.pods()
            if pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
        ]
        return found if len(found) == count else []
