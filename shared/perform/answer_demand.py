"""Gives the slice of a leader pod a node pool: reads the live objects, decides, creates.

For the first pods of a workload it creates first, and reads the pool only on a conflict. It lists
the pools first where the slice may have a pool of any attempt: for later pods, and for those with a
list of capacity, whose first candidates GKE may have refused at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shared.core.decide.attempts import AttemptDecision
from shared.core.decide.demands import (
    decide_absent_pod,
    decide_answered_slice,
    decide_demand,
    find_slice_name,
)
from shared.core.decide.error_answers import decide_failure
from shared.core.decide.needed_pools import is_young, sort_own_attempts
from shared.core.decisions import FAILURE_REASONS, Decision, Reason, Verdict
from shared.core.errors import Denied, ProvisionerError, Throttled
from shared.core.identity.names import build_pool_name
from shared.core.identity.pool_index import PoolIndex
from shared.core.kinds.table import find_kind_of_pod
from shared.core.priorities import NodeSource
from shared.core.times import measure_seconds
from shared.perform.act_within_limits import find_limits
from shared.perform.add_pools import add_pool, share_nodes
from shared.perform.disk_zones import add_disks
from shared.perform.explain import explain
from shared.perform.fillings import tell_trying
from shared.perform.holders import is_overdue, judge_holder, judge_unplaced
from shared.perform.leave_pools import give_up_lost
from shared.perform.make_attempt import Turn, make_attempt
from shared.perform.outcome import Outcome, describe_attempt, describe_claim, describe_demand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.demand.demand import Demand
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.messages import Event
    from shared.core.ports import Cluster, Ports
    from shared.core.workloads import PodView, WorkloadView
    from shared.perform.act_within_limits import Limits
    from shared.perform.creation_list import Creations
    from shared.perform.deletion_cap import DeletionCap

FIRST_ATTEMPT = 0


def provision(event: Event, ports: Ports) -> Outcome:
    """Answer one demand event: give the slice of the pod, as it is now, a pool or a reason.

    Raises:
        Retryable: something could not be read or is in progress; deliver the event again.
        Denied: a permission is missing.
    """
    subject = event.subject
    pod = ports.clusters[event.cluster].get_pod(subject.namespace, subject.name)
    if pod is None or pod.uid != subject.uid:
        decision = decide_absent_pod(str(subject))
        return Outcome(decision=decision, cluster=event.cluster, subject=str(subject))
    return provision_pod(event.cluster, pod, ports)


def provision_pod(
    cluster: str,
    pod: PodView,
    ports: Ports,
    *,
    pools: Sequence[PoolSnapshot] | None = None,
    answered: set[str] | None = None,
    cap: DeletionCap | None = None,
    limits: Limits | None = None,
    creations: Creations | None = None,
    had_pool: bool = False,
) -> Outcome:
    """Give the slice of one live leader pod a pool, or a reason why it gets none.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        pod: the leader as it is now.
        ports: the outside world.
        pools: every pool of the cluster, if the caller has just listed them; None to create first
            for a young workload without a list of capacity, which is one call.
        answered: hashes of claims that were handled a moment ago. Another pod of such a slice is
            skipped, and the claim of this pod is added.
        cap: how many pools this sweep may still delete; None outside a sweep.
        limits: what counts against the limits, if several pods share it.
        creations: what GKE says of pools that it has created; None outside a sweep.
        had_pool: the slice is known to have had a pool. So its pools are listed in any case, and
            if it has none now, the sweep creates it, which knows whether its creation failed.

    Raises:
        Retryable: something could not be read or is in progress; try again.
        Denied: a permission is missing.
    """
    live, overdue = ports.clusters[cluster], is_overdue(pod, ports)
    turn = Turn(ports.clock.now(), cap, limits or find_limits(cluster, ports), creations, had_pool=had_pool)
    workload, found = _decide(cluster, pod, ports, answered, overdue=overdue)
    turn = replace(turn, workload=workload)
    subject = f"Pod {pod.namespace}/{pod.name}"
    if isinstance(found, Decision):
        # The pod belongs to an earlier workload of that name: the present one gets no Event.
        told = (pod,) if found.reason == Reason.OWNER_GONE else (workload, pod)
        explain(live, found, objects=told)
        facts = _describe_refused(cluster, pod, workload)
        return Outcome(decision=found, cluster=cluster, subject=subject, facts=facts)
    if answered is not None:
        if found.claim.hash in answered:
            return Outcome(decision=decide_answered_slice(), cluster=cluster, subject=subject)
        answered.add(found.claim.hash)
    try:
        made = _satisfy(found, pod, workload, ports, pools, turn, overdue=overdue)
    except ProvisionerError as error:
        if overdue or isinstance(error, Denied | Throttled):
            name = build_pool_name(found.claim, FIRST_ATTEMPT)
            failed = decide_failure(f"node pool {name} cannot be created", error)
            explain(live, failed, objects=(workload, pod))
        error.claim = error.claim or describe_claim(found.claim)
        raise
    decision = made.decision
    # The sweep runs every minute: on young demands it writes only changes. It also says why a pool
    # that is gone is not created yet.
    changes = decision.verdict not in (Verdict.KEEP, Verdict.WAIT) or decision.reason in FAILURE_REASONS
    if (overdue or answered is None or changes) and decision.reason != Reason.POOL_GONE:
        explain(live, decision, objects=(workload, pod))
    name, facts = build_pool_name(found.claim, made.attempt), _describe_answered(found, made, pod, ports)
    return Outcome(decision=decision, cluster=cluster, pool=name, subject=subject, demand=found, facts=facts)


def _satisfy(
    demand: Demand,
    pod: PodView,
    workload: WorkloadView | None,
    ports: Ports,
    pools: Sequence[PoolSnapshot] | None,
    turn: Turn,
    *,
    overdue: bool,
) -> AttemptDecision:
    """Decide about one demand and do it."""
    cluster, wanted = demand.claim.cluster, demand.shape.node_count
    attempts: Sequence[int] = [FIRST_ATTEMPT]
    first = not turn.had_pool and workload is not None and is_young(pod, workload, now=turn.looked_at)
    turn = replace(turn, creations=None) if first and not overdue else turn
    numbered = not demand.elastic or demand.choices > 1  # else there is one name
    looks = numbered and not (first and demand.choices == 1 and demand.nodes_from == NodeSource.CREATION)
    if pools is None and (turn.limits or looks):
        pools = turn.limits.list_pools() if turn.limits else ports.pools.list(cluster)
    if pools is not None and numbered:
        own = sort_own_attempts(demand.claim.hash, pools, fingerprint=demand.fingerprint)
        attempts = own or attempts
        demand, attempts = share_nodes(demand, attempts, ports, pools)
    for attempt in attempts:
        found = _answer_attempt(demand, attempt, pod, workload, ports, pools, turn, wanted=wanted)
        if found.decision.reason != Reason.POOL_IN_USE:
            break  # else other pods keep this pool, and the next one may be empty
    return found


def _answer_attempt(
    demand: Demand,
    attempt: int,
    pod: PodView,
    workload: WorkloadView | None,
    ports: Ports,
    pools: Sequence[PoolSnapshot] | None,
    turn: Turn,
    *,
    wanted: int,
) -> AttemptDecision:
    """Decide about one pool of a slice and do it; if it runs, also about what runs on it."""
    found = tell_trying(demand, make_attempt(demand, attempt, ports, pools, turn), ports, pools)
    if added := add_pool(demand, found, pod, ports, turn, wanted=wanted):
        return added
    if found.decision.reason != Reason.POOL_SERVES or workload is None:
        return found
    pools = ports.pools.list(demand.claim.cluster) if pools is None else pools
    return _judge_serving(demand, found, pod, workload, ports, pools, turn)


def _judge_serving(
    demand: Demand,
    found: AttemptDecision,
    pod: PodView,
    workload: WorkloadView,
    ports: Ports,
    pools: Sequence[PoolSnapshot],
    turn: Turn,
) -> AttemptDecision:
    """Return what follows if a pod waits although the pool of its slice runs."""
    cluster, name = demand.claim.cluster, build_pool_name(demand.claim, found.attempt)
    held, missing = judge_holder(demand, pod, workload, ports, pools=pools, pool_name=name)
    mine = PoolIndex.of(pools).find(name)
    overdue = is_overdue(pod, ports, mine)
    if held is None and (overdue or (mine is not None and mine.autoscaled)):
        held = judge_unplaced(cluster, pod, ports, pools=pools, pool_name=name, demand=demand)
        if mine is not None and held.verdict == Verdict.DELETE:
            return give_up_lost(demand, pod, mine, ports, turn)
        if held.reason == Reason.POD_UNPLACED and not overdue:
            return found  # its nodes are there, and the scheduler is about to place it
    if held is None or held.verdict != Verdict.CREATE:
        return AttemptDecision(attempt=found.attempt, decision=held) if held else found
    return make_attempt(demand, missing, ports, pools, turn)


def _decide(
    cluster: str, pod: PodView, ports: Ports, answered: set[str] | None, *, overdue: bool
) -> tuple[WorkloadView | None, Demand | Decision]:
    """Return the workload of a pod and its demand, or why it has none.

    Disks are read only for a pod that has claims and asks for a pool.
    """
    live, unread = ports.clusters[cluster], "the workload of this pod cannot be read"
    try:
        workload = _find_workload(live, pod, ports)
        found = decide_demand(cluster, pod, workload, ports.settings)
        if workload is not None and pod.template.disk_claims and not _is_settled(found, answered):
            unread = "the zone of this pod's disks cannot be read"
            workload = add_disks(cluster, workload, ports, claims=pod.template.disk_claims)
            found = decide_demand(cluster, pod, workload, ports.settings)
    except ProvisionerError as error:
        if overdue:
            explain(live, decide_failure(unread, error), objects=(pod,))
        error.claim = error.claim or _describe_refused(cluster, pod, None)["claim"]
        raise
    return workload, found


def _is_settled(found: Demand | Decision, answered: set[str] | None) -> bool:
    """Return whether disks change nothing: the pod asks for no pool, or its slice was handled."""
    if isinstance(found, Decision):
        return found.verdict != Verdict.REFUSE
    return answered is not None and found.claim.hash in answered


def _find_workload(live: Cluster, pod: PodView, ports: Ports) -> WorkloadView | None:
    kind = find_kind_of_pod(pod)
    if kind is None or kind.name not in ports.settings.kinds:
        return None
    return live.get_workload(kind.name, pod.namespace, kind.find_owner(pod))


def _describe_answered(demand: Demand, made: AttemptDecision, pod: PodView, ports: Ports) -> dict[str, Any]:
    facts = describe_demand(demand.on_attempt(made.attempt), ports.settings) | describe_attempt(made)
    waited = measure_seconds(pod.unschedulable_since, ports.clock.now())
    if made.decision.verdict == Verdict.CREATE and waited is not None:
        facts["waited_seconds"] = round(waited, 1)
    return facts


def _describe_refused(cluster: str, pod: PodView, workload: WorkloadView | None) -> dict[str, Any]:
    kind = find_kind_of_pod(pod)
    return {
        "claim": {
            "cluster": cluster,
            "kind": kind.name if kind else "",
            "namespace": pod.namespace,
            "name": kind.find_owner(pod) if kind else "",
            "owner_uid": workload.uid if workload else "",
            "slice": find_slice_name(pod, workload),
        }
    }
