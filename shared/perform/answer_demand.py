"""Gives the slice of a leader pod a node pool: reads the live objects, decides, creates.

The pools are listed before, once for all slices of a delivery.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shared.core.decide.attempts import AttemptDecision
from shared.core.decide.demands import (
    decide_answered_slice,
    decide_demand,
    find_slice_name,
)
from shared.core.decide.error_answers import decide_failure
from shared.core.decide.needed_pools import sort_own_attempts
from shared.core.decisions import FAILURE_REASONS, Decision, Reason, Verdict
from shared.core.errors import Denied, ProvisionerError, Throttled
from shared.core.identity.names import build_pool_name
from shared.core.identity.pool_index import PoolIndex
from shared.core.kinds.table import find_kind_of_pod
from shared.core.times import measure_seconds
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
    from shared.core.ports import Cluster, Ports
    from shared.core.workloads import PodView, WorkloadView
    from shared.perform.look import Look

FIRST_ATTEMPT = 0


def provision_pod(pod: PodView, look: Look) -> Outcome:
    """Give the slice of one live leader pod a pool, or a reason why it gets none.

    Args:
        pod: the leader as it is now.
        look: what it shares with other answers.

    Raises:
        Retryable: something could not be read or is in progress; try again.
        Denied: a permission is missing.
    """
    cluster, ports = look.cluster, look.ports
    live, overdue = ports.clusters[cluster], is_overdue(pod, ports)
    turn = Turn(ports.clock.now(), look.cap, look.limits, look.creations, had_pool=look.had_pool)
    workload, found = _decide(pod, look, overdue=overdue)
    turn = replace(turn, workload=workload)
    subject = f"Pod {pod.namespace}/{pod.name}"
    if isinstance(found, Decision):
        # The pod belongs to an earlier workload of that name: the present one gets no Event.
        told = (pod,) if found.reason == Reason.OWNER_GONE else (workload, pod)
        explain(live, found, objects=told)
        facts = describe_asking(cluster, pod, workload)
        return Outcome(decision=found, cluster=cluster, subject=subject, facts=facts)
    if not look.answered.add(found.claim.hash):
        return Outcome(decision=decide_answered_slice(), cluster=cluster, subject=subject)
    try:
        made = _satisfy(found, pod, workload, look, turn)
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
    if (overdue or not look.sweeps or changes) and decision.reason != Reason.POOL_GONE:
        explain(live, decision, objects=(workload, pod))
    name, facts = build_pool_name(found.claim, made.attempt), _describe_answered(found, made, pod, ports)
    return Outcome(decision=decision, cluster=cluster, pool=name, subject=subject, demand=found, facts=facts)


def _satisfy(
    demand: Demand, pod: PodView, workload: WorkloadView | None, look: Look, turn: Turn
) -> AttemptDecision:
    """Decide about one demand and do it."""
    ports, wanted, pools = look.ports, demand.shape.node_count, look.pools.list()
    attempts: Sequence[int] = [FIRST_ATTEMPT]
    if not demand.elastic or demand.choices > 1:  # else there is one name
        attempts = sort_own_attempts(demand.claim.hash, pools, fingerprint=demand.fingerprint) or attempts
        demand, attempts = share_nodes(demand, attempts, ports, pools)
    for attempt in attempts:
        found = _answer_attempt(demand, attempt, pod, workload, look, turn, wanted=wanted)
        if found.decision.reason != Reason.POOL_IN_USE:
            break  # else other pods keep this pool, and the next one may be empty
    return found


def _answer_attempt(
    demand: Demand,
    attempt: int,
    pod: PodView,
    workload: WorkloadView | None,
    look: Look,
    turn: Turn,
    *,
    wanted: int,
) -> AttemptDecision:
    """Decide about one pool of a slice and do it; if it runs, also about what runs on it."""
    ports, pools = look.ports, look.pools.list()
    found = tell_trying(demand, make_attempt(demand, attempt, ports, pools, turn), ports, pools)
    if added := add_pool(demand, found, pod, ports, turn, wanted=wanted):
        return added
    if found.decision.reason != Reason.POOL_SERVES or workload is None:
        return found
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


def _decide(pod: PodView, look: Look, *, overdue: bool) -> tuple[WorkloadView | None, Demand | Decision]:
    """Return the workload of a pod and its demand, or why it has none.

    Disks are read only for a pod that has claims and asks for a pool.
    """
    cluster, ports = look.cluster, look.ports
    live, unread = ports.clusters[cluster], "the workload of this pod cannot be read"
    try:
        workload = _find_workload(live, pod, ports)
        found = decide_demand(cluster, pod, workload, ports.settings)
        if workload is not None and pod.template.disk_claims and not _is_settled(found, look):
            unread = "the zone of this pod's disks cannot be read"
            workload = add_disks(cluster, workload, ports, claims=pod.template.disk_claims)
            found = decide_demand(cluster, pod, workload, ports.settings)
    except ProvisionerError as error:
        if overdue:
            explain(live, decide_failure(unread, error), objects=(pod,))
        error.claim = error.claim or describe_asking(cluster, pod, None)["claim"]
        raise
    return workload, found


def _is_settled(found: Demand | Decision, look: Look) -> bool:
    """Return whether disks change nothing: the pod asks for no pool, or its slice was handled."""
    if isinstance(found, Decision):
        return found.verdict != Verdict.REFUSE
    return found.claim.hash in look.answered


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


def describe_asking(cluster: str, pod: PodView, workload: WorkloadView | None) -> dict[str, Any]:
    """Return the claim of a leader for the log, as far as the pod tells it."""
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
