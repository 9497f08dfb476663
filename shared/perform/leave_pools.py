"""Leaves a pool that has too few nodes for the next way of the list of capacity."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from shared.core.decide.attempts import AttemptDecision, decide_next_attempt, find_newest, record_empty
from shared.core.decide.error_answers import REFUSED_BY_GKE
from shared.core.decide.filling import Filling, decide_empty, decide_unread, find_error, find_patience, is_empty
from shared.core.decide.lost_pools import decide_lost
from shared.core.decide.needed_pools import LOST
from shared.core.decide.provision import decide_provision
from shared.core.decisions import Verdict
from shared.core.errors import StaleView
from shared.core.identity.pool_index import PoolIndex
from shared.core.kinds.table import may_swap
from shared.perform.fillings import read_filling
from shared.perform.gather import read_occupancy
from shared.perform.make_attempt import create_allowed, replace_pool
from shared.perform.shared_reads import read_live

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.decisions import Decision
    from shared.core.demand.demand import Demand
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import Ports
    from shared.core.workloads import PodView
    from shared.perform.make_attempt import Turn


def give_up_lost(demand: Demand, pod: PodView, lost: PoolSnapshot, ports: Ports, turn: Turn) -> AttemptDecision:
    """Delete a pool that has too few nodes, after a second look at it and its nodes.

    Their last look is the last read before the deletion, so that as few machines as possible come
    between the two: those that come while one request is on its way to GKE.

    If it lost them, a later look begins the list of capacity anew. If GKE's autoscaler could not
    fill it, the next candidate follows at once, or there is a pause before the deletion. If a
    machine is on its way by now, the pool stays.

    Args:
        demand: what the slice needs.
        pod: of the slice, which waits.
        lost: the pool.
        ports: the outside world.
        turn: of answering the pod.

    Raises:
        Retryable: something could not be read, has changed, or took too long.
    """
    cluster, now = demand.claim.cluster, ports.clock.now()
    pools = PoolIndex(ports.pools.list(cluster))
    own, pool = pools.list_claimed(demand.claim.hash), pools.find(lost.name)
    if pool is None or pool.labels != lost.labels:
        raise StaleView(f"node pool {lost.name} changed, so it was not deleted")
    attempt = pool.owner.attempt if pool.owner else 0
    tried = demand.on_attempt(attempt)
    decision, filling = _look(tried, pod, pool, ports)
    found = AttemptDecision(attempt=attempt, decision=decision)
    if decision.verdict != Verdict.DELETE:
        return found
    last_look = partial(_look_again, tried, pod, pool, ports, filling)
    unused = _leave_out_used(demand, own, pool, ports, turn)
    others = any(each.name != pool.name and each.status not in LOST for each in unused)
    if filling is None or others or find_newest(unused) != pool:
        return replace_pool(demand, pool, found, ports, None, turn, last_look=last_look)
    create = decide_provision(demand, None, now=now, settings=ports.settings)
    if create.verdict != Verdict.CREATE:
        return replace(found, decision=create)
    used = {each.owner.attempt for each in own if each.owner}
    error = find_error(tried, pod, pool, filling, now=now)
    failed = record_empty(pool, error, seconds=find_patience(tried, ports.settings))
    following = decide_next_attempt(demand, create, failed, used=used, now=now)
    if following.decision.verdict != Verdict.CREATE:
        return following
    if turn.limits:
        turn.limits.forget()  # this sweep may have deleted pools since it listed them
    # The pool is the record of its failure: it goes once the limits have room for the next one.
    leave = partial(replace_pool, demand, pool, found, ports, None, turn, last_look=last_look)
    make_room = cache(lambda: leave().decision)
    instead = replace(turn, replaced=(*turn.replaced, pool.name), make_room=make_room)
    made = create_allowed(demand, following, ports, pools, instead)
    sent = made.decision.verdict == Verdict.CREATE or made.decision.reason in REFUSED_BY_GKE
    return made if sent else replace(made, attempt=attempt)


def _leave_out_used(
    demand: Demand, own: Sequence[PoolSnapshot], pool: PoolSnapshot, ports: Ports, turn: Turn
) -> Sequence[PoolSnapshot]:
    """Return the pools of a slice without those that other slices of its workload use."""
    if own == [pool] or turn.workload is None or not may_swap(turn.workload):
        return own
    seen, mine = read_occupancy(demand.claim.cluster, turn.workload, ports, pools=own), demand.claim.slice_name
    return [each for each in own if not seen.count_slices_on(each.name).keys() - {mine}]


def _look(demand: Demand, pod: PodView, pool: PoolSnapshot, ports: Ports) -> tuple[Decision, Filling | None]:
    """Return what follows from the nodes of a pool, and what keeps it empty; None if it is not."""
    cluster = demand.claim.cluster
    nodes = read_live(cluster, ports).clusters[cluster].list_pool_nodes(pool.name)
    filling = read_filling(cluster, pod, pool, ports) if is_empty(pool, nodes) else None
    decide = partial(decide_empty, filling=filling) if filling else partial(decide_lost, nodes=nodes)
    decision = decide(demand, pod, pool, now=ports.clock.now(), settings=ports.settings)
    if decision is None:
        raise StaleView(f"node pool {pool.name} has its nodes again, so it was not deleted")
    return decision, filling


def _look_again(
    demand: Demand, pod: PodView, pool: PoolSnapshot, ports: Ports, before: Filling | None
) -> Decision:
    """Return what follows from the nodes now; if its machines are not known any more, it stays."""
    decision, filling = _look(demand, pod, pool, ports)
    unread = before and before.machines and filling and not filling.machines
    return decide_unread(pool) if unread else decision
