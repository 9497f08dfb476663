"""A cloud of instance groups in this process, as small as the autoscaler's scenarios need one.

Machines come at once while there is capacity. Without it a group keeps trying, and says so of each
machine. Their Node objects are registered in a real cluster, without a kubelet.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from standins.autoscaler_real.node_groups import Group, Instance, Refused, State
from standins.controlplane.api_client import STRATEGIC, exists

if TYPE_CHECKING:
    import httpx

Json = dict[str, Any]

POOL = "cloud.google.com/gke-nodepool"
STOCKOUT = "ZONE_RESOURCE_POOL_EXHAUSTED"
STOCKOUT_WORDS = (
    "The zone 'projects/p/zones/us-east5-b' does not have enough resources available to fulfill the request. "
    "Try a different zone, or try again later."
)


@dataclass
class _Held:
    group: Group
    capacity: int
    target: int = 0
    made: list[str] = field(default_factory=list)


class ScaledGroups:
    """Groups that register nodes in a cluster, and remember what the autoscaler asked of them."""

    def __init__(self, api: httpx.Client) -> None:
        self._api, self._lock = api, threading.RLock()
        self._held: dict[str, _Held] = {}
        self._made = 0
        self.calls: list[tuple[float, str, str, Any]] = []
        """When (monotonic), what, of which group, and how many nodes or which."""

    def add(
        self, name: str, *, maximum: int, resources: dict[str, str], capacity: int, all_or_nothing: bool
    ) -> None:
        """Add an empty group."""
        tpu = "google.com/tpu" in resources
        taint = "google.com/tpu" if tpu else "nvidia.com/gpu"
        labels = {POOL: name} | ({} if tpu else {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"})
        template = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"{name}-template", "labels": labels},
            "spec": {"taints": [{"key": taint, "value": "present", "effect": "NoSchedule"}]},
            "status": {"capacity": resources, "allocatable": resources},
        }
        group = Group(name=name, minimum=0, maximum=maximum, all_or_nothing=all_or_nothing, template=template)
        self._held[name] = _Held(group, capacity)

    def give(self, name: str, capacity: int) -> None:
        """Let there be so many machines for a group; what it waits for comes now."""
        with self._lock:
            held = self._held[name]
            held.capacity = capacity
            self._make_missing(held)

    def asked(self, what: str, name: str) -> list[tuple[float, Any]]:
        """Return when a group was asked for something, and for what."""
        with self._lock:
            return [(at, value) for at, asked, group, value in self.calls if (asked, group) == (what, name)]

    def nodes(self, name: str) -> list[str]:
        """Return the nodes of a group, oldest first."""
        with self._lock:
            return list(self._held[name].made)

    def remove_all(self) -> None:
        """Delete every node."""
        with self._lock:
            for name, held in self._held.items():
                self.delete_instances(name, [_provider_id(each) for each in held.made])
            self._held.clear()

    def list_groups(self) -> list[Group]:
        with self._lock:
            return [held.group for held in self._held.values()]

    def target_size(self, name: str) -> int:
        return self._find(name).target

    def list_instances(self, name: str) -> list[Instance]:
        with self._lock:
            held = self._find(name)
            waiting = range(held.target - len(held.made))
            made = [Instance(provider_id=_provider_id(each), state=State.RUNNING) for each in held.made]
            return made + [
                Instance(
                    provider_id=_provider_id(f"{name}-m{index:03}"),
                    state=State.CREATING,
                    code=STOCKOUT,
                    message=STOCKOUT_WORDS,
                )
                for index in waiting
            ]

    def resize(self, name: str, size: int) -> None:
        with self._lock:
            held = self._find(name)
            if not len(held.made) <= size <= held.group.maximum:
                raise Refused(f"size: {size} is not valid for {name}")
            self.calls.append((time.monotonic(), "resize", name, size))
            held.target = size
            self._make_missing(held)

    def delete_instances(self, name: str, provider_ids: list[str]) -> None:
        with self._lock:
            held = self._find(name)
            self.calls.append((time.monotonic(), "delete", name, list(provider_ids)))
            for each in provider_ids:
                node = each.rsplit("/", 1)[-1]
                held.target -= 1
                if node in held.made:
                    held.made.remove(node)
                    if exists(self._api, f"/api/v1/nodes/{node}"):
                        self._api.delete(f"/api/v1/nodes/{node}")

    def _find(self, name: str) -> _Held:
        try:
            return self._held[name]
        except KeyError:
            raise Refused(f"no group {name!r}") from None

    def _make_missing(self, held: _Held) -> None:
        wanted = held.target - len(held.made)
        room = held.capacity - len(held.made)
        if room < wanted and held.group.all_or_nothing:
            return
        for _ in range(min(wanted, room)):
            self._register(held)

    def _register(self, held: _Held) -> None:
        self._made += 1
        node = f"{held.group.name}-{self._made}"
        template = held.group.template
        labels = template["metadata"]["labels"] | {"kubernetes.io/hostname": node}
        spec = template["spec"] | {"providerID": _provider_id(node)}
        self._api.post("/api/v1/nodes", json={"metadata": {"name": node, "labels": labels}, "spec": spec})
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "as a kubelet says it"}
        ready |= {"lastHeartbeatTime": now, "lastTransitionTime": now}
        status = template["status"] | {"conditions": [ready]}
        self._api.patch(f"/api/v1/nodes/{node}/status", json={"status": status}, headers=STRATEGIC)
        held.made.append(node)


def _provider_id(node: str) -> str:
    return f"gce://p/us-east5-b/{node}"
