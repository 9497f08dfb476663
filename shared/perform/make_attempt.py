"""Makes one attempt to give a slice a pool: decides about the pool of its name, and does it.

After a failed creation it goes on with the next attempt, under a new name. The failed pool is kept
as the record of the failure until the next one was submitted, and is deleted then.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from shared.core.decide.attempts import (
    AttemptDecision,
    decide_after_creation,
    decide_after_refusal,
    decide_next_attempt,
    decide_removal,
    find_newest,
    record_failure,
)
from shared.core.decide.broken_pools import BROKEN
from shared.core.decide.cluster_proof import decide_other_cluster
from shared.core.decide.collect import decide_collect
from shared.core.decide.ended import decide_left
from shared.core.decide.error_answers import decide_gke_answer
from shared.core.decide.pool_facts import list_others
from shared.core.decide.pool_use import decide_replacement
from shared.core.decide.provision import decide_created, decide_provision, limit_autoscaled
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.errors import (
    AlreadyExists,
    Busy,
    InvalidRequest,
    LabelBudgetExceeded,
    NoCapacity,
    OldLook,
    ProvisionerError,
    StaleView,
)
from shared.core.identity.names import build_pool_name
from shared.core.identity.pool_index import PoolIndex
from shared.core.identity.pools import PoolStatus
from shared.core.nodepool import build_node_pool
from shared.perform.act_within_limits import act_within_limits
from shared.perform.before_create import expect_no_other, read_again
from shared.perform.gather import gather_again, read_namespace_obstacle
from shared.perform.prove_cluster import is_other, read_cluster_uid
from shared.perform.release_pools import delete_pool, release_pool
from shared.perform.resize_pools import grow_pool
from shared.perform.shared_reads import read_live
from shared.perform.tell_squatters import tell_squatters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from shared.core.demand.demand import Demand
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import Ports
    from shared.core.workloads import WorkloadView
    from shared.perform.act_within_limits import Limits
    from shared.perform.creation_list import Creations
    from shared.perform.deletion_cap import DeletionCap

LOOK_SECONDS_MAX = 30.0
"""How long after the first look of a turn it may create a slice's pool. A failed attempt whose pool
is gone again, while the next one lives, takes longer than twice this time."""
_RECORD = (Verdict.KEEP, Reason.POOL_FAILED)
"""What is decided about a pool that is only the record of a failed creation."""
_LOG = logging.getLogger("attempts")


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of answering a pod."""

    looked_at: float
    """Unix seconds before the owner was read, for the deletion or creation that may come of it."""
    cap: DeletionCap | None
    limits: Limits | None
    creations: Creations | None
    """What GKE says of pools that it has created; None if that is not read."""
    replaced: tuple[str, ...] = ()
    """In whose place a pool is created, so that they do not count against limits: the failed pool,
    and the one for which the slice's gang has reserved."""
    make_room: Callable[[], Decision] | None = None
    """Deletes that pool before the next one is created; None if it is deleted after that."""
    workload: WorkloadView | None = None
    """The owner as it was read. In a sweep, the read may be older than the turn."""
    had_pool: bool = False
    """The slice has had a pool: if it has none now, the sweep creates it."""
    since: float = 0.0
    """Unix seconds of the end of an earlier pause; the failures before it give no other one."""


def make_attempt(
    demand: Demand, attempt: int, ports: Ports, pools: Sequence[PoolSnapshot], turn: Turn
) -> AttemptDecision:
    """Decide about the pool of one attempt and do it; return the attempt that it came to.

    Args:
        demand: what the slice needs.
        attempt: the attempt to begin with.
        ports: the outside world.
        pools: every pool of the cluster.
        turn: of answering the pod.

    Raises:
        Retryable: something could not be read, or has changed; nothing was done.
    """
    settings, now, demand = ports.settings, ports.clock.now(), demand.on_attempt(attempt)
    name = build_pool_name(demand.claim, attempt)
    usage = turn.limits.measure(demand, name, *turn.replaced) if turn.limits else None
    pools = PoolIndex.of(pools)
    known = pools.find(name)
    decision = decide_provision(demand, known, now=now, settings=settings, usage=usage)
    if decision.verdict == Verdict.DELETE:
        # The list may be minutes old, and this sweep may have deleted the pool: read and decide
        # again.
        known = ports.pools.get(demand.claim.cluster, name)
        if known is None:
            expect_no_other(demand, name, ports)
        decision = decide_provision(demand, known, now=ports.clock.now(), settings=settings, usage=usage)
    found = AttemptDecision(attempt=attempt, decision=decision)
    if decision.verdict == Verdict.CREATE and turn.had_pool:
        return _with(found, decide_left(name))
    if decision.verdict == Verdict.CREATE:
        found = _read_creations(demand, found, pools, ports, turn)
        return create_allowed(demand, found, ports, pools, turn)
    if decision.verdict == Verdict.DELETE and known is not None:
        return replace_pool(demand, known, found, ports, pools, turn)
    if demand.elastic and known is not None and decision.reason == Reason.POOL_SERVES:
        grown = grow_pool(demand, known, ports, turn.limits, read_at=None)
        return AttemptDecision(attempt=attempt, decision=grown)
    return found


def _read_creations(
    demand: Demand,
    create: AttemptDecision,
    pools: Sequence[PoolSnapshot],
    ports: Ports,
    turn: Turn,
) -> AttemptDecision:
    """Return the decision to create, with what GKE's list of operations adds if it is read."""
    if turn.creations is None:
        return create
    own = PoolIndex.of(pools).list_claimed(demand.claim.hash)
    last = turn.creations.find_newest(demand.claim)
    if last is None or last.pool in {pool.name for pool in own}:
        return create
    return decide_after_creation(demand, create, last, since=turn.since, now=ports.clock.now())


def create_allowed(
    demand: Demand, found: AttemptDecision, ports: Ports, pools: Sequence[PoolSnapshot], turn: Turn
) -> AttemptDecision:
    """Create the pool of an attempt, unless its namespace or a wrong cluster forbids it.

    A candidate that GKE refuses at once leaves no pool, so the next one of its round follows here.
    A pool of that name shows that the list was too old: GKE may check quota before names.
    """
    if found.decision.verdict != Verdict.CREATE:
        return found
    live = ports.clusters[demand.claim.cluster]
    # The pod of a message was read by its UID: an API of another cluster does not have it.
    if turn.cap is not None and is_other(live, pools):
        return _with(found, decide_other_cluster())
    obstacle = read_namespace_obstacle(demand, ports)
    if obstacle is not None:
        return _with(found, obstacle)
    cluster_uid = read_cluster_uid(live)
    made = _create(demand, found, ports, pools, turn, cluster_uid)
    while (following := decide_after_refusal(demand, made)) is not None:
        name = build_pool_name(demand.claim, made.attempt)
        if ports.pools.get(demand.claim.cluster, name) is not None:
            raise StaleView(f"GKE refuses to create node pool {name}, which is there")
        made = _create(demand, following, ports, pools, turn, cluster_uid)
    return made


def _with(found: AttemptDecision, decision: Decision) -> AttemptDecision:
    return replace(found, decision=decision)


def _create(
    demand: Demand,
    found: AttemptDecision,
    ports: Ports,
    pools: Sequence[PoolSnapshot],
    turn: Turn,
    cluster_uid: str,
) -> AttemptDecision:
    name, decision = build_pool_name(demand.claim, found.attempt), found.decision
    demand = limit_autoscaled(demand.on_attempt(found.attempt), pools, ports.settings)
    if ports.places:
        ports.places.expect_free(demand.claim.cluster, pools, now=ports.clock.now())
    try:
        body = build_node_pool(
            demand,
            attempt=found.attempt,
            created_at=int(ports.clock.now()),
            settings=ports.settings,
            cluster_uid=cluster_uid,
        )
        create = partial(_submit, demand, body, ports, pools, turn)
        done = act_within_limits(
            demand,
            name,
            decision,
            create,
            ports,
            turn.limits,
            instead_of=turn.replaced,
            make_room=turn.make_room,
        )
    except (LabelBudgetExceeded, NoCapacity, InvalidRequest) as error:
        return _with(found, decide_gke_answer(name, "created", error))
    except (AlreadyExists, Busy) as conflict:
        return _look_and_decide(demand, found.attempt, conflict, ports, turn)
    return _with(found, decide_created(decision, name) if done is decision else done)


def _submit(
    demand: Demand, body: Mapping[str, Any], ports: Ports, pools: Sequence[PoolSnapshot], turn: Turn
) -> None:
    """Submit a pool. If it has a number, it needs a look of just now: the name may be used up."""
    numbered, name, cluster = not demand.elastic or demand.choices > 1, body["name"], demand.claim.cluster
    if numbered:
        read_again(demand, name, ports, pools)
        if not 0 <= ports.clock.now() - turn.looked_at <= LOOK_SECONDS_MAX:
            raise OldLook(f"node pool {name} was not created, because the look at its slice took too long")
    create = partial(ports.pools.create, cluster, body)
    if ports.places:
        ports.places.send(create, cluster, name, pools, now=ports.clock.now())
    else:
        create()


def _look_and_decide(
    demand: Demand, attempt: int, conflict: AlreadyExists | Busy, ports: Ports, turn: Turn
) -> AttemptDecision:
    """Read the pool behind a conflict, which is often our own earlier request, and decide."""
    read_at, name = ports.clock.now(), build_pool_name(demand.claim, attempt)
    pool = ports.pools.get(demand.claim.cluster, name)
    if pool is None:
        if isinstance(conflict, Busy):
            raise conflict  # an operation on the cluster; the pool does not exist yet
        said = f"GKE reports that node pool {name} exists, but does not return it: {conflict}"
        raise StaleView(said) from conflict
    decision = decide_provision(demand, pool, now=ports.clock.now(), settings=ports.settings)
    found = AttemptDecision(attempt=attempt, decision=decision)
    if decision.verdict == Verdict.DELETE:
        return replace_pool(demand, pool, found, ports, None, turn)
    if demand.elastic and decision.reason == Reason.POOL_SERVES:
        return _with(found, grow_pool(demand, pool, ports, turn.limits, read_at=read_at))
    return found


def replace_pool(
    demand: Demand,
    pool: PoolSnapshot,
    found: AttemptDecision,
    ports: Ports,
    pools: Sequence[PoolSnapshot] | None,
    turn: Turn,
    *,
    last_look: Callable[[], Decision] | None = None,
) -> AttemptDecision:
    """Delete a pool that its own demand cannot use; a later look creates it again.

    The pool was read in this turn. The pods on it are read now, and so is the owner, because a
    sweep shares its reads: it must be as the decision found it. If the turn takes too long, a later
    delivery or sweep decides again. A pool with errors of the wanted shape is looked at as a whole,
    as when pools are collected, because it may have served until now. If it is only the record of a
    failed creation, the next attempt follows.

    Raises:
        Retryable: something could not be read, has changed, or that took too long.
    """
    cluster, decision = demand.claim.cluster, found.decision
    shared, ports = ports, read_live(cluster, ports)
    if pool.status in BROKEN and decision.reason != Reason.POOL_DIFFERS:
        own = PoolIndex.of(ports.pools.list(cluster) if pools is None else pools).list_claimed(demand.claim.hash)
        released = release_pool(cluster, pool, ports, pools=own or [pool], cap=turn.cap)
        if (released.verdict, released.reason) != _RECORD:
            return _with(found, released)
        return _move_on(demand, pool, own, shared, turn)
    bound = ports.clusters[cluster].list_pool_pods(pool.name)
    lost = pool if decision.reason == Reason.POOL_DEGRADED else None
    decision = decide_replacement(decision, bound, lost=lost)
    if decision.verdict != Verdict.DELETE:
        drain_seconds_max = ports.settings.drain_seconds_max
        others = list_others(pool.owner, bound, now=ports.clock.now(), drain_seconds_max=drain_seconds_max)
        tell_squatters(cluster, pool, others, ports)
        return _with(found, decision)
    if (was := turn.workload) is not None:
        now = ports.clusters[cluster].get_workload(was.kind, was.namespace, was.name)
        if now is None or (now.uid, now.generation) != (was.uid, was.generation):
            raise StaleView(f"{was.kind} {was.namespace}/{was.name} changed, so {pool.name} was not deleted")
    deleted = delete_pool(
        cluster, pool, decision, ports, looked_at=turn.looked_at, cap=turn.cap, last_look=last_look
    )
    return _with(found, deleted)


def _move_on(
    demand: Demand,
    failed: PoolSnapshot,
    own: Sequence[PoolSnapshot],
    ports: Ports,
    turn: Turn,
) -> AttemptDecision:
    """Follow a failed creation: pause, refuse, or submit the next attempt in its place.

    Args:
        demand: what the slice needs.
        failed: the pool, which was never made and holds nothing.
        own: the pools of the claim.
        ports: the outside world.
        turn: of answering the pod.

    Raises:
        StaleView: the pools of the claim are not as the decision found them.
    """
    cluster, settings = demand.claim.cluster, ports.settings
    create = decide_provision(demand, None, now=ports.clock.now(), settings=settings)
    if create.verdict != Verdict.CREATE:
        return AttemptDecision(attempt=failed.owner.attempt if failed.owner else 0, decision=create)
    found = _decide_following(demand, create, failed, own, ports, turn)
    if found.decision.verdict != Verdict.CREATE:
        return found
    pools = PoolIndex(ports.pools.list(cluster))  # those that are known may be from the begin of a sweep
    newest = find_newest(pools.list_claimed(demand.claim.hash))
    if newest is None or newest.name != failed.name or newest.status != PoolStatus.ERROR:
        raise StaleView(f"node pool {failed.name} is no longer the newest one of {demand.claim}")
    done = create_allowed(demand, found, ports, pools, replace(turn, replaced=(*turn.replaced, failed.name)))
    if done.decision.verdict == Verdict.CREATE:
        _delete_record(newest.name, build_pool_name(demand.claim, done.attempt), cluster, own, ports, turn)
    return done


def _decide_following(
    demand: Demand,
    create: Decision,
    failed: PoolSnapshot,
    own: Sequence[PoolSnapshot],
    ports: Ports,
    turn: Turn,
) -> AttemptDecision:
    """Return what follows a failed pool, or a later creation that left no pool."""
    now, used = ports.clock.now(), {pool.owner.attempt for pool in own if pool.owner}
    last = turn.creations.find_newest(demand.claim) if turn.creations else None
    following = decide_next_attempt(demand, create, record_failure(demand, failed, last), used=used, now=now)
    gone = last if last is not None and last.pool not in {pool.name for pool in own} else None
    if gone is None or following.decision.verdict != Verdict.CREATE:
        return following
    if not gone.ended or gone.error:
        return decide_after_creation(demand, _with(following, create), gone, since=turn.since, now=now)
    return following


def _delete_record(
    failed: str, following: str, cluster: str, own: Sequence[PoolSnapshot], ports: Ports, turn: Turn
) -> None:
    """Delete a failed pool whose next attempt was submitted; else the sweep does it.

    It is looked at once more, because its nodes may have come while that was submitted.
    """
    looked_at, live = ports.clock.now(), read_live(cluster, ports)
    try:
        if (facts := gather_again(cluster, failed, live, pools=own)) is None:
            return
        said = decide_collect(facts, now=ports.clock.now(), settings=ports.settings)
        if (said.verdict, said.reason) == _RECORD:
            removal = decide_removal(facts.pool, following)
            said = delete_pool(cluster, facts.pool, removal, live, looked_at=looked_at, cap=turn.cap)
    except ProvisionerError as error:
        _LOG.info("a failed node pool is left to the sweep", extra={"pool": failed, "error": str(error)})
        return
    _LOG.info(said.message, extra={"pool": failed, "decision": said.verdict, "reason": said.reason})
