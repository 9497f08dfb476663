"""Reads which pods use the pool of a slice whose pod still waits. The tables decide."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from shared.core.decide.filling import decide_empty, decide_unread, is_empty
from shared.core.decide.lost_pools import decide_lost
from shared.core.decide.needed_pools import plan_pools
from shared.core.decide.pool_use import decide_holder, decide_taken, find_takers
from shared.core.decide.unplaced import decide_unplaced
from shared.core.decisions import Verdict
from shared.core.errors import ProvisionerError
from shared.core.identity.pool_index import PoolIndex
from shared.core.kinds.table import may_swap
from shared.core.times import measure_seconds
from shared.perform.fillings import read_filling, read_trying
from shared.perform.gather import read_occupancy
from shared.perform.pool_sizes import is_resizable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.decisions import Decision
    from shared.core.demand.demand import Demand
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import Ports
    from shared.core.workloads import PodView, WorkloadView

_LOG = logging.getLogger("holders")


def judge_holder(
    demand: Demand,
    pod: PodView,
    workload: WorkloadView,
    ports: Ports,
    *,
    pools: Sequence[PoolSnapshot],
    pool_name: str,
) -> tuple[Decision | None, int]:
    """Return what to do when a pod waits although the pool of its slice runs; None to wait.

    CREATE means one more pool, with the attempt that is returned too. A free pool of the workload
    does not count if pods of other workloads use it.

    Args:
        demand: what the slice of the pod needs.
        pod: the pod that waits.
        workload: its owner.
        ports: the outside world.
        pools: every pool of the cluster.
        pool_name: the slice's own pool.
    """
    cluster, slice_name = demand.claim.cluster, demand.claim.slice_name
    swaps = may_swap(workload) and not demand.elastic
    seen = read_occupancy(cluster, workload, ports, pools=pools) if swaps else None
    taken = set[str]()
    while seen is not None and seen.list_on(pool_name):
        plan = plan_pools(cluster, seen, pools, ports.settings, taken=taken)
        held, serving = decide_holder(demand, pod, seen, plan, pool_name=pool_name), plan.serving.get(slice_name)
        if held is None:
            break
        waits = held.verdict == Verdict.WAIT and serving is not None and serving not in taken
        if not waits or judge_takers(cluster, pod, ports, pools=pools, pool_name=str(serving)) is None:
            pool = PoolIndex.of(pools).find(str(serving)) if waits else None
            tried = demand.on_attempt(pool.owner.attempt if pool and pool.owner else 0)
            return (pool and read_trying(tried, pool, ports)) or held, plan.missing.get(slice_name, 0)
        taken.add(str(serving))
    return judge_takers(cluster, pod, ports, pools=pools, pool_name=pool_name), 0


def is_overdue(pod: PodView, ports: Ports, pool: PoolSnapshot | None = None) -> bool:
    """Return whether a pod has waited for longer than the grace: its owner must know why.

    A time that cannot be true does not hide a wait: then the pod is overdue, unless the pool that
    it waits for is younger than the grace by our own clock.
    """
    if pod.unschedulable_since is None:
        return False
    now = ports.clock.now()
    waited = measure_seconds(pod.unschedulable_since, now)
    if waited is None and pool is not None:
        waited = pool.age_seconds(now)
    return waited is None or waited >= ports.settings.grace_seconds


def judge_unplaced(
    cluster: str,
    pod: PodView,
    ports: Ports,
    *,
    pools: Sequence[PoolSnapshot],
    pool_name: str,
    demand: Demand | None = None,
) -> Decision:
    """Return why a pod waits although the pool of its slice runs and nothing else uses it.

    The nodes of the pool say it, if they can be read, and the scheduler's own words. DELETE means
    that another candidate is tried, because the pool has had too few nodes for long, or because
    GKE's autoscaler cannot fill it.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        pod: the pod that waits.
        ports: the outside world.
        pools: every pool of the cluster.
        pool_name: the pool of the pod's slice; empty if it has none.
        demand: what the slice needs; None if its pool stays in any case.
    """
    pool = PoolIndex.of(pools).find(pool_name)
    if pool is None:
        return decide_unplaced(pod, None, None)
    try:
        nodes = ports.clusters[cluster].list_pool_nodes(pool_name)
    except ProvisionerError as error:
        said = {"object": f"node pool {pool_name}", "error": str(error)}
        _LOG.warning("the nodes of a node pool could not be read", extra=said)
        return decide_unread(pool) if pool.autoscaled else decide_unplaced(pod, pool, None)
    now, settings = ports.clock.now(), ports.settings
    if demand is not None and is_empty(pool, nodes):
        filling = read_filling(cluster, pod, pool, ports)
        tried = demand.on_attempt(pool.owner.attempt if pool.owner else 0)
        return decide_empty(tried, pod, pool, filling, now=now, settings=settings)
    lost = decide_lost(demand, pod, pool, nodes, now=now, settings=settings) if demand else None
    if lost is not None:
        return lost
    # The size of an elastic pool changes, and its own count does not.
    return decide_unplaced(pod, pool, nodes, wanted=0 if is_resizable(pool) else pool.node_count)


def judge_takers(
    cluster: str, pod: PodView, ports: Ports, *, pools: Sequence[PoolSnapshot], pool_name: str
) -> Decision | None:
    """Return the refusal of a pod whose running pool other workloads use; None when it has to wait.

    The pod must have waited longer than the grace, and the pool must not be younger than it, since
    GKE does not report since when a pool has been running. A pool of unknown age is judged by the
    pod alone, because nothing is deleted. An error is logged and stops nothing.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        pod: the pod that waits.
        ports: the outside world.
        pools: every pool of the cluster.
        pool_name: the pool of the pod's slice.
    """
    now, settings = ports.clock.now(), ports.settings
    pool = PoolIndex.of(pools).find(pool_name)
    waited = measure_seconds(pod.unschedulable_since, now)
    if pool is None or (waited is not None and waited < settings.grace_seconds):
        return None
    age_seconds = pool.age_seconds(now)
    if age_seconds is not None and age_seconds < settings.grace_seconds:
        return None
    try:
        bound = ports.clusters[cluster].list_pool_pods(pool_name)
    except ProvisionerError as error:
        _LOG.warning(
            "the pods on a node pool could not be read",
            extra={"object": f"node pool {pool_name}", "error": str(error)},
        )
        return None
    takers = find_takers(pool, bound, now=now, drain_seconds_max=settings.drain_seconds_max)
    return decide_taken(pool, takers, pools=pools)
