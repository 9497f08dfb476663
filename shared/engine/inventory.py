"""The key of a workload, and what a cluster's list of node pools says as a whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from shared.model.pools import UNDER_WAY
from shared.plan.limits import count_nodes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.model.pools import NodePool
    from shared.model.readings import PoolNode

WorkloadName = tuple[str, str, str]
"""Kind, namespace and name."""


@dataclass(frozen=True, slots=True)
class Key:
    """One workload of one cluster, by its name."""

    cluster: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    """Empty for the one that has the name now; else that one only, and it may be gone."""

    @property
    def workload(self) -> WorkloadName:
        """Return kind, namespace and name."""
        return self.kind, self.namespace, self.name

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The node pools of one cluster at one moment."""

    began_at: float = 0.0
    """When the list began, in unix seconds."""
    pools: Mapping[str, NodePool] = field(default_factory=dict)
    """All, by name."""
    by_owner: Mapping[WorkloadName, Sequence[NodePool]] = field(default_factory=dict)
    """Ours."""
    nodes_before: Mapping[str, int] = field(default_factory=dict)
    """By pool, how many nodes it had when they were last read, if this list has none of them."""
    chips: Mapping[str, int] = field(default_factory=dict)
    """By the namespace of the owner; a limit counts them."""
    under_way: frozenset[str] = frozenset()
    """Names of pools on which GKE works."""
    autoscaled: int = 0


def take_inventory(
    pools: Sequence[NodePool],
    deployment: str,
    began_at: float,
    nodes: Mapping[str, Sequence[PoolNode]] | None = None,
    nodes_before: Mapping[str, int] = MappingProxyType({}),
) -> Inventory:
    """Return what a list of pools says.

    Args:
        pools: all of a cluster.
        deployment: our name; a pool that carries another one is not ours.
        began_at: when the list began.
        nodes: by pool; None if they were not read, and then a failed pool counts as a whole.
        nodes_before: how many each pool had when they were last read.
    """
    by_owner: dict[WorkloadName, list[NodePool]] = {}
    chips: Counter[str] = Counter()
    for pool in pools:
        if pool.owner is None or pool.deployment not in ("", deployment):
            continue
        by_owner.setdefault(pool.owner.key, []).append(pool)
        members = None if nodes is None else nodes.get(pool.name, ())
        chips[pool.owner.namespace] += count_chips(pool, members, nodes_before.get(pool.name, 0))
    return Inventory(
        began_at=began_at,
        pools={pool.name: pool for pool in pools},
        by_owner=by_owner,
        nodes_before=nodes_before,
        chips=chips,
        under_way=frozenset(pool.name for pool in pools if pool.status in UNDER_WAY),
        autoscaled=sum(pool.autoscaled for pool in pools),
    )


def count_chips(pool: NodePool, members: Sequence[PoolNode] | None, before: int = 0) -> int:
    """Return what a limit counts of a pool, the nodes that are not Ready among them.

    Args:
        members: its nodes; None if they were not read, and then it counts as a whole.
        before: how many it had when they were last read; a lower maximum takes none of them.
    """
    present = max(pool.node_count, before) if members is None else len(members)
    return count_nodes(pool.status, pool.node_count, present) * max(pool.units, 1)
