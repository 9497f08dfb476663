"""Looks at who stands on a pool, where slices of a workload come and go while it lives.

Asks Kubernetes only: the nodes of one pool, and the workload's pods. `shared.core.occupancy` judges them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core.collect import OwnerState
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.elastic import leave_out_elastic, list_elastic
from shared.core.kinds.table import get_kind, select_pods_of
from shared.core.occupancy import Holder, count_slices, find_holder, is_surplus, measure_occupancy
from shared.core.pools import PoolStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.demand import Demand
    from shared.core.pools import PoolSnapshot
    from shared.core.workloads import PodView, WorkloadView
    from shared.perform.outcome import Ports

_LOST = (PoolStatus.STOPPING, PoolStatus.ERROR)


def judge_use(
    cluster: str,
    pool: PoolSnapshot,
    state: OwnerState,
    workload: WorkloadView | None,
    pods: Sequence[PodView] | None,
    ports: Ports,
) -> OwnerState:
    """Return what the owner's state means for one pool once it is known who stands on it.

    A slice that was scaled away keeps a pool on which another one of its workload runs, and a live slice gives
    back one that stands empty while it runs elsewhere.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        pool: the pool, one of ours.
        state: by the pool's name alone.
        workload: the owner as it is now.
        pods: its pods; None for a kind whose slices all end together.
        ports: the outside world.
    """
    owner = pool.owner
    if owner is None or workload is None or pods is None or state not in (OwnerState.LIVE, OwnerState.GONE):
        return state
    if workload.deleting or owner.owner_uid not in ("", workload.uid):
        return state
    nodes = ports.clusters[cluster].list_pool_nodes(pool.name)
    seen = measure_occupancy(get_kind(workload.kind), workload, pods, nodes)
    if state == OwnerState.GONE:
        return OwnerState.LIVE if seen.here else OwnerState.GONE
    return OwnerState.GONE if is_surplus(seen, owner.slice_name) else OwnerState.LIVE


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
    names = ", ".join(sorted(each.name for each in seen.here)[:3])
    if holder == Holder.SAME_SLICE:
        return Decision(
            Verdict.REFUSE,
            Reason.SLICE_DOUBLED,
            f"node pool {pool_name} is full with other pods of this slice ({names}): there are more of them than "
            "the slice has hosts, as after an upgrade of their operator; delete those that are not wanted",
        )
    if holder == Holder.NOBODY:
        return None
    owned = [
        pool for pool in pools if pool.owner and pool.owner.owner_uid == workload.uid and pool.status not in _LOST
    ]
    if count_slices(seen) <= len(owned):
        said = f"another slice of {workload} runs on node pool {pool_name} ({names}); its own pool takes this one"
        return Decision(Verdict.WAIT, Reason.POOL_IN_USE, said)
    return Decision(Verdict.CREATE, Reason.POOL_ABSENT, "every pool of the workload is taken")
