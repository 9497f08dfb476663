"""What a cluster's list of node pools says as a whole: whose they are, and what they take."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared.model.pools import UNDER_WAY
from shared.plan.limits import count_nodes
from shared.plan.scene import Pool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.engine.outside import Ports
    from shared.model.pools import NodePool
    from shared.model.readings import PoolNode

DEPLOYMENT = "tpu-provisioner-deployment"
"""A label of machines that names the deployment; Terraform sets it in `resource_labels`."""
WorkloadName = tuple[str, str, str]
"""Kind, namespace and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The node pools of one cluster at one moment."""

    began_at: float = 0.0
    """When the list began, in unix seconds."""
    pools: Mapping[str, NodePool] = field(default_factory=dict)
    """All, by name."""
    by_owner: Mapping[WorkloadName, Sequence[NodePool]] = field(default_factory=dict)
    """Ours."""
    chips: Mapping[str, int] = field(default_factory=dict)
    """By the namespace of the owner; a limit counts them."""
    under_way: frozenset[str] = frozenset()
    """Names of pools on which GKE works."""
    autoscaled: int = 0


def list_inventory(cluster: str, ports: Ports) -> Inventory:
    """Return the pools of a cluster, and let the list stand for the creates that it shows."""
    began_at = ports.clock.now()
    pools = ports.pools.list(cluster)
    inventory = take_inventory(pools, ports.settings.resource_labels.get(DEPLOYMENT, ""), began_at)
    ports.budget.forget_listed(cluster, inventory)
    return inventory


def take_inventory(
    pools: Sequence[NodePool],
    deployment: str,
    began_at: float,
    nodes: Mapping[str, Sequence[PoolNode]] | None = None,
) -> Inventory:
    """Return what a list of pools says.

    Args:
        pools: all of a cluster.
        deployment: our name; a pool that carries another one is not ours.
        began_at: when the list began.
        nodes: by pool; None if they were not read, and then a failed pool counts as a whole.
    """
    by_owner: dict[WorkloadName, list[NodePool]] = {}
    chips: Counter[str] = Counter()
    for pool in pools:
        if pool.owner is None or pool.deployment not in ("", deployment):
            continue
        by_owner.setdefault(pool.owner.key, []).append(pool)
        ready = None if nodes is None else sum(each.ready for each in nodes.get(pool.name, ()))
        chips[pool.owner.namespace] += _count_chips(pool, ready)
    return Inventory(
        began_at=began_at,
        pools={pool.name: pool for pool in pools},
        by_owner=by_owner,
        chips=chips,
        under_way=frozenset(pool.name for pool in pools if pool.status in UNDER_WAY),
        autoscaled=sum(pool.autoscaled for pool in pools),
    )


def _count_chips(pool: NodePool, ready: int | None) -> int:
    seen = Pool(
        name=pool.name, status=pool.status, shape=pool.shape, maximum=pool.node_count, ready=ready
    )
    return count_nodes(seen) * max(pool.units, 1)
