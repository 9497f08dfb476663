"""GKE's node pools over REST v1, in the words of `shared.core.ports.NodePools`.

https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from shared.core.errors import NotFound, Unavailable
from shared.core.pools import PoolSnapshot, parse_status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.edges.google_rest import GoogleRest


T = TypeVar("T")


class _Wire(msgspec.Struct, rename="camel"):
    """Partial objects: unknown fields are skipped without being built."""


class _Config(_Wire):
    machine_type: str = ""
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
    conditions: list[_Condition] = []
    status_message: str = ""


class _Pools(_Wire):
    node_pools: list[_Pool] = []


_POOL = msgspec.json.Decoder(_Pool)
_POOLS = msgspec.json.Decoder(_Pools)


class GkeNodePools:
    """`shared.core.ports.NodePools` over REST."""

    def __init__(self, rest: GoogleRest) -> None:
        self._rest = rest

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
        error="; ".join(said) or pool.status_message,
    )
