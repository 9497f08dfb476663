"""GKE's node pools over REST v1, in the words of `shared.core.ports.NodePools`.

https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from shared.core.errors import NotFound, Unavailable
from shared.core.pools import PoolSnapshot, parse_status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.edges.google_rest import GoogleRest


T = TypeVar("T")
_GROUP_PATH = re.compile(r"projects/[^/]+/zones/[^/]+/instanceGroupManagers/[^/]+$")


class _Wire(msgspec.Struct, rename="camel"):
    """Partial objects: unknown fields are skipped without being built."""


class _Accelerator(_Wire):
    accelerator_count: str | int = 0


class _Config(_Wire):
    machine_type: str = ""
    accelerators: list[_Accelerator] = []
    labels: dict[str, str] = {}


class _Placement(_Wire):
    tpu_topology: str = ""


class _Autoscaling(_Wire):
    max_node_count: int = 0


class _Condition(_Wire):
    message: str = ""


class _Pool(_Wire):
    name: str
    status: str | int = ""
    config: _Config = msgspec.field(default_factory=_Config)
    initial_node_count: int = 0
    autoscaling: _Autoscaling = msgspec.field(default_factory=_Autoscaling)
    placement_policy: _Placement = msgspec.field(default_factory=_Placement)
    instance_group_urls: list[str] = []
    conditions: list[_Condition] = []
    status_message: str = ""


class _Pools(_Wire):
    node_pools: list[_Pool] = []


class _Group(_Wire):
    target_size: int


_POOL = msgspec.json.Decoder(_Pool)
_GROUP = msgspec.json.Decoder(_Group)
_POOLS = msgspec.json.Decoder(_Pools)


class GkeNodePools:
    """`shared.core.ports.NodePools` over REST."""

    def __init__(self, rest: GoogleRest, compute: GoogleRest | None = None) -> None:
        """Prepare; nothing is sent yet.

        Args:
            rest: The GKE API.
            compute: The Compute Engine API; None where one address answers for both.
        """
        self._rest, self._compute = rest, compute or rest

    def create(self, cluster: str, node_pool: Mapping[str, Any]) -> None:
        """Submit one pool: ``POST .../nodePools``."""
        self._rest.call("POST", f"v1/{cluster}/nodePools", {"nodePool": node_pool})

    def get(self, cluster: str, name: str) -> PoolSnapshot | None:
        """Return one pool, or None: ``GET .../nodePools/NAME``."""
        try:
            return _read(_decode(_POOL, self._rest.call("GET", f"v1/{cluster}/nodePools/{name}")))
        except NotFound:
            return None

    def list(self, cluster: str) -> list[PoolSnapshot]:
        """Return every pool: ``GET .../nodePools``."""
        answer = _decode(_POOLS, self._rest.call("GET", f"v1/{cluster}/nodePools") or b"{}")
        return [_read(pool) for pool in answer.node_pools]

    def delete(self, cluster: str, name: str) -> None:
        """Submit a deletion: ``DELETE .../nodePools/NAME``; an absent pool is success."""
        try:
            self._rest.call("DELETE", f"v1/{cluster}/nodePools/{name}")
        except NotFound:
            return

    def measure(self, pool: PoolSnapshot) -> int:
        """Return the ``targetSize`` of the instance groups: a resize leaves the pool's own count as it was."""
        groups = (self._compute.call("GET", f"compute/v1/{_path_of(url)}") for url in pool.group_urls)
        return sum(_decode(_GROUP, answer).target_size for answer in groups)

    def resize(self, cluster: str, name: str, nodes: int) -> None:
        """Submit another size: ``POST .../nodePools/NAME:setSize``."""
        self._rest.call("POST", f"v1/{cluster}/nodePools/{name}:setSize", {"nodeCount": nodes})

    def remove_nodes(self, pool: PoolSnapshot, names: Sequence[str]) -> None:
        """Remove nodes by name: ``POST .../instanceGroupManagers/NAME/deleteInstances``.

        https://cloud.google.com/compute/docs/reference/rest/v1/instanceGroupManagers/deleteInstances; a node is
        called as its instance. A pool of ours has one group, for it has one zone.
        """
        (url,) = pool.group_urls
        group = _path_of(url)
        zone = group.split("/")[3]
        instances = [f"zones/{zone}/instances/{name}" for name in names]
        self._compute.call("POST", f"compute/v1/{group}/deleteInstances", {"instances": instances})


def _path_of(url: str) -> str:
    """Return the path of an instance group below the API's version, for the endpoint that the settings name."""
    found = _GROUP_PATH.search(url)
    if found is None:
        raise Unavailable(f"GKE named an instance group that cannot be read: {url}")
    return found[0]


def _decode(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unavailable(f"GKE's answer cannot be read: {error}") from error


def _read(pool: _Pool) -> PoolSnapshot:
    said = [condition.message for condition in pool.conditions if condition.message]
    return PoolSnapshot(
        name=pool.name,
        status=parse_status(pool.status),
        labels=pool.config.labels,
        # A flex-start pool starts empty: what it may grow to is what was asked for.
        node_count=pool.initial_node_count or pool.autoscaling.max_node_count,
        machine_type=pool.config.machine_type,
        topology=pool.placement_policy.tpu_topology,
        gpus_per_node=sum(int(each.accelerator_count) for each in pool.config.accelerators),
        group_urls=tuple(pool.instance_group_urls),
        error="; ".join(said) or pool.status_message,
    )
