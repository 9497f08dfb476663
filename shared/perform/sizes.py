"""Brings an elastic pool to the size that its pods need: more nodes by GKE's resize, fewer one node at a time.

The only memory of a node's being surplus is the taint that it carries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core.decisions import Decision, Reason, Verdict
from shared.core.demand import Demand, read_planned_demand
from shared.core.elastic import is_elastic_name, list_elastic
from shared.core.errors import Busy, InvalidRequest, NoCapacity
from shared.core.pools import PoolStatus
from shared.core.settings import Mode
from shared.core.sizes import NodeState, decide_growth, plan_shrink
from shared.perform.namespaces import read_namespace_obstacle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.pools import PoolSnapshot
    from shared.core.ports import SurplusMark
    from shared.core.provision import Usage
    from shared.core.workloads import WorkloadView
    from shared.perform.outcome import Ports


def grow_pool(demand: Demand, pool: PoolSnapshot, ports: Ports, *, usage: Usage | None) -> Decision:
    """See that a running elastic pool has nodes for all of its pods.

    Another resize that came first holds the pool, so that this one is refused: it can never make the pool smaller.

    Args:
        demand: what the pods need.
        pool: theirs, running.
        ports: the outside world.
        usage: what the cluster's other pools hold, when a limit is set.

    Raises:
        Retryable: GKE could not be asked.
    """
    cluster = demand.claim.cluster
    size = ports.pools.measure(pool)
    decision = decide_growth(demand, pool.name, size=size, settings=ports.settings, usage=usage)
    if decision.verdict != Verdict.RESIZE:
        return decision
    if obstacle := read_namespace_obstacle(demand, ports):
        return obstacle
    try:
        ports.pools.resize(cluster, pool.name, demand.shape.node_count)
    except Busy as error:
        return Decision(Verdict.WAIT, Reason.GKE_BUSY, f"node pool {pool.name} cannot be resized yet: {error}")
    except NoCapacity as error:
        return Decision(Verdict.REFUSE, Reason.QUOTA_EXCEEDED, f"node pool {pool.name}: {error}")
    except InvalidRequest as error:
        return Decision(Verdict.REFUSE, Reason.REQUEST_INVALID, f"node pool {pool.name}: {error}")
    return decision


def measure_elastic(pools: Sequence[PoolSnapshot], ports: Ports) -> list[PoolSnapshot]:
    """Return pools with the size that they have now where it may differ from that at their creation."""
    return [pool.resized(ports.pools.measure(pool)) if is_resizable(pool) else pool for pool in pools]


def is_resizable(pool: PoolSnapshot) -> bool:
    """Return whether a pool is an elastic one of ours that runs."""
    elastic = pool.owner is not None and is_elastic_name(pool.owner.slice_name)
    return elastic and pool.status == PoolStatus.RUNNING


def shrink_pool(
    cluster: str, pool: PoolSnapshot, workload: WorkloadView, ports: Ports, *, removals_max: int
) -> tuple[Decision | None, int]:
    """Mark, close or remove nodes of an elastic pool that are empty and no longer wanted.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        pool: a running elastic pool of ours.
        workload: its live owner.
        ports: the outside world.
        removals_max: the most nodes to remove now.

    Returns:
        The decision when nodes were removed, else None; and how many were.
    """
    wanted = _find_wanted(cluster, pool, workload, ports)
    if wanted is None or ports.settings.find_mode(workload.namespace) == Mode.REPORT_ONLY:
        return None, 0
    live = ports.clusters[cluster]
    marks = live.list_surplus_marks(pool.name)
    size = ports.pools.measure(pool)
    used = _find_used(cluster, pool, ports) if size > wanted else frozenset(marks)
    plan = plan_shrink(
        [_state(name, mark, used) for name, mark in marks.items()],
        wanted=wanted,
        size=size,
        now=ports.clock.now(),
        grace_seconds=ports.settings.grace_seconds,
        removals_max=removals_max,
    )
    for name in plan.clear:
        live.mark_surplus(name, None)
    for name in plan.mark:
        live.mark_surplus(name, ports.clock.now(), closed=False)
    for name in plan.close:
        since = marks[name]
        live.mark_surplus(name, since.since if since else ports.clock.now(), closed=True)
    if not plan.remove:
        return None, 0
    ports.pools.remove_nodes(pool, plan.remove)
    names = ", ".join(plan.remove)
    said = f"removing empty nodes of node pool {pool.name} ({wanted} of {size} are wanted): {names}"
    return Decision(Verdict.RESIZE, Reason.POOL_SHRINKS, said), len(plan.remove)


def _find_wanted(cluster: str, pool: PoolSnapshot, workload: WorkloadView, ports: Ports) -> int | None:
    """Return how many nodes the live spec needs of a pool; None where the pool is of another shape or unclear."""
    owner = pool.owner
    found = [each for each in list_elastic(workload) if owner and each.name == owner.slice_name]
    if owner is None or not found:
        return None
    demand = read_planned_demand(cluster, workload, found[0], ports.settings)
    same = isinstance(demand, Demand) and owner.was_made_for(demand.fingerprint)
    return demand.shape.node_count if isinstance(demand, Demand) and same else None


def _find_used(cluster: str, pool: PoolSnapshot, ports: Ports) -> frozenset[str]:
    bound = ports.clusters[cluster].list_pool_pods(pool.name)
    return frozenset(pod.node for pod in bound if pod.chips)


def _state(name: str, mark: SurplusMark | None, used: frozenset[str]) -> NodeState:
    return NodeState(
        name=name,
        used=name in used,
        surplus_since=mark.since if mark else None,
        closed=bool(mark and mark.closed),
    )
