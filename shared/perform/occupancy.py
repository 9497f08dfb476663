"""Looks at who stands on a pool, where slices of a workload come and go while it lives.

Asks Kubernetes only: the nodes of one pool, and the workload's pods. `shared.core.occupancy` judges them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from shared.core.collect import OwnerState
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.demand import Demand, read_planned_demand
from shared.core.elastic import has_slice, leave_out_elastic, list_elastic
from shared.core.errors import ProvisionerError
from shared.core.kinds.table import get_kind, select_pods_of
from shared.core.occupancy import (
    Holder,
    count_slices,
    decide_taken,
    find_holder,
    find_takers,
    is_surplus,
    list_waiting_slices,
    measure_occupancy,
)
from shared.core.pools import PoolStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.occupancy import Occupancy
    from shared.core.pools import PoolSnapshot
    from shared.core.workloads import PodView, WorkloadView
    from shared.perform.outcome import Ports

_LOG = logging.getLogger("occupancy")
_LOST = (PoolStatus.STOPPING, PoolStatus.ERROR)


def judge_use(
    cluster: str,
    pool: PoolSnapshot,
    state: OwnerState,
    workload: WorkloadView | None,
    pods: Sequence[PodView] | None,
    ports: Ports,
    *,
    pools: Sequence[PoolSnapshot],
) -> OwnerState:
    """Return what the owner's state means for one pool once it is known who stands on it.

    A slice that was scaled away, or that waits in a queue by itself, keeps a pool on which another one of its
    workload runs, and a live slice gives back one that stands empty while it runs elsewhere. What a slice that was
    scaled away leaves empty stays for one of its workload that waits for the same: it is about to land there.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        pool: the pool, one of ours.
        state: by the pool's name alone.
        workload: the owner as it is now.
        pods: its pods; None for a kind whose slices all end together.
        ports: the outside world.
        pools: the workload's pools, or all of the cluster.
    """
    owner = pool.owner
    if owner is None or workload is None or pods is None:
        return state
    queued = state == OwnerState.SUSPENDED and not workload.suspended
    if state not in (OwnerState.LIVE, OwnerState.GONE) and not queued:
        return state
    if workload.deleting or owner.owner_uid not in ("", workload.uid):
        return state
    nodes = ports.clusters[cluster].list_pool_nodes(pool.name)
    seen = measure_occupancy(get_kind(workload.kind), workload, pods, nodes)
    if state == OwnerState.LIVE:
        return OwnerState.GONE if is_surplus(seen, owner.slice_name) else OwnerState.LIVE
    awaited = state == OwnerState.GONE and _is_awaited(cluster, pool, seen, ports, pools=pools)
    return OwnerState.LIVE if seen.here or awaited else state


def _is_awaited(
    cluster: str, pool: PoolSnapshot, seen: Occupancy, ports: Ports, *, pools: Sequence[PoolSnapshot]
) -> bool:
    """Return whether a slice that waits could take this pool, whose own was scaled away: as many stay as wait."""
    owner, workload = pool.owner, seen.workload
    if owner is None:
        return False
    demands = (
        read_planned_demand(cluster, workload, each, ports.settings)
        for each in list_waiting_slices(seen)
        if has_slice(seen.kind, workload, each.name, seen.pods)
    )
    waiting = sum(isinstance(each, Demand) and owner.was_made_for(each.fingerprint) for each in demands)
    if not waiting:
        return False
    before = [
        each.name
        for each in pools
        if each.name < pool.name
        and each.status not in _LOST
        and each.owner
        and each.owner.owner_uid == owner.owner_uid
        and not has_slice(seen.kind, workload, each.owner.slice_name, seen.pods)
    ]
    return len(before) < waiting


def has_spare_pool(owned: Sequence[PoolSnapshot], workload: WorkloadView | None) -> bool:
    """Return whether a workload has more pools than it wants slices: only then can one of them be surplus."""
    if workload is None:
        return False
    slices = (each for each in leave_out_elastic(workload).groups if each.template.wants_accelerator)
    wanted = sum(each.replicas for each in slices if not each.beside) + len(list_elastic(workload))
    return sum(pool.status not in _LOST for pool in owned) > wanted


def judge_holder(
    demand: Demand,
    pod: PodView,
    workload: WorkloadView,
    ports: Ports,
    *,
    pools: Sequence[PoolSnapshot],
    pool_name: str,
) -> Decision | None:
    """Return what is to be done when a running pool does not take the pod it was made for; None to wait for it.

    CREATE means a further pool, which nobody has made yet.

    Args:
        demand: what the pod's slice asks for.
        pod: the pod that waits.
        workload: its owner.
        ports: the outside world.
        pools: every pool of the cluster.
        pool_name: the pool that should serve.
    """
    if not select_pods_of(workload):
        return None
    kind, live = get_kind(workload.kind), ports.clusters[demand.claim.cluster]
    seen = measure_occupancy(kind, workload, live.list_workload_pods(workload), live.list_pool_nodes(pool_name))
    holder = find_holder(seen, pod, hosts=demand.shape.node_count)
    if holder == Holder.NOBODY:
        return None
    if holder == Holder.SAME_SLICE:
        twins = seen.list_hosts_of(demand.claim.slice_name) or seen.here
        said = (
            f"other pods of this slice run already ({_name_some(twins)}): with this one there are more of them "
            "than the slice has hosts, as after an upgrade of their operator; delete those that are not wanted"
        )
        return Decision(Verdict.REFUSE, Reason.SLICE_DOUBLED, said)
    names = _name_some(seen.here)
    owned = [
        pool for pool in pools if pool.owner and pool.owner.owner_uid == workload.uid and pool.status not in _LOST
    ]
    if count_slices(seen) <= len(owned):
        said = f"another slice of {workload} runs on node pool {pool_name} ({names}); its own pool takes this one"
        return Decision(Verdict.WAIT, Reason.POOL_IN_USE, said)
    return Decision(Verdict.CREATE, Reason.POOL_ABSENT, "every pool of the workload is taken")


def judge_takers(
    cluster: str, pod: PodView, ports: Ports, *, pools: Sequence[PoolSnapshot], pool_name: str
) -> Decision | None:
    """Return what to say of a running pool that others hold while its own pod waits; None when there is nothing.

    Asked past the grace only, by the pool's age and by the pod's wait, since nothing tells for how long a pool has
    been running. It is read to explain only, so an error is logged and stops nothing.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        pod: the pod that waits.
        ports: the outside world.
        pools: every pool of the cluster.
        pool_name: the pool that should serve.
    """
    now, settings = ports.clock.now(), ports.settings
    pool = next((each for each in pools if each.name == pool_name), None)
    since = now if pod.unschedulable_since is None else pod.unschedulable_since
    if pool is None or min(pool.age_seconds(now), now - since) < settings.grace_seconds:
        return None
    try:
        bound = ports.clusters[cluster].list_pool_pods(pool_name)
    except ProvisionerError as error:
        _LOG.warning(
            "who stands on a pool could not be read",
            extra={"object": f"node pool {pool_name}", "error": str(error)},
        )
        return None
    takers = find_takers(pool, bound, now=now, drain_seconds_max=settings.drain_seconds_max)
    return decide_taken(pool, takers, pools=pools)


def _name_some(pods: Sequence[PodView]) -> str:
    return ", ".join(sorted(pod.name for pod in pods)[:3])
