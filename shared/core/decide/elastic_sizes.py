"""Decides how elastic pools grow, shrink node by node, and get a second pool beside them. Pure.

A pool never shrinks by its size, because GKE would choose the nodes. Nodes are removed one by one:
an empty node is marked, later closed to new pods, and later removed if it is still empty.

A pool that could not grow keeps the nodes that it has, and the next candidate has the others. That
a later pool of the claim lives is the only mark: then the earlier ones do not grow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shared.core.decide.attempts import FailedAttempt, decide_next_attempt, rank_attempt
from shared.core.decide.filling import LOST_GRACES
from shared.core.decide.limits import decide_limit
from shared.core.decide.provision import refuse_by_mode
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.identity.pool_index import PoolIndex
from shared.core.identity.pools import BROKEN, PoolStatus
from shared.core.settings import Mode
from shared.core.times import measure_seconds

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from shared.core.decide.attempts import AttemptDecision
    from shared.core.decide.limits import Usage
    from shared.core.demand.demand import Demand
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.settings import Settings
    from shared.core.workloads import NodeView, PodView


_RESTING = (PoolStatus.RUNNING, *BROKEN)
_SHARING = (*_RESTING, PoolStatus.PROVISIONING, PoolStatus.RECONCILING)
_RESOURCE_EXHAUSTED = 8
"""``google.rpc.Code`` of a stockout: what counts where GKE has said nothing that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """One node of an elastic pool."""

    name: str
    used: bool = False
    """An unfinished accelerator pod is bound to it."""
    surplus_since: float | None = None
    """Unix seconds of our mark; None without a mark."""
    closed: bool = False
    """The mark keeps new pods off the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrink:
    """What to do with the nodes of a pool, by name."""

    remove: tuple[str, ...] = ()
    close: tuple[str, ...] = ()
    mark: tuple[str, ...] = ()
    clear: tuple[str, ...] = ()
    """Remove our mark: the node is used, or needed again."""


def decide_growth(
    demand: Demand, pool_name: str, *, size: int, settings: Settings, usage: Usage | None = None
) -> Decision:
    """Return whether a running elastic pool needs more nodes.

    The size is the number of nodes that GKE keeps in the pool now. The usage, that of the other
    pools, is None when no limit is set.
    """
    wanted = demand.shape.node_count
    if size >= wanted:
        return Decision(Verdict.KEEP, Reason.POOL_SERVES, f"node pool {pool_name} is running")
    change = f"node pool {pool_name} from {size} to {wanted} nodes"
    mode = settings.find_mode(demand.claim.namespace)
    if mode != Mode.ACTIVE:
        return refuse_by_mode(f"resize {change}", mode)
    resize = Decision(Verdict.RESIZE, Reason.POOL_GROWS, f"resizing {change}")
    return decide_limit(demand, settings, usage) or resize


def plan_shrink(
    nodes: Sequence[NodeState], *, wanted: int, size: int, now: float, grace_seconds: float, removals_max: int
) -> Shrink:
    """Return what to do with each node so that a pool shrinks and no node in use is removed.

    Args:
        nodes: the nodes in the cluster; fewer than `size` while GKE adds some.
        wanted: how many nodes are needed.
        size: how many nodes GKE keeps.
        now: unix seconds.
        grace_seconds: how long a node stays marked before it is closed.
        removals_max: how many nodes to remove at most.
    """
    empty = sorted((node for node in nodes if not node.used), key=_find_rank)
    leaving = empty[: max(0, size - wanted)]
    return Shrink(
        remove=tuple(node.name for node in leaving if node.closed)[: max(0, removals_max)],
        close=tuple(
            node.name
            for node in leaving
            if not node.closed and node.surplus_since is not None and now - node.surplus_since >= grace_seconds
        ),
        mark=tuple(node.name for node in leaving if node.surplus_since is None),
        clear=tuple(node.name for node in nodes if node.surplus_since is not None and node not in leaving),
    )


def decide_shrink(pool_name: str, plan: Shrink, *, wanted: int, size: int) -> Decision | None:
    """Return the decision that nodes of a pool were removed; None when none were."""
    if not plan.remove:
        return None
    names = ", ".join(plan.remove)
    message = f"removing empty nodes of node pool {pool_name} ({size} nodes, {wanted} needed): {names}"
    return Decision(Verdict.RESIZE, Reason.POOL_SHRINKS, message)


def decide_marking(pool_name: str) -> Decision:
    """Return the decision to change our marks on nodes of a pool."""
    return Decision(Verdict.RESIZE, Reason.POOL_SHRINKS, f"marking empty nodes of node pool {pool_name}")


def _find_rank(node: NodeState) -> tuple[bool, float, str]:
    """Return the order in which empty nodes are removed: nodes with a mark are first."""
    since = float("inf") if node.surplus_since is None else node.surplus_since
    return not node.closed, since, node.name


def may_add_pools(demand: Demand) -> bool:
    """Return whether a demand may have several pools at a time."""
    return demand.elastic and demand.choices > 1


def list_sharing(demand: Demand, pools: Sequence[PoolSnapshot]) -> list[PoolSnapshot]:
    """Return the pools of a claim and of the wanted shape that stay, the oldest first.

    One whose creation failed has the nodes that GKE has made, which may be none.
    """
    own = PoolIndex.of(pools).list_claimed(demand.claim.hash)
    found = [each for each in own if each.owner and each.owner.was_made_for(demand.fingerprint)]
    return sorted((each for each in found if each.status in _SHARING), key=rank_attempt)


def count_missing(demand: Demand, sizes: Mapping[str, int], *, apart: str = "") -> int:
    """Return how many nodes of a demand the other pools do not have.

    Args:
        demand: all nodes that the pods need.
        sizes: how many nodes GKE keeps in each pool of the claim.
        apart: the pool that does not count.
    """
    return max(0, demand.shape.node_count - sum(size for name, size in sizes.items() if name != apart))


def is_short(
    demand: Demand,
    pod: PodView,
    pool: PoolSnapshot,
    nodes: Sequence[NodeView],
    *,
    now: float,
    settings: Settings,
) -> bool:
    """Return whether a pool has been asked for more nodes, and has got none for long.

    A pod must have waited for so long, and all nodes must be as old: a younger one shows that GKE
    is adding them. What GKE reports of a pool that could not grow is not known, so its status
    counts only if it forbids to grow again. A pool of flex-start waits without end.

    Args:
        demand: the nodes that the pool should have.
        pod: it waits.
        pool: the newest of its claim, with as many nodes as GKE keeps in it.
        nodes: that the cluster has of the pool.
        now: unix seconds.
        settings: the operator's settings.
    """
    asked = pool.status in BROKEN or pool.node_count >= demand.shape.node_count
    lacks = asked and pool.status in _RESTING and len(nodes) < demand.shape.node_count
    if not lacks or pool.flex_start:
        return False
    patience = LOST_GRACES * settings.grace_seconds
    waits = [measure_seconds(each, now) for each in (pod.unschedulable_since, *(one.created_at for one in nodes))]
    age = pool.age_seconds(now)  # None: a person has removed the label, and its nodes tell
    return (age is None or age >= patience) and all(each is not None and each >= patience for each in waits)


@dataclass(frozen=True, slots=True)
class ShortPool:
    """A pool that has been asked for more nodes, and has got none for long."""

    pool: PoolSnapshot
    nodes: int
    """How many the cluster has of it."""
    missing: Sequence[str] = ()
    """Those that GKE has not made."""


def decide_addition(
    demand: Demand, create: Decision, pod: PodView, short: ShortPool, *, used: Collection[int], now: float
) -> AttemptDecision:
    """Return what follows a pool that could not grow: CREATE with the next candidate, or a pause.

    The pool is the newest of its claim, and should have the nodes of the demand. The pause after a
    round counts from the begin of the wait of the pod. `used` are the attempts of the claim whose
    pools exist.
    """
    pool, nodes = short.pool, short.nodes
    attempt, candidate = (pool.owner.attempt, pool.owner.candidate) if pool.owner else (0, "")
    failed = FailedAttempt(
        pool=pool.name,
        attempt=attempt,
        candidate=candidate,
        error=pool.error or "it adds no nodes",
        code=_RESOURCE_EXHAUSTED,
        at=pod.unschedulable_since,
        binding=False,
    )
    rest = demand.with_nodes(demand.shape.node_count - nodes)
    found = decide_next_attempt(rest, create, failed, used=used, now=now)
    message = f"node pool {pool.name} has {nodes} of {demand.shape.node_count} nodes: {found.decision.message}"
    return replace(found, decision=Decision(found.decision.verdict, found.decision.reason, message))


def decide_giving_up(pool_name: str, missing: Sequence[str], *, wanted: int) -> Decision:
    """Return the decision to give up nodes of a pool that GKE has not made."""
    message = f"node pool {pool_name} gives up {len(missing)} nodes that GKE has not made; {wanted} are needed"
    return Decision(Verdict.RESIZE, Reason.POOL_SHRINKS, message)
