"""How many nodes a pool may have: by the limits, and for an elastic need by its spec. Pure.

GKE's autoscaler gives nodes to the one pool of an elastic need, within its maximum, which follows
the spec: `provision` raises it, `collect` lowers it.
"""

from __future__ import annotations

from msgspec import Struct

from shared.model.decisions import Reason
from shared.model.pools import FAILED, PoolStatus
from shared.plan.counting import Census
from shared.plan.scene import Act, Need, Pool, Verb

ELASTIC_NODES_MAX = 1000
"""The most nodes of one node pool: https://cloud.google.com/kubernetes-engine/quotas."""


def count_nodes(status: PoolStatus, maximum: int, present: int) -> int:
    """Return for how many nodes a pool counts: the larger of those that exist and may come.

    A failed pool without nodes counts as none, and so does one that is switched off, whose maximum
    is 0.
    """
    return max(maximum, present) if present or status not in FAILED else 0


class Means(Struct, frozen=True):
    """What the limits, and GKE's operation slots, leave for the further acts of a plan."""

    chips: int
    slots: int

    def less(self, chips: int) -> Means:
        """Return what is left after one act that asks for so many chips."""
        return Means(self.chips - chips, self.slots - 1)


def count_wanted(census: Census, need: Need) -> int:
    """Return how many nodes the pool of a need may have by the spec.

    Pods that run on an earlier pool, which gets no more nodes, or on a pool of others need none of
    them. Several pods may share a node if each asks for a part of it.
    """
    outside = 0 if need.part else census.count_outside(need)
    earlier = sum(
        max(0, pool.nodes - (0 if need.part else _count_others(census, need, pool)))
        for pool in census.scene.pools
        if pool.name in census.users
        and pool.name not in census.counted
        and census.homes.get(pool.name) is need
    )
    return min(max(0, (need.nodes or 0) - earlier - outside), ELASTIC_NODES_MAX)


def _count_others(census: Census, need: Need, pool: Pool) -> int:
    """Return how many pods of others hold nodes of a pool, each one for itself."""
    users = census.users.get(pool.name, ())
    return sum(pod.need != need.key and not pod.terminating for pod in users)


def waits(census: Census, key: str) -> bool:
    """Return whether a pod of a need waits."""
    return any(each.waiting_since is not None for each in census.slices.get(key, ()))


def count_taken(census: Census, need: Need, pool: Pool, nodes: int) -> int:
    """Return how many nodes a pool lacks because others use some, while a pod of its need waits.

    Who takes its new nodes too would get others for the same pods, so there is an end to it.
    """
    if not waits(census, need.key):
        return 0
    others = _count_others(census, need, pool)
    pods = (pod for each in census.slices[need.key] for pod in each.pods)
    own = sum(pod.waits or pod.pool == pool.name for pod in pods)
    return max(0, min(own, nodes) + min(others, pool.nodes) - nodes)


def count_chips(census: Census, need: Need) -> int:
    """Return the chips that a new pool of a need has in all."""
    return (count_wanted(census, need) if need.elastic else need.hosts) * need.chips


def size_pool(census: Census, need: Need, pool: Pool, means: Means) -> Act | Reason | None:
    """Return how the maximum of a pool changes; LIMIT_REACHED if it should and cannot.

    It is raised for a pod that waits, or in Kueue's queue before there are pods: a tick of
    `provision` looks at no other workload.

    Pods that use less than half of a host would be moved by GKE's autoscaler, so their pool keeps
    all of its nodes, and goes as a whole.
    """
    nodes = count_wanted(census, need)
    nodes = min(nodes + count_taken(census, need, pool, nodes), ELASTIC_NODES_MAX)
    if nodes > pool.maximum:
        wakes = census.scene.queued or waits(census, need.key)
        return _raise_maximum(need, pool, nodes, means) if wakes else None
    return None if need.part else lower_maximum(pool, nodes, need=need.key)


def _raise_maximum(need: Need, pool: Pool, nodes: int, means: Means) -> Act | Reason | None:
    """Return the raise of a maximum, as far as the limit has room."""
    allowed = min(nodes, pool.maximum + max(0, means.chips) // need.chips)
    if not pool.at_rest or allowed == pool.maximum:
        return Reason.LIMIT_REACHED if allowed < nodes else None
    return Act(verb=Verb.RAISE, pool=pool.name, need=need.key, maximum=allowed)


def lower_maximum(pool: Pool, nodes: int = 1, *, need: str = "") -> Act | None:
    """Return the lowering of a maximum, never below the nodes that exist or that GKE still makes.

    How many it makes is asked first. Without an answer nothing is lowered.
    """
    lowest = max(nodes, 1, pool.nodes, pool.machines or 0)
    no_answer = pool.word is not None and pool.machines is None
    if no_answer or not pool.at_rest or lowest >= pool.maximum:
        return None
    return Act(verb=Verb.LOWER, pool=pool.name, need=need, maximum=lowest)
