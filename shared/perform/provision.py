"""From a hint about a leader pod to its pool: read the live objects, decide, create first, look up on conflict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core.decisions import Decision, Reason, Verdict
from shared.core.demand import Demand, find_slice_name, read_demand
from shared.core.errors import (
    AlreadyExists,
    Busy,
    Denied,
    InvalidRequest,
    LabelBudgetExceeded,
    NoCapacity,
    StaleView,
)
from shared.core.kinds.table import find_kind_of_pod
from shared.core.names import build_pool_name
from shared.core.nodepool import build_node_pool
from shared.core.provision import decide_provision, measure_usage
from shared.perform.explain import explain
from shared.perform.namespaces import read_namespace_obstacle
from shared.perform.occupancy import judge_holder, judge_takers
from shared.perform.outcome import Outcome, Ports, describe_demand
from shared.perform.sizes import grow_pool, measure_elastic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.events import Event
    from shared.core.pools import PoolSnapshot
    from shared.core.ports import Cluster
    from shared.core.workloads import PodView, WorkloadView

FIRST_ATTEMPT, LAST_ATTEMPT = 0, 3
"""A slice has more than one pool at a time only while others of its workload hold the earlier ones."""


def provision(event: Event, ports: Ports) -> Outcome:
    """Answer one demand event: look at the pod as it is now, and see that its slice has a pool or a reason.

    Raises:
        Retryable: the world was not ready; deliver the event again.
        Denied: a permission is missing.
    """
    subject = event.subject
    pod = ports.clusters[event.cluster].get_pod(subject.namespace, subject.name)
    if pod is None or pod.uid != subject.uid:
        decision = Decision(Verdict.NOTHING, Reason.DEMAND_GONE, f"{subject} is gone")
        return Outcome(decision=decision, cluster=event.cluster, subject=str(subject))
    return provision_pod(event.cluster, pod, ports)


def provision_pod(
    cluster: str,
    pod: PodView,
    ports: Ports,
    *,
    pools: Sequence[PoolSnapshot] | None = None,
    answered: set[str] | None = None,
) -> Outcome:
    """See that the slice of one live leader pod has a pool, or a reason why not.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        pod: the leader as it is now.
        ports: the outside world.
        pools: every pool of the cluster when the caller has just listed them; None to create first and look up
            on conflict only, which costs one call in the common case.
        answered: hashes of claims that were answered a moment ago; another pod of such a slice is passed over, and
            the claim of this one is added.

    Raises:
        Retryable: the world was not ready; ask again.
        Denied: a permission is missing.
    """
    live = ports.clusters[cluster]
    workload = _find_workload(live, pod, ports)
    found = read_demand(cluster, pod, workload, ports.settings)
    subject = f"Pod {pod.namespace}/{pod.name}"
    if isinstance(found, Decision):
        # Of a pod that an earlier workload left behind, the present one of that name has nothing to be told.
        told = (pod,) if found.reason == Reason.OWNER_GONE else (workload, pod)
        explain(live, found, objects=told)
        facts = _describe_refused(cluster, pod, workload)
        return Outcome(decision=found, cluster=cluster, subject=subject, facts=facts)
    if answered is not None:
        if found.claim.hash in answered:
            said = Decision(Verdict.NOTHING, Reason.NOT_A_LEADER, "another pod of the slice was answered just now")
            return Outcome(decision=said, cluster=cluster, subject=subject)
        answered.add(found.claim.hash)
    name = build_pool_name(found.claim, FIRST_ATTEMPT)
    try:
        name, decision = _satisfy(found, pod, workload, ports, pools)
    except Denied as error:
        said = Decision(Verdict.REFUSE, Reason.PERMISSION_DENIED, f"node pool {name}: {error}")
        explain(live, said, objects=(workload, pod))
        raise
    repeated = pools is not None and decision.verdict in (Verdict.KEEP, Verdict.WAIT)
    if not repeated:  # a sweep looks every minute; only news is written on the job
        explain(live, decision, objects=(workload, pod))
    facts = describe_demand(found, ports.settings)
    if decision.verdict == Verdict.CREATE and pod.unschedulable_since is not None:
        # Two clocks, Kubernetes' and ours: a difference below zero is theirs, not a wait.
        facts["waited_seconds"] = max(0.0, round(ports.clock.now() - pod.unschedulable_since, 1))
    return Outcome(decision=decision, cluster=cluster, pool=name, subject=subject, facts=facts)


def _satisfy(
    demand: Demand,
    pod: PodView,
    workload: WorkloadView | None,
    ports: Ports,
    pools: Sequence[PoolSnapshot] | None,
) -> tuple[str, Decision]:
    """Decide about one demand and carry it out; return which pool that is about.

    Who stands on a pool that should serve is asked in a sweep only: by then a pod that could land has landed.
    """
    for attempt in range(FIRST_ATTEMPT, LAST_ATTEMPT):
        decision = _attempt(demand, attempt, ports, pools)
        name = build_pool_name(demand.claim, attempt)
        if decision.reason != Reason.POOL_SERVES or workload is None or pools is None:
            return name, decision
        held = None
        if not demand.elastic:
            held = judge_holder(demand, pod, workload, ports, pools=pools, pool_name=name)
        held = held or judge_takers(demand.claim.cluster, pod, ports, pools=pools, pool_name=name)
        if held is None or held.verdict != Verdict.CREATE:
            return name, held or decision
    return build_pool_name(demand.claim, LAST_ATTEMPT), _attempt(demand, LAST_ATTEMPT, ports, pools)


def _attempt(demand: Demand, attempt: int, ports: Ports, pools: Sequence[PoolSnapshot] | None) -> Decision:
    """Decide about the pool of one attempt and carry it out."""
    settings, now = ports.settings, ports.clock.now()
    name = build_pool_name(demand.claim, attempt)
    if pools is None and settings.limited:
        pools = ports.pools.list(demand.claim.cluster)
    usage = None
    if pools is not None and settings.limited:
        usage = measure_usage(measure_elastic(pools, ports), demand.claim.namespace, except_name=name)
    known = next((pool for pool in pools or () if pool.name == name), None)
    if demand.elastic and pools is None:
        # Each of its pods is heard in turn, and only the first can be without a pool: look before creating.
        known = ports.pools.get(demand.claim.cluster, name)
    decision = decide_provision(demand, known, now=now, settings=settings, usage=usage)
    if decision.verdict == Verdict.DELETE:
        # The list may be minutes old, and this very sweep may have deleted the pool: look again, decide again.
        known = ports.pools.get(demand.claim.cluster, name)
        decision = decide_provision(demand, known, now=now, settings=settings, usage=usage)
    if decision.verdict == Verdict.CREATE:
        return read_namespace_obstacle(demand, ports) or _create(demand, attempt, decision, ports)
    if decision.verdict == Verdict.DELETE and known is not None:
        return _replace(demand, known, decision, ports)
    if demand.elastic and known is not None and decision.reason == Reason.POOL_SERVES:
        return grow_pool(demand, known, ports, usage=usage)
    return decision


def _create(demand: Demand, attempt: int, decision: Decision, ports: Ports) -> Decision:
    cluster, name = demand.claim.cluster, build_pool_name(demand.claim, attempt)
    try:
        body = build_node_pool(demand, attempt=attempt, created_at=int(ports.clock.now()), settings=ports.settings)
        ports.pools.create(cluster, body)
    except LabelBudgetExceeded as error:
        return Decision(Verdict.REFUSE, Reason.LABELS_OVER_BUDGET, str(error))
    except NoCapacity as error:
        return Decision(Verdict.REFUSE, Reason.QUOTA_EXCEEDED, f"node pool {name}: {error}")
    except InvalidRequest as error:
        return Decision(Verdict.REFUSE, Reason.REQUEST_INVALID, f"node pool {name}: {error}")
    except (AlreadyExists, Busy) as conflict:
        return _look_and_decide(demand, name, conflict, ports)
    return Decision(decision.verdict, decision.reason, f"{decision.message}: node pool {name}")


def _look_and_decide(demand: Demand, name: str, conflict: AlreadyExists | Busy, ports: Ports) -> Decision:
    """Read the pool behind a conflict: our own earlier attempt is the likeliest cause."""
    pool = ports.pools.get(demand.claim.cluster, name)
    if pool is None:
        if isinstance(conflict, Busy):
            raise conflict  # an operation on the cluster itself; the pool is not there yet
        raise StaleView(f"node pool {name} exists and cannot be found: {conflict}") from conflict
    decision = decide_provision(demand, pool, now=ports.clock.now(), settings=ports.settings)
    if decision.verdict == Verdict.DELETE:
        return _replace(demand, pool, decision, ports)
    if demand.elastic and decision.reason == Reason.POOL_SERVES:
        return grow_pool(demand, pool, ports, usage=None)
    return decision


def _replace(demand: Demand, pool: PoolSnapshot, decision: Decision, ports: Ports) -> Decision:
    """Delete a pool that cannot serve its own demand; the next wake-up creates it anew under the same name.

    The demand's owner and the pool were read a moment ago; what is looked at once more is who runs on it.
    """
    cluster = demand.claim.cluster
    bound = ports.clusters[cluster].list_pool_pods(pool.name)
    if any(pod.chips for pod in bound):
        return Decision(Verdict.WAIT, Reason.POOL_IN_USE, f"{decision.message}; accelerator pods still run on it")
    ports.pools.delete(cluster, pool.name)
    return decision


def _find_workload(live: Cluster, pod: PodView, ports: Ports) -> WorkloadView | None:
    kind = find_kind_of_pod(pod)
    if kind is None or kind.name not in ports.settings.kinds:
        return None
    return live.get_workload(kind.name, pod.namespace, kind.find_owner(pod))


def _describe_refused(cluster: str, pod: PodView, workload: WorkloadView | None) -> dict[str, object]:
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
