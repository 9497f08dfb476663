"""Gives an elastic pool that cannot grow a second pool on the next candidate of its list.

The size of the first pool is reduced by the nodes that GKE has not created. So both pools together
have no more nodes than the pods need. Only the sweep does this. The other functions see the second
pool and do not change the first one. If the sweep ends between the two steps, the first pool grows
again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shared.core.decide.added_pools import (
    count_missing,
    decide_addition,
    decide_giving_up,
    is_short,
    list_sharing,
    may_add_pools,
)
from shared.core.decide.attempts import find_newest
from shared.core.decide.freshness import is_fresh
from shared.core.decide.provision import decide_provision
from shared.core.decisions import Reason, Verdict
from shared.core.errors import OldLook
from shared.core.identity.pool_index import PoolIndex
from shared.core.identity.pools import PoolStatus
from shared.perform.emergency_stop import find_stop
from shared.perform.gather import read_namespace_obstacle
from shared.perform.make_attempt import create_allowed
from shared.perform.pool_sizes import measure_pools
from shared.perform.shared_reads import read_live

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.decide.attempts import AttemptDecision
    from shared.core.demand.demand import Demand
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import Ports
    from shared.core.workloads import PodView
    from shared.perform.make_attempt import Turn

_MAY_BE_SHORT = (Reason.POOL_SERVES, Reason.POOL_DEGRADED)


def share_nodes(
    demand: Demand, attempts: Sequence[int], ports: Ports, pools: Sequence[PoolSnapshot]
) -> tuple[Demand, Sequence[int]]:
    """Return the nodes that the newest pool of a claim should have, and its attempt.

    The earlier ones keep what they have. A failed attempt is followed only if nodes are missing.

    Args:
        demand: all nodes that the pods need.
        attempts: to look at if the claim does not have several pools.
        ports: the outside world.
        pools: every pool of the cluster.

    Raises:
        Retryable: GKE could not be asked.
    """
    sharing = list_sharing(demand, pools)
    if not may_add_pools(demand) or not sharing:
        return demand, attempts
    last, sizes = sharing[-1], dict[str, int]()
    newest = find_newest([each for each in PoolIndex.of(pools).list_claimed(demand.claim.hash) if _is_known(each)])
    if newest is not None and newest.status == PoolStatus.ERROR and newest != last:
        sizes = measure_pools(sharing, ports)
        if count_missing(demand, sizes):
            return demand.with_nodes(count_missing(demand, sizes)), [_get_attempt(newest)]
    sizes = sizes or measure_pools(sharing[:-1], ports)
    return demand.with_nodes(count_missing(demand, sizes, apart=last.name)), [_get_attempt(last)]


def _is_known(pool: PoolSnapshot) -> bool:
    return pool.status != PoolStatus.STOPPING


@dataclass(frozen=True, slots=True)
class _Short:
    """A pool that has been asked for more nodes, and has got none for long."""

    pool: PoolSnapshot
    nodes: int
    missing: Sequence[str]
    pools: PoolIndex
    """Every pool of the cluster."""
    sharing: Sequence[PoolSnapshot]
    looked_at: float
    """Unix seconds."""

    @property
    def is_newest(self) -> bool:
        return self.pool is self.sharing[-1]


def add_pool(
    demand: Demand, found: AttemptDecision, pod: PodView, ports: Ports, turn: Turn, *, wanted: int
) -> AttemptDecision | None:
    """Create a pool on the next candidate if the newest one could not grow; None if it need not be.

    The pools, their sizes and the nodes are read now. The sizes are read again after the nodes that
    are missing were given up, so a node that came meanwhile is not asked for twice. What an earlier
    pool gives up, the newest one gets at a later look.

    Args:
        demand: the nodes that the newest pool should have.
        found: what was decided about that pool.
        pod: it waits.
        ports: the outside world.
        turn: of answering the pod.
        wanted: all nodes that the pods need.

    Raises:
        Retryable: something could not be read, has changed, or took too long.
    """
    asks = turn.cap is not None and may_add_pools(demand) and found.decision.reason in _MAY_BE_SHORT
    short = _find_short(demand, found, pod, ports) if asks else None
    if short is None:
        return None
    following = _decide_following(demand, short, found, pod, ports)
    if following.decision.verdict not in (Verdict.CREATE, Verdict.RESIZE):
        return following
    live = read_live(demand.claim.cluster, ports)
    stopped = read_namespace_obstacle(demand, live) or find_stop(demand.claim.cluster, following.decision, live)
    if stopped:
        return replace(following, decision=stopped)
    if short.missing:
        if not is_fresh(short.looked_at, now=ports.clock.now()):
            raise OldLook(f"node pool {short.pool.name} gave no nodes up, because the look at it took too long")
        ports.pools.remove_nodes(short.pool, short.missing)
    if not short.is_newest:
        return following
    left = count_missing(demand.with_nodes(wanted), measure_pools(short.sharing, ports))
    if not left:
        return None  # they came meanwhile, or their machines are there and GKE repairs them
    if turn.limits:
        turn.limits.forget()
    turn = replace(turn, looked_at=short.looked_at)
    return create_allowed(demand.with_nodes(left), following, ports, short.pools, turn)


def _find_short(demand: Demand, found: AttemptDecision, pod: PodView, ports: Ports) -> _Short | None:
    """Return the first pool of the claim that is short of nodes.

    An earlier one counts only if it can give nodes up.
    """
    cluster, looked_at = demand.claim.cluster, ports.clock.now()
    pools = PoolIndex(ports.pools.list(cluster))
    sharing, newest = list_sharing(demand, pools), find_newest(pools.list_claimed(demand.claim.hash))
    if not sharing or newest != sharing[-1] or _get_attempt(newest) != found.attempt:
        return None
    live = read_live(cluster, ports).clusters[cluster]
    for pool in sharing:
        if pool.status == PoolStatus.PROVISIONING:
            continue
        size, nodes = ports.pools.measure(pool), live.list_pool_nodes(pool.name)
        wants = demand if pool is sharing[-1] else demand.with_nodes(size)
        if not is_short(wants, pod, pool, nodes, size=size, now=looked_at, settings=ports.settings):
            continue
        missing = ports.pools.list_missing(pool)
        if missing or pool is sharing[-1]:
            return _Short(pool, len(nodes), missing, pools, sharing, looked_at)
    return None


def _decide_following(
    demand: Demand, short: _Short, found: AttemptDecision, pod: PodView, ports: Ports
) -> AttemptDecision:
    create = decide_provision(demand, None, now=short.looked_at, settings=ports.settings)
    if create.verdict != Verdict.CREATE:
        return replace(found, decision=create)
    if not short.is_newest:
        given_up = decide_giving_up(short.pool.name, short.missing, wanted=short.nodes)
        return replace(found, decision=given_up)
    used = {_get_attempt(each) for each in short.pools.list_claimed(demand.claim.hash)}
    return decide_addition(demand, create, pod, short.pool, short.nodes, used=used, now=short.looked_at)


def _get_attempt(pool: PoolSnapshot) -> int:
    return pool.owner.attempt if pool.owner else 0
