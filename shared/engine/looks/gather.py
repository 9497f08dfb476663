"""Reads what a decision needs: owners of pools, their pods, nodes, disks, what keeps a pool empty.

This is the only place that gathers facts about a pool. What keeps a pool empty is read by the sweep
only, whose account has the rights, and by what shows an operator the present state. If it cannot be
read, that is logged, because a time decides without it, only later. Disks are read only for pods
with a claim. Without the right to read them a pool is created as if there were none, and an Event
says so.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from shared.core.decide.attempts import is_superseded
from shared.core.decide.cluster_stops import (
    Mode,
    is_contradicted,
    judge_nodes,
    list_witnesses,
    read_mode_label,
    stop_without_namespace,
)
from shared.core.decide.demands import decide_namespace
from shared.core.decide.failures import decide_failure
from shared.core.decide.filling import Filling, decide_lost, is_lacking
from shared.core.decide.needed_pools import plan_pools, select_named
from shared.core.decide.pool_facts import (
    OwnerState,
    PoolFacts,
    WaitingPods,
    classify_owner,
    count_pods,
    has_ended,
    is_owner,
    measure_occupancy,
    measure_waiting,
)
from shared.core.decide.pool_use import depends_on_use, judge_use
from shared.core.decide.warm_pools import find_idle_bound
from shared.core.demand.disks import list_volume_claims
from shared.core.errors import Denied
from shared.core.identity.pools import BROKEN, PoolStatus
from shared.core.kinds.table import get_kind
from shared.engine.tell import explain, find_parent, try_to_read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shared.core.decide.cluster_stops import Stop
    from shared.core.decide.needed_pools import PoolPlan
    from shared.core.decide.pool_facts import Occupancy, PoolPods
    from shared.core.decisions import Decision
    from shared.core.demand.demand import Demand
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import Cluster, Machines, Ports
    from shared.core.workloads import NodeView, Parent, PodView, WorkloadView
    from shared.engine.looks.look import Look

"""GKE makes the instance groups of a pool within 30 s after it has accepted it; 6 s are recorded.
Their errors come within the next 30 s."""
_KEEPS_EMPTY = "what keeps a node pool empty"
_UNREAD = "the disks of its claims cannot be read, so its node pool may be made in a zone without them"


@dataclass(frozen=True, slots=True)
class OwnerRead:
    """The workload of some pools, read once for all of them; a new look needs a new one."""

    workload: WorkloadView | None
    """None if there is none of its name."""
    pods: Sequence[PodView] | None
    """None if its kind does not need them for the state of its slices."""
    read_parent: Callable[[], Parent | None]
    """Returns what made it, read when first asked for; None without one."""
    read_use: Callable[[], tuple[Occupancy, PoolPlan] | None]
    """Returns which pods run on which of its pools, and which pools it needs, in the same way."""


def read_owner(look: Look, home: tuple[str, str, str], pools: Sequence[PoolSnapshot]) -> OwnerRead:
    """Return a workload as it is now; `pools` has at least all pools of workloads of its name."""
    workload, queues = look.live.get_workload(*home), look.ports.queues.get(look.cluster)
    if workload is None:
        return OwnerRead(None, None, lambda: None, lambda: None)
    if workload.suspended and queues is not None:
        workload = queues.view_admitted(workload) or workload
    pods = look.live.list_workload_pods(workload) if get_kind(workload.kind).reads_pods else None

    def read_use() -> tuple[Occupancy, PoolPlan]:
        seen = read_occupancy(look, workload, pools=pools, pods=pods)
        return seen, look.make_once(plan_pools, workload.uid, look.cluster, seen, pools, look.settings)

    return OwnerRead(workload, pods, cache(partial(find_parent, look.live, workload)), cache(read_use))


def read_occupancy(
    look: Look, workload: WorkloadView, *, pools: Sequence[PoolSnapshot], pods: Sequence[PodView] | None = None
) -> Occupancy:
    """Return which pods run on which pools of a workload, from at least all of its pools.

    Its pods are read if they are None.
    """
    named = select_named(workload, pools)
    found = look.live.list_workload_pods(workload) if pods is None else pods
    homes = look.live.find_pools_of_nodes([pool.name for pool in named])
    return look.make_once(measure_occupancy, workload.uid, get_kind(workload.kind), workload, found, homes)


def gather_facts(
    look: Look, pool: PoolSnapshot, pools: Sequence[PoolSnapshot], read: Callable[[], OwnerRead] | None = None
) -> PoolFacts:
    """Return the facts about a pool's owner, without the pods on the pool.

    They are enough to decide that the pool stays. Which pods run on which pool is read only if the
    owner has more pools than slices, or if the pool's slice is no longer needed.

    `pools` has at least all pools of workloads of the owner's name. `read` returns the owner, if it
    is read once for several of its pools.
    """
    owner = pool.owner
    if owner is None or owner.kind not in look.settings.kinds:
        return PoolFacts(pool=pool, owner=OwnerState.UNKNOWN)
    known = read() if read else read_owner(look, owner.home, pools)
    workload, (state, since) = known.workload, classify_owner(owner, known.workload, known.pods)
    reserved = workload is not None and workload.quota_reserved
    # Its next pods are those of its spec: the pool of another slice ends as for any suspension.
    if reserved and state == OwnerState.SUSPENDED == classify_owner(owner, workload, None)[0]:
        state, since = OwnerState.LIVE, None  # Kueue is about to resume it
    if workload is not None and depends_on_use(owner, state, workload, pools) and (use := known.read_use()):
        state = judge_use(pool, state, *use)
    return PoolFacts(
        pool=pool,
        owner=state,
        owner_since=since,
        owner_found=is_owner(owner, workload),
        workload=None if state == OwnerState.GONE else workload,
        parent=known.read_parent() if state == OwnerState.LIVE else None,
        superseded=pool.status in BROKEN and is_superseded(pool, pools),
        workload_over=state in (OwnerState.OVER, OwnerState.GONE) and has_ended(owner, workload),
    )


def gather_again(look: Look, name: str, *, pools: Sequence[PoolSnapshot]) -> PoolFacts | None:
    """Return the facts before a delete, read now: pool, owner by UID, pods bound to its nodes.

    They are None when the pool no longer exists. In a batch the pool and its owner were read at
    most `SHARED_SECONDS` ago.
    """
    pool = look.find_pool(name)
    if pool is None:
        return None
    facts = gather_facts(look.batch or look, pool, pools)
    if facts.owner == OwnerState.LIVE and pool.status in BROKEN:
        facts = _add_nodes(look, facts)
    if facts.workload_over and find_idle_bound(pool, look.settings):
        facts = dataclasses.replace(facts, marks=look.live.list_surplus_marks(name))
    return dataclasses.replace(facts, pods=count_bound(look, pool))


def _add_nodes(look: Look, facts: PoolFacts) -> PoolFacts:
    """Add what the decision about a live owner's pool with errors needs of nodes and pods."""
    owner, workload, waiting = facts.pool.owner, facts.workload, WaitingPods(leader_since=0.0)
    if owner and workload and not workload.suspended:  # one that waits for its capacity has no pods
        waiting = measure_waiting(owner, workload, look.live.list_waiting_pods(owner.kind, owner.namespace))
    nodes = look.live.list_pool_nodes(facts.pool.name)
    ready_nodes = sum(node.ready for node in nodes)
    return dataclasses.replace(facts, waiting=waiting, nodes=len(nodes), ready_nodes=ready_nodes)


def count_bound(look: Look, pool: PoolSnapshot) -> PoolPods:
    """Return the pods that need a pool, read now."""
    bound, drain_seconds_max = look.live.list_pool_pods(pool.name), look.settings.drain_seconds_max
    return count_pods(pool.owner, bound, now=look.now(), drain_seconds_max=drain_seconds_max)


def is_used_by_others(look: Look, pool: PoolSnapshot) -> bool:
    """Return whether accelerator pods of other workloads use a pool; not while GKE creates it."""
    return pool.status != PoolStatus.PROVISIONING and bool(count_bound(look, pool).others)


def read_namespace_obstacle(look: Look, demand: Demand) -> Decision | None:
    """Return why no pool is created for the demand's namespace; None when a pool may be created.

    The namespace is read only when a pool is about to be created or to grow.
    """
    found = look.live.get_namespace(demand.claim.namespace)
    return decide_namespace(demand, found.labels if found else {})


def read_filling(look: Look, pod: PodView, pool: PoolSnapshot) -> Filling:
    """Return what is known about the nodes that a pool of the pod's slice is to get."""
    if not look.ports.reads_fillings:
        return Filling()
    told = try_to_read(_KEEPS_EMPTY, partial(look.live.list_scale_ups, pod), of=f"Pod {pod.namespace}/{pod.name}")
    # The machines come last: no other read is between them and a deletion.
    return Filling(machines=_read_machines(look, pool), told=told, looked=True)


def read_lost(
    look: Look, demand: Demand, pod: PodView, pool: PoolSnapshot, nodes: Sequence[NodeView]
) -> Decision | None:
    """Return the decision to leave a pool that has lost nodes for long; None if it stays."""
    now, settings = look.now(), look.settings
    short = demand.choices > 1 and is_lacking(pool, nodes, seconds=settings.grace_seconds, now=now)
    machines = _read_machines(look, pool) if short and look.ports.reads_fillings else None
    return decide_lost(demand, pod, pool, Filling(nodes=nodes, machines=machines), now=now, settings=settings)


def _read_machines(look: Look, pool: PoolSnapshot) -> Machines | None:
    return try_to_read(_KEEPS_EMPTY, partial(look.ports.pools.read_machines, pool), of=f"node pool {pool.name}")


def add_disks(look: Look, workload: WorkloadView, *, claims: Sequence[str] | None = None) -> WorkloadView:
    """Return a workload with the disks of some claims; without any if they may not be read.

    The claims are those of the workload's spec if they are None.
    """
    try:
        return read_disks(look.live, workload, list_volume_claims(workload) if claims is None else claims)
    except Denied as error:
        explain(look.live, decide_failure(_UNREAD, error), workload)
        return workload


def read_disks(live: Cluster, workload: WorkloadView, claims: Sequence[str]) -> WorkloadView:
    """Return a workload with the disks of some claims."""
    found = [live.find_disk(workload.namespace, claim) for claim in claims]
    return dataclasses.replace(workload, disks=tuple(disk for disk in found if disk)) if found else workload


def read_stop(cluster: str, ports: Ports, namespace: str = "") -> Stop | None:
    """Return what the labels of our own namespace and of a workload's stop now; None: nothing.

    A workload's namespace that is gone stops nothing, because pools outlive it.
    """
    name, live = ports.settings.own_namespace, ports.clusters[cluster]
    own = live.get_namespace(name)
    stop = read_mode_label(name, own) if own else stop_without_namespace(name)
    if namespace in ("", name) or (stop is not None and stop.mode == Mode.REPORT_ONLY):
        return stop
    found = live.get_namespace(namespace)
    return (read_mode_label(namespace, found) if found else None) or stop


def is_proven(look: Look, pool: PoolSnapshot, since: float) -> bool:
    """Return whether the API surely shows what runs on a pool; asked before each deletion.

    A node of the pool is enough, because its pods are seen there. Else a node of any other pool of
    the cluster shows that this one has no nodes. Only if no node tells, the label of the pool does.
    """
    if look.live.find_pools_of_nodes([pool.name], some=True):
        return True
    if (judged := _judge(look.live, look.list_pools(since=since))) is not None:
        return judged
    answer = pool.owner.cluster_uid if pool.owner else ""
    return bool(answer) and answer == read_cluster_uid(look.live)


def is_other(live: Cluster, pools: Sequence[PoolSnapshot]) -> bool:
    """Return whether an API is surely not that of the cluster whose pools these all are."""
    judged = _judge(live, pools)
    return is_contradicted(pools, read_cluster_uid(live)) if judged is None else not judged


def _judge(live: Cluster, pools: Sequence[PoolSnapshot]) -> bool | None:
    witnesses = list_witnesses(pools)
    return judge_nodes(witnesses, live.find_pools_of_nodes(witnesses.names, some=True))


def read_cluster_uid(live: Cluster) -> str:
    """Return the UID of the namespace ``kube-system``; empty if there is none."""
    found = live.get_namespace("kube-system")
    return found.uid if found else ""
