"""From a hint that a workload is over to its pools given back: look, decide, look and decide again, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core.collect import OwnerState, PoolFacts, PoolPods, decide_collect
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.elastic import has_slice
from shared.core.errors import Busy, ProvisionerError, Retryable
from shared.core.kinds.table import get_kind, select_pods_of
from shared.core.occupancy import find_queued_since
from shared.perform.explain import explain, find_parent
from shared.perform.occupancy import judge_use
from shared.perform.outcome import Outcome, Ports, describe_owner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.events import Event
    from shared.core.names import PoolOwner
    from shared.core.pools import PoolSnapshot
    from shared.core.ports import BoundPod
    from shared.core.workloads import Parent, PodView, WorkloadView


def collect(event: Event, ports: Ports) -> list[Outcome]:
    """Answer one event about a workload: look at its pools and give back those that may go.

    One bad pool never stops the others; the first error is raised when all have been looked at.

    Raises:
        Retryable: something was not ready; deliver the event again.
        Denied: a permission is missing.
    """
    subject = event.subject
    found = [pool for pool in ports.pools.list(event.cluster) if _is_of(pool, event)]
    outcomes: list[Outcome] = []
    errors: list[ProvisionerError] = []
    for pool in found:
        try:
            outcomes.append(collect_pool(event.cluster, pool, ports, pools=found))
        except ProvisionerError as error:
            errors.append(error)
    if errors:  # what a person must mend comes before what a retry will
        raise min(errors, key=lambda each: isinstance(each, Retryable))
    if not outcomes:
        nothing = Decision(Verdict.NOTHING, Reason.POOL_GONE, f"{subject} has no node pools")
        outcomes = [Outcome(decision=nothing, cluster=event.cluster, subject=str(subject))]
    return outcomes


def _is_of(pool: PoolSnapshot, event: Event) -> bool:
    """Return whether a pool was made for the event's workload; a pool without UID is the Go provisioner's."""
    owner, subject = pool.owner, event.subject
    if owner is None or (owner.kind, owner.namespace, owner.name) != (
        subject.kind,
        subject.namespace,
        subject.name,
    ):
        return False
    return owner.owner_uid in ("", subject.uid)


def collect_pool(cluster: str, pool: PoolSnapshot, ports: Ports, *, pools: Sequence[PoolSnapshot]) -> Outcome:
    """Decide about one pool of ours, out of those of its workload at least, and carry it out.

    Raises:
        Retryable: something could not be read or is held by another operation.
    """
    facts, workload = gather_facts(cluster, pool, ports, pools=pools)
    decision = decide_collect(facts, now=ports.clock.now(), settings=ports.settings)
    if decision.verdict == Verdict.DELETE:
        decision = release_pool(cluster, pool, ports, pools=pools)
    explain(ports.clusters[cluster], decision, objects=(workload, *list_parents(decision, facts)))
    return Outcome(
        decision=decision,
        cluster=cluster,
        pool=pool.name,
        subject=f"node pool {pool.name}",
        facts=describe_owner(cluster, pool.owner),
    )


def gather_facts(
    cluster: str, pool: PoolSnapshot, ports: Ports, *, pools: Sequence[PoolSnapshot]
) -> tuple[PoolFacts, WorkloadView | None]:
    """Return what is known about a pool's owner, without the pods on it: enough to decide that it stays."""
    owner = pool.owner
    if owner is None or owner.kind not in ports.settings.kinds:
        return PoolFacts(pool=pool, owner=OwnerState.UNKNOWN), None
    workload, pods = read_owner(cluster, owner, ports)
    state, since = classify_owner(owner, workload, pods)
    state = judge_use(cluster, pool, state, workload, pods, ports, pools=pools)
    gone = state == OwnerState.GONE
    parent = find_parent(ports.clusters[cluster], workload) if state == OwnerState.LIVE and workload else None
    return PoolFacts(pool=pool, owner=state, owner_since=since, parent=parent), None if gone else workload


def list_parents(decision: Decision, facts: PoolFacts) -> list[Parent]:
    """Return what made a pool's owner, where the decision is about it."""
    return [facts.parent] if facts.parent and decision.reason == Reason.PARENT_OVER else []


def read_owner(
    cluster: str, owner: PoolOwner, ports: Ports
) -> tuple[WorkloadView | None, Sequence[PodView] | None]:
    """Return the workload that a pool's labels name, as it is now, and its pods where its kind must see them.

    Raises:
        Retryable: one of them could not be read.
    """
    live = ports.clusters[cluster]
    workload = live.get_workload(owner.kind, owner.namespace, owner.name)
    pods = live.list_workload_pods(workload) if workload and select_pods_of(workload) else None
    return workload, pods


def classify_owner(
    owner: PoolOwner, workload: WorkloadView | None, pods: Sequence[PodView] | None
) -> tuple[OwnerState, float | None]:
    """Return what a workload that was just read (or its absence) means for a pool's owner, and since when."""
    if workload is None or owner.owner_uid not in ("", workload.uid) or workload.deleting:
        return OwnerState.GONE, None
    if owner.slice_name and not has_slice(get_kind(owner.kind), workload, owner.slice_name, pods):
        return OwnerState.GONE, None  # the slice was scaled away
    if workload.terminal:
        return OwnerState.OVER, workload.terminal_since
    if workload.suspended:
        return OwnerState.SUSPENDED, workload.suspended_since
    held = find_queued_since(get_kind(owner.kind), workload, owner.slice_name, pods) if pods else None
    return (OwnerState.LIVE, None) if held is None else (OwnerState.SUSPENDED, held)


def release_pool(cluster: str, seen: PoolSnapshot, ports: Ports, *, pools: Sequence[PoolSnapshot]) -> Decision:
    """Delete a pool after one more look at everything that matters: pool, owner by UID, pods really bound.

    The second decision counts. A pool that changed in between is judged by what it is now.

    Raises:
        Retryable: something could not be read; nothing was deleted.
    """
    pool = ports.pools.get(cluster, seen.name)
    if pool is None:
        return Decision(Verdict.NOTHING, Reason.POOL_GONE, f"node pool {seen.name} is gone")
    facts, _ = gather_facts(cluster, pool, ports, pools=pools)
    pods = ports.clusters[cluster].list_pool_pods(pool.name)
    now = ports.clock.now()
    facts = PoolFacts(
        pool=pool,
        owner=facts.owner,
        owner_since=facts.owner_since,
        pods=count_pods(pool.owner, pods, now=now, drain_seconds_max=ports.settings.drain_seconds_max),
    )
    decision = decide_collect(facts, now=now, settings=ports.settings)
    if decision.verdict != Verdict.DELETE:
        return decision
    try:
        ports.pools.delete(cluster, pool.name)
    except Busy as error:
        return Decision(Verdict.WAIT, Reason.GKE_BUSY, f"node pool {pool.name} cannot be deleted yet: {error}")
    return decision


def count_pods(
    owner: PoolOwner | None, pods: Sequence[BoundPod], *, now: float, drain_seconds_max: float
) -> PoolPods:
    """Return how many bound pods still need the pool: the workload's own, and accelerator pods of others.

    A pod that has been ending for longer than the bound no longer counts; pods without chips (monitoring and
    the like) move elsewhere.
    """
    own = others = 0
    for pod in pods:
        if pod.deleting_since is not None and now - pod.deleting_since > drain_seconds_max:
            continue
        if owner and (pod.kind, pod.namespace, pod.workload) == (owner.kind, owner.namespace, owner.name):
            own += 1
        elif pod.chips:
            others += 1
    return PoolPods(own=own, others=others)
