"""Makes one attempt to give a slice a pool: decides about the pool of its name, and does it.

After a failed creation it goes on with the next attempt, under a new name. The failed pool is kept
as the record of the failure until the next one was submitted, and is deleted then.
"""

from __future__ import annotations

import logging
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from shared.core.decide.attempts import (
    AttemptDecision,
    decide_after_creation,
    decide_after_refusal,
    decide_next_attempt,
    decide_removal,
    find_newest,
    is_refused_at_once,
    record_failure,
)
from shared.core.decide.cluster_stops import decide_other_cluster
from shared.core.decide.collect import decide_collect, decide_whole, is_whole
from shared.core.decide.demands import decide_left
from shared.core.decide.elastic_sizes import decide_growth
from shared.core.decide.failures import decide_gke_answer
from shared.core.decide.needed_pools import sort_own_attempts
from shared.core.decide.pool_facts import count_pods
from shared.core.decide.pool_use import decide_replacement
from shared.core.decide.provision import decide_created, decide_provision, decide_sent, limit_autoscaled
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.errors import (
    AlreadyExists,
    Busy,
    InvalidRequest,
    LabelBudgetExceeded,
    NoCapacity,
    NoPlace,
    ProvisionerError,
    StaleView,
    Throttled,
)
from shared.core.identity.names import build_pool_name
from shared.core.identity.pools import BROKEN, PoolStatus
from shared.core.nodepool import build_node_pool
from shared.engine.changes import (
    create_pool,
    delete_pool,
    expect_no_other,
    expect_owner,
    look_again_if_old,
    resize_pool,
)
from shared.engine.looks.gather import gather_again, is_other, read_cluster_uid, read_namespace_obstacle
from shared.engine.steps.release_pools import release_pool
from shared.engine.tell import tell_foreign_pods

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shared.core.identity.pools import PoolSnapshot
    from shared.engine.looks.look import Turn

_RECORD = (Verdict.KEEP, Reason.POOL_FAILED)
"""What is decided about a pool that is only the record of a failed creation."""
_LOG = logging.getLogger("attempts")
FIRST_ATTEMPT = 0


def make_attempt(turn: Turn, attempt: int) -> AttemptDecision:
    """Decide about the pool of one attempt and do it; return the attempt that it came to.

    Raises:
        Retryable: something could not be read, or has changed; nothing was done.
    """
    look, demand = turn.look, turn.demand.on_attempt(attempt)
    turn, name = replace(turn, demand=demand), build_pool_name(demand.claim, attempt)
    usage = look.limits.measure(demand, name, *turn.replaced) if look.limits else None
    known = turn.pools.find(name)
    decision = decide_provision(demand, known, now=look.now(), settings=look.settings, usage=usage)
    if decision.verdict == Verdict.DELETE:
        # The list may be minutes old, and this sweep may have deleted the pool: read and decide
        # again.
        known = look.get_pool(name)
        if known is None:
            expect_no_other(look, demand, name)
        decision = decide_provision(demand, known, now=look.now(), settings=look.settings, usage=usage)
    found = AttemptDecision(attempt=attempt, decision=decision)
    if decision.verdict == Verdict.CREATE and look.had_pool:
        return replace(found, decision=decide_left(name))
    if decision.verdict == Verdict.CREATE:
        found = decide_after_creation(demand, found, turn.find_gone(), since=turn.since, now=look.now())
        return create_allowed(turn, found)
    if decision.verdict == Verdict.DELETE and known is not None:
        return replace_pool(turn, known, found)
    if demand.elastic and known is not None and decision.reason == Reason.POOL_SERVES:
        return replace(found, decision=grow_pool(turn, known))
    return found


def create_allowed(turn: Turn, found: AttemptDecision) -> AttemptDecision:
    """Create the pool of an attempt, unless its namespace or a wrong cluster forbids it.

    A candidate that GKE refuses at once leaves no pool, so the next one follows here; without any
    pool a round has them all. If its pool is there, the list was too old: quota comes before names.
    """
    if found.decision.verdict != Verdict.CREATE:
        return found
    look, demand = turn.look, turn.demand
    if is_other(look.live, turn.pools):
        return replace(found, decision=decide_other_cluster())
    if obstacle := read_namespace_obstacle(look, demand):
        return replace(found, decision=obstacle)
    cluster_uid, first = read_cluster_uid(look.live), 0 if turn.own else found.attempt
    made = _create(turn, found, cluster_uid)
    while (following := decide_after_refusal(demand, made, used=turn.used, first=first)) is not None:
        name = build_pool_name(demand.claim, made.attempt)
        if look.get_pool(name) is not None:  # assumes: quota-before-names
            raise StaleView(f"GKE refuses to create node pool {name}, which is there")
        made = _create(turn, following, cluster_uid)
    return made


def _create(turn: Turn, found: AttemptDecision, cluster_uid: str) -> AttemptDecision:
    look, name, decision = turn.look, build_pool_name(turn.demand.claim, found.attempt), found.decision
    demand = limit_autoscaled(turn.demand.on_attempt(found.attempt), turn.pools, look.settings)
    turn, places, frees = replace(turn, demand=demand), look.ports.places, bool(turn.make_room)
    try:
        with places.turn(look.cluster) if places else nullcontext():
            if places and places.is_sent(look.cluster, name, turn.pools, now=look.now(), frees=frees):
                return replace(found, decision=decide_sent(name))
            body = build_node_pool(
                demand,
                attempt=found.attempt,
                created_at=int(look.now()),
                settings=look.settings,
                cluster_uid=cluster_uid,
                on_channel=bool(look.ports.pools.find_channel(look.cluster)),
            )
            done = create_pool(turn, decision, body)
    except NoPlace as error:
        if turn.demand.before_pods or found.attempt:  # no end of an operation is for these
            raise Throttled(str(error)) from error
        raise
    except (LabelBudgetExceeded, NoCapacity, InvalidRequest) as error:
        return replace(found, decision=decide_gke_answer(name, "created", error))
    except (AlreadyExists, Busy) as conflict:
        return _look_and_decide(turn, found.attempt, conflict)
    return replace(found, decision=decide_created(decision, name) if done is decision else done)


def _look_and_decide(turn: Turn, attempt: int, conflict: AlreadyExists | Busy) -> AttemptDecision:
    """Read the pool behind a conflict, which is often our own earlier request, and decide."""
    look, demand = turn.look, turn.demand
    name = build_pool_name(demand.claim, attempt)
    pool = look.get_pool(name)
    if pool is None:
        if isinstance(conflict, Busy):
            raise conflict  # an operation on the cluster; the pool does not exist yet
        message = f"GKE reports that node pool {name} exists, but does not return it: {conflict}"
        raise StaleView(message) from conflict
    decision = decide_provision(demand, pool, now=look.now(), settings=look.settings)
    found = AttemptDecision(attempt=attempt, decision=decision)
    if decision.verdict == Verdict.DELETE:
        return replace_pool(replace(turn, pools=look.list_pools()), pool, found)
    if demand.elastic and decision.reason == Reason.POOL_SERVES:
        return replace(found, decision=grow_pool(turn, pool))
    return found


def replace_pool(
    turn: Turn, pool: PoolSnapshot, found: AttemptDecision, *, last_look: Callable[[], Decision] | None = None
) -> AttemptDecision:
    """Delete a pool that its own demand cannot use; a later look creates it again.

    The pods on it are read now, and so is the owner, because a sweep shares its reads: it must be
    as the decision found it. If the turn takes too long, a later delivery or sweep decides again. A
    pool with errors of the wanted shape is looked at as a whole, because it may have served until
    now. If it is only the record of a failed creation, the next attempt follows.

    Raises:
        Retryable: something could not be read, has changed, or that took too long.
    """
    look, decision = turn.look.unshared(), found.decision
    if pool.status in BROKEN and decision.reason != Reason.POOL_DIFFERS and last_look is None:
        seen = release_pool(look, pool, pools=turn.own or [pool])
        released = seen.decision
        if turn.demand.before_pods and released.verdict == Verdict.KEEP and is_whole(seen.facts):
            return replace(found, decision=decide_whole(pool.name))
        if (released.verdict, released.reason) != _RECORD:
            return replace(found, decision=released)
        return _move_on(turn, pool)
    bound = look.live.list_pool_pods(pool.name)
    lost = pool if decision.reason == Reason.POOL_DEGRADED else None
    decision = decide_replacement(decision, bound, lost=lost)
    if decision.verdict != Verdict.DELETE:
        pods = count_pods(pool.owner, bound, now=look.now(), drain_seconds_max=look.settings.drain_seconds_max)
        tell_foreign_pods(look.live, pool, pods.others, kinds=look.settings.kinds)
        return replace(found, decision=decision)
    if (was := turn.workload) is not None:
        now = look.live.get_workload(was.kind, was.namespace, was.name)
        if now is None or (now.uid, now.generation) != (was.uid, was.generation):
            raise StaleView(f"{was.kind} {was.namespace}/{was.name} changed, so {pool.name} was not deleted")
    decision = delete_pool(look, pool, decision, looked_at=turn.looked_at, last_look=last_look)
    return replace(found, decision=decision)


def _move_on(turn: Turn, failed: PoolSnapshot) -> AttemptDecision:
    """Follow a failed creation: pause, refuse, or submit the next attempt in its place.

    The failed pool was never made and holds nothing.

    Raises:
        StaleView: the pools of the claim are not as the decision found them.
    """
    look, demand = turn.look, turn.demand
    create = decide_provision(demand, None, now=look.now(), settings=look.settings)
    if create.verdict != Verdict.CREATE:
        return AttemptDecision(attempt=failed.owner.attempt if failed.owner else 0, decision=create)
    found = _decide_following(turn, create, failed)
    if found.decision.verdict != Verdict.CREATE:
        return found
    known = turn.own
    turn = replace(turn, pools=look.list_pools())  # those that are known may be from the begin of a sweep
    newest = find_newest(turn.own)
    if newest is None or newest.name != failed.name or newest.status != PoolStatus.ERROR:
        raise StaleView(f"node pool {failed.name} is no longer the newest one of {demand.claim}")
    turn = replace(turn, replaced=(*turn.replaced, failed.name))
    done = create_allowed(turn, found)
    if demand.choices > 1 and is_refused_at_once(done.decision):
        # The rest of the round has failed too, and the failed pool is the only record of the round.
        failure = replace(record_failure(demand, failed, None), attempt=done.attempt, candidate=None)
        failure = replace(failure, error=done.decision.message)
        done = create_allowed(turn, decide_next_attempt(demand, create, failure, used=turn.used, now=look.now()))
    if done.decision.verdict == Verdict.CREATE:
        _delete_record(turn, newest.name, build_pool_name(demand.claim, done.attempt), known)
    return done


def _decide_following(turn: Turn, create: Decision, failed: PoolSnapshot) -> AttemptDecision:
    """Return what follows a failed pool, or a later creation that left no pool."""
    demand, now, used = turn.demand, turn.look.now(), turn.used
    last = turn.look.creations.find_newest(demand.claim) if turn.look.creations else None
    following = decide_next_attempt(demand, create, record_failure(demand, failed, last), used=used, now=now)
    gone = turn.find_gone()
    if gone and following.decision.verdict == Verdict.CREATE and (gone.error or not gone.ended):
        return decide_after_creation(demand, replace(following, decision=create), gone, since=turn.since, now=now)
    return following


def _delete_record(turn: Turn, failed: str, following: str, known: list[PoolSnapshot]) -> None:
    """Delete a failed pool whose next attempt was submitted; else the sweep does it.

    It is looked at once more, because its nodes may have come while that was submitted.
    """
    look = turn.look.unshared()
    looked_at = look.now()
    try:
        if (facts := gather_again(look, failed, pools=known)) is None:
            return
        outcome = decide_collect(facts, now=look.now(), settings=look.settings)
        if (outcome.verdict, outcome.reason) == _RECORD:
            removal = decide_removal(facts.pool, following)
            outcome = delete_pool(look, facts.pool, removal, looked_at=looked_at)
    except ProvisionerError as error:
        _LOG.info("a failed node pool is left to the sweep", extra={"pool": failed, "error": str(error)})
        return
    _LOG.info(outcome.message, extra={"pool": failed, "decision": outcome.verdict, "reason": outcome.reason})


def grow_pool(turn: Turn, pool: PoolSnapshot) -> Decision:
    """Give a running elastic pool nodes for all of its pods.

    GKE refuses a resize while another one is in progress, and accepts a smaller size. So the size
    is measured again when the measurement is too old, and the pool never becomes smaller.

    Raises:
        Retryable: GKE could not be asked, each look took too long, or a person changed the owner.
    """
    turn = replace(turn, replaced=(), make_room=None)
    return look_again_if_old(partial(_grow, turn, pool))


def _grow(turn: Turn, pool: PoolSnapshot) -> Decision:
    look, demand, looked_at = turn.look, turn.demand, turn.look.now()
    size = look.ports.pools.measure(pool)  # assumes: one-operation
    usage = look.limits.measure(demand, pool.name) if look.limits else None
    decision = decide_growth(demand, pool.name, size=size, settings=look.settings, usage=usage)
    if decision.verdict != Verdict.RESIZE:
        return decision
    if obstacle := read_namespace_obstacle(look, demand):
        return obstacle
    expect_owner(look, pool)
    try:
        return resize_pool(turn, pool.name, decision, looked_at=looked_at)
    except (Busy, NoCapacity, InvalidRequest) as error:
        return decide_gke_answer(pool.name, "resized", error)


def list_attempts(turn: Turn, first: int = FIRST_ATTEMPT) -> Sequence[int]:
    """Return the attempts of a slice in the order of the looks; the first one without a pool."""
    demand = turn.demand
    if demand.elastic and demand.choices == 1:
        return [first]  # there is one name
    return sort_own_attempts(demand.claim.hash, turn.pools, fingerprint=demand.fingerprint) or [first]
