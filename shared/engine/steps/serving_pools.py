"""Answers a pod that waits although the pool of its slice runs. The tables decide.

A pool that has lost its nodes, or that GKE's autoscaler cannot fill, is left for the next way of
the list of capacity, also for followers, which wait although their leader runs. Of several pools,
the one on which their slice runs is judged if it lacks nodes, else one of their slice that no other
slice uses.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING

from shared.core.decide.attempts import AttemptDecision, decide_next_attempt, find_newest, record_empty
from shared.core.decide.demands import find_claim, find_demand
from shared.core.decide.failures import REFUSED_BY_GKE
from shared.core.decide.filling import decide_empty, decide_unread, find_error, find_patience, is_empty, is_lacking
from shared.core.decide.needed_pools import plan_pools
from shared.core.decide.pool_use import decide_holder, decide_shared, decide_taken, decide_unplaced, find_takers
from shared.core.decide.provision import decide_provision
from shared.core.decisions import Reason, Verdict
from shared.core.errors import ProvisionerError, StaleView
from shared.core.identity.pools import LOST, RUNNING, PoolStatus
from shared.core.kinds.table import find_kind_of_pod, may_swap
from shared.core.times import measure_seconds
from shared.engine.looks.gather import add_disks, read_filling, read_lost, read_occupancy, read_owner
from shared.engine.looks.look import Turn
from shared.engine.looks.pool_reads import is_resizable
from shared.engine.steps.make_attempt import create_allowed, make_attempt, replace_pool
from shared.engine.tell import Outcome, describe_claim, explain, try_to_read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from shared.core.decide.filling import Filling
    from shared.core.decisions import Decision
    from shared.core.demand.demand import Demand
    from shared.core.identity.pool_index import PoolIndex
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.workloads import PodView
    from shared.engine.looks.gather import OwnerRead
    from shared.engine.looks.look import Look

    Lead = Callable[[PodView, Look], Outcome]
    ReadOwner = Callable[[tuple[str, str, str]], OwnerRead]
_LOG = logging.getLogger("serving_pools")
FOLLOWERS_MAX = 10_000
"""The most waiting followers that one sweep looks at."""


def judge_serving(turn: Turn, pod: PodView, found: AttemptDecision, pool_name: str) -> AttemptDecision:
    """Return what follows if a pod waits although, as was found, the pool of its slice runs.

    Raises:
        Retryable: something could not be read, has changed, or took too long.
    """
    look, pool = turn.look, turn.pools.find(pool_name)
    if held := _judge_holder(turn, pod, found, pool_name):
        return held
    overdue = is_overdue(look, pod, pool)
    old = look.sweeps and pool is not None and pool.is_older(look.settings.grace_seconds, look.now())
    decision = judge_takers(look, pod, turn.pools, pool_name)
    if decision is None and (overdue or old or (pool is not None and pool.autoscaled)):
        decision = judge_unplaced(look, pod, pool, demand=turn.demand, overdue=overdue)
        if pool is not None and decision is not None and decision.verdict == Verdict.DELETE:
            return give_up_lost(turn, pod, pool)
    return replace(found, decision=decision) if decision else found


def _judge_holder(turn: Turn, pod: PodView, found: AttemptDecision, pool_name: str) -> AttemptDecision | None:
    """Return what follows from other pods on the slice's own pool, or from where its pods are.

    If a pool would be given up as the slice's own, it is given up if its pods are there, and is not
    free otherwise. Nor is one that pods of other workloads use.
    """
    look, workload, pools, taken = turn.look, turn.workload, turn.pools, set[str]()
    if workload is None or not may_swap(workload) or turn.demand.elastic:
        return None
    seen, mine = read_occupancy(look, workload, pools=pools), turn.demand.claim.slice_name
    plan = look.make_once(plan_pools, workload.uid, look.cluster, seen, pools, look.settings)
    while seen.list_on(pool_name) or seen.list_hosts_of(mine):
        held = decide_holder(turn.demand, pod, seen, plan, pool_name=pool_name)
        free = pools.find(plan.serving.get(mine, "")) if held is None or held.verdict == Verdict.WAIT else None
        unplaced = judge_unplaced(look, pod, free, demand=turn.demand) if free else None
        lost = unplaced is not None and unplaced.verdict == Verdict.DELETE
        if free and lost and seen.list_on(free.name):
            return replace(found, decision=give_up_lost(turn, pod, free).decision)
        if held is None:
            break
        if held.verdict == Verdict.CREATE:
            return make_attempt(turn, plan.missing.get(mine, 0))
        if free is None or free.name in taken or not (lost or judge_takers(look, pod, pools, free.name)):
            late = free is not None and free.status == PoolStatus.RUNNING and is_overdue(look, pod, free)
            told = unplaced if late and unplaced and unplaced.reason == Reason.POD_UNPLACED else held
            return replace(found, decision=told)
        taken.add(free.name)
        plan = plan_pools(look.cluster, seen, pools, look.settings, taken=taken)
    return None


def is_overdue(look: Look, pod: PodView, pool: PoolSnapshot | None = None) -> bool:
    """Return whether a pod has waited for longer than the grace: its owner must know why.

    A time that cannot be true does not hide a wait: then the pod is overdue, unless the pool that
    it waits for is younger than the grace by our own clock.
    """
    if pod.unschedulable_since is None:
        return False
    waited = measure_seconds(pod.unschedulable_since, look.now())
    if waited is None and pool is not None:
        waited = pool.age_seconds(look.now())
    return waited is None or waited >= look.settings.grace_seconds


def judge_unplaced(
    look: Look, pod: PodView, pool: PoolSnapshot | None, *, demand: Demand | None = None, overdue: bool = True
) -> Decision | None:
    """Return why a pod waits although the pool of its slice runs and nothing else uses it.

    The nodes of the pool say it, if they can be read, and the scheduler's own words. DELETE means
    that another candidate is tried, because the pool has had too few nodes for long, or because
    GKE's autoscaler cannot fill it. Without a demand the pool stays in any case. It is None if the
    pod is not overdue and the nodes are there: the scheduler is about to place it.
    """
    if pool is None:
        return decide_unplaced(pod, None, None) if overdue else None
    read = partial(look.live.list_pool_nodes, pool.name)
    nodes = try_to_read("the nodes of a node pool", read, of=f"node pool {pool.name}")
    if nodes is None:
        unread = decide_unread(pool) if pool.autoscaled else decide_unplaced(pod, pool, None)
        return unread if overdue or pool.autoscaled else None
    now, settings = look.now(), look.settings
    if demand is not None and is_empty(pool, nodes):
        tried = demand.on_attempt(pool.owner.attempt if pool.owner else 0)
        return decide_empty(tried, pod, pool, read_filling(look, pod, pool), now=now, settings=settings)
    # The size of an elastic pool changes, and its own count does not.
    wanted = 0 if is_resizable(pool) else pool.node_count
    if not overdue and not (wanted and is_lacking(pool, nodes, seconds=settings.grace_seconds, now=now)):
        return None
    lost = read_lost(look, demand, pod, pool, nodes) if demand else None
    return lost or decide_unplaced(pod, pool, nodes, wanted=wanted)


def judge_takers(look: Look, pod: PodView, pools: PoolIndex, pool_name: str) -> Decision | None:
    """Return the refusal of a pod whose running pool other workloads use; None when it has to wait.

    The pod must have waited longer than the grace, and the pool must not be younger than it, since
    GKE does not report since when a pool has been running. A pool of unknown age is judged by the
    pod alone, because nothing is deleted. An error is logged and stops nothing.
    """
    now, settings, pool = look.now(), look.settings, pools.find(pool_name)
    ages = (measure_seconds(pod.unschedulable_since, now), pool.age_seconds(now) if pool else None)
    if pool is None or any(each is not None and each < settings.grace_seconds for each in ages):
        return None
    read = partial(look.live.list_pool_pods, pool_name)
    bound = try_to_read("the pods on a node pool", read, of=f"node pool {pool_name}")
    if bound is None:
        return None
    takers = find_takers(pool, bound, now=now, drain_seconds_max=settings.drain_seconds_max)
    return decide_taken(pool, takers, pools=pools)


def give_up_lost(turn: Turn, pod: PodView, lost: PoolSnapshot) -> AttemptDecision:
    """Delete a pool that has too few nodes, after a second look at it and its nodes.

    The last read before the deletion is one of its nodes: a machine on its way keeps the pool.

    If it lost them, a later look begins the list of capacity anew. If GKE's autoscaler could not
    fill it, the next candidate follows at once, or there is a pause before the deletion.

    Raises:
        Retryable: something could not be read, has changed, or took too long.
    """
    look, now = turn.look, turn.look.now()
    turn = replace(turn, pools=look.list_pools())
    pool = turn.pools.find(lost.name)
    if pool is None or pool.labels != lost.labels:
        raise StaleView(f"node pool {lost.name} changed, so it was not deleted")
    attempt = pool.owner.attempt if pool.owner else 0
    tried = turn.demand.on_attempt(attempt)
    decision, filling = _look_at_nodes(look, tried, pod, pool)
    found = AttemptDecision(attempt=attempt, decision=decision)
    if decision.verdict != Verdict.DELETE:
        return found
    last_look = partial(_look_again, look, tried, pod, pool, filling)
    unused = _leave_out_used(turn, pool)
    others = any(each.name != pool.name and each.status not in LOST for each in unused)
    if filling is None or others or find_newest(unused) != pool:
        return replace_pool(turn, pool, found, last_look=last_look)
    create = decide_provision(turn.demand, None, now=now, settings=look.settings)
    if create.verdict != Verdict.CREATE:
        return replace(found, decision=create)
    error = find_error(tried, pod, pool, filling, now=now)
    failed = record_empty(pool, error, seconds=find_patience(tried, look.settings))
    following = decide_next_attempt(turn.demand, create, failed, used=turn.used, now=now)
    if following.decision.verdict != Verdict.CREATE:
        return following
    if look.limits:
        look.limits.forget()  # this sweep may have deleted pools since it listed them
    # The pool is the record of its failure: it goes once the limits have room for the next one.
    make_room = cache(lambda: replace_pool(turn, pool, found, last_look=last_look).decision)
    made = create_allowed(replace(turn, replaced=(*turn.replaced, pool.name), make_room=make_room), following)
    sent = made.decision.verdict == Verdict.CREATE or made.decision.reason in REFUSED_BY_GKE
    return made if sent else replace(made, attempt=attempt)


def _leave_out_used(turn: Turn, pool: PoolSnapshot) -> Sequence[PoolSnapshot]:
    """Return the pools of a slice without those that other slices of its workload use."""
    own, workload, mine = turn.own, turn.workload, turn.demand.claim.slice_name
    if own == [pool] or workload is None or not may_swap(workload):
        return own
    seen = read_occupancy(turn.look, workload, pools=turn.pools)
    return [each for each in own if not seen.count_slices_on(each.name).keys() - {mine}]


def _look_at_nodes(
    look: Look, demand: Demand, pod: PodView, pool: PoolSnapshot
) -> tuple[Decision, Filling | None]:
    """Return what follows from the nodes of a pool, and what keeps it empty; None if it is not."""
    nodes = look.unshared().live.list_pool_nodes(pool.name)
    if is_empty(pool, nodes):
        filling = read_filling(look, pod, pool)
        return decide_empty(demand, pod, pool, filling, now=look.now(), settings=look.settings), filling
    if (lost := read_lost(look, demand, pod, pool, nodes)) is None:
        raise StaleView(f"node pool {pool.name} has its nodes again, so it was not deleted")
    return lost, None


def _look_again(look: Look, demand: Demand, pod: PodView, pool: PoolSnapshot, before: Filling | None) -> Decision:
    """Return what follows from the nodes now; if its machines are not known any more, it stays."""
    decision, filling = _look_at_nodes(look, demand, pod, pool)
    unread = before and before.machines and filling and not filling.machines
    return decide_unread(pool) if unread else decision


def judge_followers(look: Look, pools: PoolIndex, lead: Lead) -> Iterator[tuple[PodView, Outcome | Exception]]:
    """Yield the follower of each slice that has waited the longest, with its outcome.

    One that waits for less than the grace counts only if its pool lacks nodes: pods that give up
    are made anew. Slices that the look has answered are skipped; `lead` answers those without
    leader. A `ProvisionerError` is logged, and any other error takes the outcome's place.
    """
    read_once = cache(lambda home: read_owner(look, home, pools))

    def read() -> list[PodView]:
        found = islice(look.live.list_waiting_followers(), FOLLOWERS_MAX)
        return sorted(found, key=lambda pod: pod.unschedulable_since or 0.0)

    for pod in try_to_read("the waiting follower pods", read, of=look.cluster) or ():
        outcome: Outcome | Exception | None
        try:
            outcome = _judge(look, pod, pools, read_once, lead)
        except ProvisionerError as error:
            fields = {"object": f"Pod {pod.namespace}/{pod.name}", "error": str(error)}
            _LOG.warning("a follower pod could not be answered", extra=fields)
            continue
        except Exception as error:  # noqa: BLE001 -- the net of this pod
            outcome = error
        if outcome is not None:
            yield pod, outcome


def _judge(look: Look, pod: PodView, pools: PoolIndex, read: ReadOwner, lead: Lead) -> Outcome | None:
    kind = find_kind_of_pod(pod)
    waited = measure_seconds(pod.unschedulable_since, look.now())
    overdue = waited is None or waited >= (grace := look.settings.grace_seconds)
    if not pod.unschedulable or pod.deleting or kind is None or kind.name not in look.settings.kinds:
        return None
    home = (kind.name, pod.namespace, kind.find_owner(pod))
    if not overdue and not any(each.is_older(grace, look.now()) for each in pools.list_named(*home)):
        return None
    known = read(home)
    workload = known.workload
    claim = find_claim(look.cluster, pod, workload)
    if workload is None or claim is None or claim.hash in look.answered:
        return None
    own = pools.list_claimed(claim.hash)
    use = known.read_use() if may_swap(workload) or all(each.status in LOST for each in own) else None
    if use and overdue and claim.slice_name not in use[0].led:
        return lead(pod, look)
    look.answered.add(claim.hash)
    free = [each for each in own if use and use[0].count_slices_on(each.name).keys() <= {claim.slice_name}]
    used = pools.find(use[1].serving.get(claim.slice_name, "")) if use else None
    lost = [used] if use and used and use[0].node_counts[used.name] < used.node_count else []
    pool = min((*lost, *free, *own), key=lambda each: each.status != PoolStatus.RUNNING, default=None)
    decision = judge_takers(look, pod, pools, pool.name) if pool else None
    decision = decision or (decide_shared(pod, *use) if use and overdue else None)
    if decision is None:
        demand, looked_at = find_demand(look.cluster, pod, add_disks(look, workload), look.settings), look.now()
        decision = judge_unplaced(look, pod, pool, demand=demand, overdue=overdue)
        if decision is None:
            return None
        if demand and pool and pool.status in RUNNING and decision.verdict == Verdict.DELETE:
            turn = Turn(look=look, demand=demand, pools=pools, looked_at=looked_at, pod=pod, workload=workload)
            decision = give_up_lost(turn, pod, pool).decision
    explain(look.live, decision, workload, pod)
    subject, facts = f"Pod {pod.namespace}/{pod.name}", {"claim": describe_claim(look.cluster, claim)}
    name = pool.name if pool else ""
    return Outcome(decision=decision, cluster=look.cluster, pool=name, subject=subject, facts=facts)
