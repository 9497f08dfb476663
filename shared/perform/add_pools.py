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
from shared.core.decide.provision import decide_provision
from shared.core.decisions import Reason, Verdict
from shared.core.identity.pools import PoolStatus
from shared.perform.changes import remove_nodes
from shared.perform.gather import read_namespace_obstacle
from shared.perform.make_attempt import create_allowed
from shared.perform.pool_sizes import measure_pools

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.decide.attempts import AttemptDecision
    from shared.core.decisions import Decision
    from shared.core.demand.demand import Demand
    from shared.core.identity.pool_index import PoolIndex
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.workloads import PodView
    from shared.perform.look import Look, Turn

_MAY_BE_SHORT = (Reason.POOL_SERVES, Reason.POOL_DEGRADED)


def share_nodes(
    look: Look, demand: Demand, attempts: Sequence[int], pools: PoolIndex
) -> tuple[Demand, Sequence[int]]:
    """Return the nodes that the newest pool of a claim should have, and its attempt.

    The earlier ones keep what they have. A failed attempt is followed only if nodes are missing.

    Args:
        look: at the cluster.
        demand: all nodes that the pods need.
        attempts: to look at if the claim does not have several pools.
        pools: every pool of the cluster.

    Raises:
        Retryable: GKE could not be asked.
    """
    sharing = list_sharing(demand, pools)
    if not may_add_pools(demand) or not sharing:
        return demand, attempts
    last, sizes = sharing[-1], dict[str, int]()
    newest = find_newest([each for each in pools.list_claimed(demand.claim.hash) if _is_known(each)])
    if newest is not None and newest.status == PoolStatus.ERROR and newest != last:
        sizes = measure_pools(sharing, look.ports)
        if count_missing(demand, sizes):
            return demand.with_nodes(count_missing(demand, sizes)), [_get_attempt(newest)]
    sizes = sizes or measure_pools(sharing[:-1], look.ports)
    return demand.with_nodes(count_missing(demand, sizes, apart=last.name)), [_get_attempt(last)]


def _is_known(pool: PoolSnapshot) -> bool:
    return pool.status != PoolStatus.STOPPING


@dataclass(frozen=True, slots=True)
class _Short:
    """A pool that has been asked for more nodes, and has got none for long."""

    pool: PoolSnapshot
    nodes: int
    missing: Sequence[str]
    sharing: Sequence[PoolSnapshot]

    @property
    def is_newest(self) -> bool:
        return self.pool is self.sharing[-1]


def add_pool(turn: Turn, pod: PodView, found: AttemptDecision, *, wanted: int) -> AttemptDecision | None:
    """Create a pool on the next candidate if the newest one could not grow; None if it need not be.

    The pools, their sizes and the nodes are read now. The sizes are read again after the nodes that
    are missing were given up, so a node that came meanwhile is not asked for twice. What an earlier
    pool gives up, the newest one gets at a later look.

    Args:
        turn: of the pods, with the nodes that the newest pool should have.
        pod: it waits.
        found: what was decided about that pool.
        wanted: all nodes that the pods need.

    Raises:
        Retryable: something could not be read, has changed, or took too long.
    """
    look, demand = turn.look, turn.demand
    if look.cap is None or not may_add_pools(demand) or found.decision.reason not in _MAY_BE_SHORT:
        return None
    turn = replace(turn, looked_at=look.now(), pools=look.list_pools())
    short = _find_short(turn, found, pod)
    if short is None:
        return None
    following = _decide_following(turn, short, found, pod)
    act = following.decision
    done = _give_up_missing(turn, short, act)
    if done is not act or act.verdict != Verdict.CREATE:
        return replace(following, decision=done)
    left = count_missing(demand.with_nodes(wanted), measure_pools(short.sharing, look.ports))
    if not left:
        return None  # they came meanwhile, or their machines are there and GKE repairs them
    if look.limits:
        look.limits.forget()
    return create_allowed(replace(turn, demand=demand.with_nodes(left)), following)


def _give_up_missing(turn: Turn, short: _Short, act: Decision) -> Decision:
    """Give up the nodes that GKE has not made, if that follows; return what came of it."""
    look = turn.look.unshared()
    if act.verdict not in (Verdict.CREATE, Verdict.RESIZE):
        return act
    if stopped := read_namespace_obstacle(look, turn.demand):
        return stopped
    return remove_nodes(look, short.pool, short.missing, act, looked_at=turn.looked_at) if short.missing else act


def _find_short(turn: Turn, found: AttemptDecision, pod: PodView) -> _Short | None:
    """Return the first pool of the claim that is short of nodes.

    An earlier one counts only if it can give nodes up.
    """
    look, demand = turn.look.unshared(), turn.demand
    sharing, newest = list_sharing(demand, turn.pools), find_newest(turn.own)
    if not sharing or newest != sharing[-1] or _get_attempt(newest) != found.attempt:
        return None
    for pool in sharing:
        if pool.status == PoolStatus.PROVISIONING:
            continue
        size, nodes = look.ports.pools.measure(pool), look.live.list_pool_nodes(pool.name)
        wants = demand if pool is sharing[-1] else demand.with_nodes(size)
        if not is_short(wants, pod, pool, nodes, size=size, now=turn.looked_at, settings=look.settings):
            continue
        missing = look.ports.pools.list_missing(pool)
        if missing or pool is sharing[-1]:
            return _Short(pool, len(nodes), missing, sharing)
    return None


def _decide_following(turn: Turn, short: _Short, found: AttemptDecision, pod: PodView) -> AttemptDecision:
    demand, now = turn.demand, turn.looked_at
    create = decide_provision(demand, None, now=now, settings=turn.look.settings)
    if create.verdict != Verdict.CREATE:
        return replace(found, decision=create)
    if not short.is_newest:
        given_up = decide_giving_up(short.pool.name, short.missing, wanted=short.nodes)
        return replace(found, decision=given_up)
    used = {_get_attempt(each) for each in turn.own}
    return decide_addition(demand, create, pod, short.pool, short.nodes, used=used, now=now)


def _get_attempt(pool: PoolSnapshot) -> int:
    return pool.owner.attempt if pool.owner else 0
