"""One workload of any kind in its own namespace, for scenarios that run the whole loop.

What lives here: looking and bounded waiting, and the list of what was lived, from which GKE's calls
are counted (`tests.kinds.conftest`). Bodies and what happens to them are in the scenarios.
"""

from typing import Any, Final, Protocol

from shared.kinds.table import get_kind
from tests.lives.cloud import Cloud, wait_for
from tests.lives.jobset_bodies import LIFE

Json = dict[str, Any]
LONG = 36_000
"""Virtual seconds: until somebody ends the pods."""
POOL = "cloud.google.com/gke-nodepool"
ENDS = ("Complete", "Completed", "Failed")
"""Conditions of a workload that is over."""


class Lived(Protocol):
    """What can be asked of anything that was lived; its pools are told from others' by its name."""

    cloud: Cloud
    name: str
    namespace: str
    kind: str

    def describe_end(self) -> str:
        """Say what has become of it."""

    def pool_of(self, pod: Json) -> str:
        node = self.cloud.get(f"/api/v1/nodes/{pod['spec']['nodeName']}") or {}
        return str(node["metadata"]["labels"].get(POOL, ""))

    def pools_of(self, pods: list[Json]) -> set[str]:
        return {self.pool_of(pod) for pod in pods}

    def events(self, reason: str) -> list[Json]:
        found = self.cloud.items(f"/api/v1/namespaces/{self.namespace}/events")
        return [each for each in found if each["reason"] == reason]

    def refusals(self) -> list[str]:
        return [each["message"] for each in self.events("NodePoolRefused")]

    def calls(self, method: str = "") -> list[Json]:
        """Return the calls that name a pool of this life, oldest first."""
        mine = [each for each in self.cloud.calls() if each["pool"].startswith(f"{self.name}-")]
        return [each for each in mine if method in ("", each["method"])]

    def accepted(self, method: str) -> int:
        return sum(each["code"] == "OK" for each in self.calls(method))

    def expect_given_back(self, pools: int) -> None:
        assert (self.accepted("CreateNodePool"), self.accepted("DeleteNodePool")) == (pools, pools)


LIVED: Final[list[Lived]] = []
"""All that this process has lived, oldest first."""


class Life(Lived):
    """One workload. No other life on the stack has its name."""

    prefix = "life"
    """Of the namespace, before the name."""

    def __init__(self, cloud: Cloud, name: str, kind: str) -> None:
        self.cloud, self.name, self.namespace, self.kind = cloud, name, f"{self.prefix}-{name}", kind
        cloud.create_namespace(self.namespace)
        LIVED.append(self)

    @property
    def path(self) -> str:
        return get_kind(self.kind).path_of(self.namespace, self.name)

    def create(self, body: Json) -> Json:
        return self.cloud.create(self.path.rpartition("/")[0], body)

    def change(self, **spec: Any) -> None:
        self.cloud.patch(self.path, {"spec": spec})

    def delete(self) -> None:
        self.cloud.delete(self.path)

    def end(self, *, pools: int | None = None) -> None:
        """Delete the workload, and return once it has neither pools nor nodes.

        `pools` is how many were made, and given back, in its whole life; None asks for no number.
        """
        self.delete()
        self.wait_nothing_left()
        if pools is not None:
            self.expect_given_back(pools)

    def succeed(self, *pods: Json) -> None:
        """Report that pods have succeeded, as their kubelet would: the given ones, or all."""
        for pod in pods or self.pods():
            self.cloud.succeed(self.namespace, pod["metadata"]["name"])

    def wait_running(self, count: int) -> list[Json]:
        return wait_for(f"{self.name}: {count} running pods", lambda: self._running(count))

    def wait_condition(self, *wanted: str) -> None:
        wait_for(f"{self.name}: {wanted}", lambda: self.conditions() & set(wanted))

    def wait_nodes(self, count: int) -> None:
        wait_for(f"{self.name}: {count} nodes", lambda: len(self.nodes()) == count)

    def wait_nothing_left(self) -> None:
        """Return once the workload has neither pools nor nodes."""
        wait_for(f"{self.name}: no pools", lambda: not self.pools())
        self.wait_nodes(0)

    def wait_refusal(self) -> str:
        return wait_for(f"{self.name}: a refusal", self.refusals)[0]

    def pods(self) -> list[Json]:
        return self.cloud.items(f"/api/v1/namespaces/{self.namespace}/pods")

    def nodes(self) -> list[str]:
        found = self.cloud.items("/api/v1/nodes", labelSelector=f"{LIFE}={self.name}")
        return sorted(each["metadata"]["name"] for each in found)

    def conditions(self) -> set[str]:
        found = (self.cloud.get(self.path) or {}).get("status", {}).get("conditions", ())
        return {each["type"] for each in found if each["status"] == "True"}

    def describe_end(self) -> str:
        """Say what has become of the workload."""
        found = self.cloud.get(self.path)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return "gone"
        messages = [*self.conditions().intersection(ENDS), found.get("status", {}).get("phase")]
        return next((each for each in messages if each), "live")

    def pools(self) -> list[str]:
        return sorted(name for name in self.cloud.pools() if name.startswith(f"{self.name}-"))

    def wait_told(self, reason: str, message: str) -> None:
        """Return once an Event says so, because Events come after the changes that they report."""
        wait_for(
            f"{self.name}: an Event {reason} with {message}",
            lambda: any(message in each["message"] for each in self.events(reason)),
        )

    def _running(self, count: int) -> list[Json]:
        found = [pod for pod in self.pods() if is_running(pod)]
        return found if len(found) == count else []


def is_running(pod: Json) -> bool:
    return pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")


def places(pods: list[Json]) -> dict[str, str]:
    """Return the node of each pod, by their names."""
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods}
