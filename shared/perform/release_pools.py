"""Deletes the pools of a workload that has ended: read, decide, read and decide again, delete."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING

from shared.core.decide.cluster_proof import decide_unproven
from shared.core.decide.collect import (
    decide_absent_pool,
    decide_collect,
    decide_over_cap,
    decide_without_pools,
    needs_cap,
)
from shared.core.decide.error_answers import decide_gke_answer
from shared.core.decide.freshness import LOOKS_MAX, is_fresh
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.errors import Busy, OldLook, ProvisionerError, Retryable, Unavailable
from shared.core.identity.pools import PoolStatus
from shared.perform.emergency_stop import find_stop
from shared.perform.explain import explain
from shared.perform.gather import OwnerReader, gather_again, gather_facts
from shared.perform.keep_warm import mark_nodes
from shared.perform.outcome import Outcome, describe_pool_outcome
from shared.perform.prove_cluster import is_proven
from shared.perform.shared_reads import LOOK_SECONDS, share_looks
from shared.perform.side_by_side import run_paced
from shared.perform.sweep_report import name_error
from shared.perform.tell_squatters import tell_squatters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shared.core.decide.pool_facts import PoolFacts
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.messages import Event, ObjectName
    from shared.core.ports import Ports
    from shared.core.workloads import Parent
    from shared.perform.deletion_cap import DeletionCap


def collect(event: Event, ports: Ports) -> list[Outcome]:
    """Answer one event about a workload: look at its pools and delete those that are not needed.

    Pools are looked at side by side. An error about one pool never stops the others; it is raised
    when all have been looked at. What GKE refuses with 429 is tried again while there is time.

    Raises:
        Retryable: something could not be read or is in progress; deliver the event again.
        Denied: a permission is missing.
    """
    subject = event.subject
    named = [pool for pool in ports.pools.list(event.cluster) if _is_named(pool, event.subject)]
    found = [pool for pool in named if pool.owner and pool.owner.owner_uid in ("", event.subject.uid)]
    # Pools that are being deleted come last, so that each delivery gets further than the last.
    found.sort(key=lambda pool: pool.status == PoolStatus.STOPPING)
    outcomes = collect_pools(event.cluster, found, ports, named=named)
    if not outcomes:
        decision = decide_without_pools(str(subject))
        outcomes = [Outcome(decision=decision, cluster=event.cluster, subject=str(subject))]
    return outcomes


def collect_pools(
    cluster: str, found: Sequence[PoolSnapshot], ports: Ports, *, named: Sequence[PoolSnapshot]
) -> list[Outcome]:
    """Decide about pools of one workload and do it, side by side.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        found: the pools.
        ports: the outside world.
        named: at least all pools of workloads of this name.

    Raises:
        Retryable: something could not be read. The other pools were looked at.
        Denied: a permission is missing.
    """
    first, again = share_looks(cluster, ports), share_looks(cluster, ports)
    tasks = [partial(collect_pool, cluster, pool, ports, pools=named, first=first, again=again) for pool in found]
    done = run_paced(tasks, ports)
    errors = [name_error(each) for each in done if isinstance(each, Exception)]
    if errors:  # an error that a person must repair comes before one that a retry repairs
        raise min(errors, key=lambda each: isinstance(each, Retryable))
    return [each for each in done if not isinstance(each, Exception)]


def _is_named(pool: PoolSnapshot, subject: ObjectName) -> bool:
    """Return whether a pool belongs to a workload of this name, of whichever UID."""
    owner = pool.owner
    named = (subject.kind, subject.namespace, subject.name)
    return owner is not None and (owner.kind, owner.namespace, owner.name) == named


def collect_pool(
    cluster: str,
    pool: PoolSnapshot,
    ports: Ports,
    *,
    pools: Sequence[PoolSnapshot],
    first: Ports | None = None,
    again: Ports | None = None,
) -> Outcome:
    """Decide about one of our pools and do it.

    `pools` has at least all pools of workloads of its owner's name. `first` and `again`, from
    `share_looks`, read the owner for the first look and for the one before the delete.

    Raises:
        Retryable: something could not be read, or another operation is in progress.
    """
    seen = gather_facts(pool, OwnerReader(cluster, first or ports), pools=pools)
    decision = decide_collect(seen.facts, now=ports.clock.now(), settings=ports.settings)
    if is_due_for_a_look(decision):
        decision = release_pool(cluster, pool, ports, pools=pools, owners=again)
    explain(ports.clusters[cluster], decision, objects=(seen.workload, *list_parents(decision, seen.facts)))
    return describe_pool_outcome(cluster, pool, decision)


def is_due_for_a_look(decision: Decision) -> bool:
    """Return whether a decision on the owner alone needs the second look, at nodes and pods."""
    return decision.verdict == Verdict.DELETE or decision.reason == Reason.POOL_WARM


def list_parents(decision: Decision, facts: PoolFacts) -> list[Parent]:
    """Return the parent of a pool's owner, if the decision is about it."""
    return [facts.parent] if facts.parent and decision.reason == Reason.PARENT_OVER else []


def release_pool(
    cluster: str,
    seen: PoolSnapshot,
    ports: Ports,
    *,
    pools: Sequence[PoolSnapshot],
    owners: Ports | None = None,
    cap: DeletionCap | None = None,
    displaced_by: str = "",
) -> Decision:
    """Delete a pool after one more look at the pool, its owner by UID and the pods bound to it.

    The second decision counts, so a pool that has changed is judged as it is now. A look that is
    too old when the deletion is about to be submitted is made again.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        seen: the pool.
        ports: the outside world.
        pools: at least all pools of workloads of its owner's name.
        owners: reads owners for the looks of a batch, from `share_looks`. The time for which a read
            may be shared counts as the age of the look.
        cap: that of a sweep. Only a sweep marks nodes of pools that may stay idle.
        displaced_by: the demand for which an idle pool makes room; empty without one.

    Raises:
        Retryable: something could not be read, or each look took too long; nothing was deleted.
    """
    old = OldLook(f"node pool {seen.name} was not deleted, because its nodes change")
    for _ in range(LOOKS_MAX):
        looked_at = ports.clock.now() - (LOOK_SECONDS if owners else 0.0)
        facts = gather_again(cluster, seen.name, ports, pools=pools, owners=owners)
        if facts is None:
            return decide_absent_pool(seen.name)
        facts = dataclasses.replace(facts, displaced_by=displaced_by)
        decision = decide_collect(facts, now=ports.clock.now(), settings=ports.settings)
        if decision.reason == Reason.POOL_IN_USE:
            tell_squatters(cluster, facts.pool, facts.others, ports)
        try:
            marked = mark_nodes(cluster, facts, ports, looked_at=looked_at) if cap is not None else False
            if marked is True:
                continue  # the nodes are closed to new pods: look who came before that
            if decision.verdict != Verdict.DELETE or marked:
                return marked or decision
            limited = cap if needs_cap(facts) else None
            return delete_pool(cluster, facts.pool, decision, ports, looked_at=looked_at, cap=limited)
        except OldLook as error:
            old = error
        except Busy as error:
            return decide_gke_answer(seen.name, "deleted", error)
    raise old


def delete_pool(
    cluster: str,
    pool: PoolSnapshot,
    decision: Decision,
    ports: Ports,
    *,
    looked_at: float,
    cap: DeletionCap | None = None,
    last_look: Callable[[], Decision] | None = None,
) -> Decision:
    """Submit the deletion of a pool that was looked at just now; return what came of it.

    Each deletion of the product comes through here, so each one has a proof of its cluster.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        pool: as the look found it.
        decision: why it is deleted.
        ports: the outside world.
        looked_at: when the first read of the look began, in unix seconds.
        cap: what a sweep may still delete; None if this deletion is not limited.
        last_look: decides again from what may change without a change of the pool or a pod. Nothing
            else is read between it and the deletion.

    Raises:
        OldLook: the look is too old; nothing was deleted.
        Retryable: GKE could not be asked, or another operation holds the pool.
    """
    if not is_proven(cluster, pool, ports):
        return decide_unproven(pool.name)
    if stopped := find_stop(cluster, decision, ports):
        return stopped
    if last_look is not None and (now := last_look()).verdict != Verdict.DELETE:
        return now
    if not is_fresh(looked_at, now=ports.clock.now(), objects=pool.node_count):
        raise OldLook(f"node pool {pool.name} was not deleted, because the look at it took too long")
    if cap is not None and not cap.take():
        return decide_over_cap(pool.name, ports.settings)
    try:
        ports.pools.delete(cluster, pool.name)
    except ProvisionerError as error:
        if cap is not None and not isinstance(error, Unavailable):
            cap.give_back()  # GKE has surely not begun
        raise
    return decision
