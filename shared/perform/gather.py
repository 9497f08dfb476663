"""Reads what a decision needs: owners of pools, their pods, nodes, disks, what keeps a pool empty.

This is the only place that gathers facts about a pool. Functions and CLI use it. What keeps a pool
empty is read by the sweep only, because its account has the rights and it comes once a minute, and
by what shows an operator the present state. If it cannot be read, that is logged, because a time
decides without it, only later. Disks are read only for pods with a PersistentVolumeClaim. Without
the right to read them a pool is created as if there were no disks, and an Event says so.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from shared.core.decide.attempts import is_superseded
from shared.core.decide.broken_pools import BROKEN
from shared.core.decide.capacity_first import find_wait, is_asking
from shared.core.decide.demands import decide_namespace
from shared.core.decide.failures import decide_failure
from shared.core.decide.filling import Filling, decide_trying
from shared.core.decide.needed_pools import may_have_surplus, plan_pools, select_named
from shared.core.decide.occupancy import measure_occupancy
from shared.core.decide.pool_facts import (
    OwnerState,
    PoolFacts,
    WaitingPods,
    classify_owner,
    count_pods,
    has_ended,
    is_owner,
    list_others,
    measure_waiting,
)
from shared.core.decide.pool_use import judge_use, may_depend_on_use
from shared.core.decide.warm_pools import find_idle_bound
from shared.core.demand.disks import list_claims
from shared.core.errors import Denied, ProvisionerError
from shared.core.identity.pools import PoolStatus
from shared.core.kinds.table import get_kind, may_swap
from shared.perform.tell import explain, find_parent, try_to_read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.decide.needed_pools import PoolPlan
    from shared.core.decide.occupancy import Occupancy
    from shared.core.decisions import Decision
    from shared.core.demand.demand import Demand
    from shared.core.identity.names import PoolOwner
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import Cluster, Machines
    from shared.core.workloads import Parent, PodView, WorkloadView
    from shared.perform.look import Look

Read = tuple["WorkloadView | None", "Sequence[PodView] | None"]
Use = tuple["Occupancy", "PoolPlan"]


TRYING_SECONDS = 60.0
"""GKE makes the instance groups of a pool some 30 s after it has accepted it. Their errors come
within the next 30 s."""
_KEEPS_EMPTY = "what keeps a node pool empty"
_UNREAD = "the disks of its claims cannot be read, so its node pool may be made in a zone without them"


@dataclass(slots=True)
class OwnerReader:
    """Reads the owners of one cluster's pools, each owner once; a new look needs a new reader."""

    look: Look
    _read: dict[tuple[str, str, str], Read | ProvisionerError] = field(default_factory=dict)
    _parents: dict[str, Parent | None] = field(default_factory=dict)
    _uses: dict[str, Use] = field(default_factory=dict)

    def read_owner(self, owner: PoolOwner) -> Read:
        """Return the workload of a pool's labels as it is now, and its pods if its kind needs them.

        Raises:
            Retryable: one of them could not be read. The owner's other pools get the same error.
            Denied: a permission to read them is missing. The owner's other pools get it too.
        """
        key = (owner.kind, owner.namespace, owner.name)
        if key not in self._read:
            try:
                self._read[key] = self._read_now(*key)
            except ProvisionerError as error:
                self._read[key] = error
        found = self._read[key]
        if isinstance(found, ProvisionerError):
            raise found
        return found

    def read_parent(self, workload: WorkloadView) -> Parent | None:
        """Return the parent of a workload; None without one."""
        if workload.uid not in self._parents:
            self._parents[workload.uid] = find_parent(self.look.live, workload)
        return self._parents[workload.uid]

    def read_use(
        self, workload: WorkloadView, pods: Sequence[PodView] | None, *, pools: Sequence[PoolSnapshot]
    ) -> Use:
        """Return which pods run on which pools of a workload, and which pools it needs.

        Its pods are read if they are None.
        """
        if workload.uid not in self._uses:
            seen = read_occupancy(self.look, workload, pools=pools, pods=pods)
            self._uses[workload.uid] = (seen, plan_pools(self.look.cluster, seen, pools, self.look.settings))
        return self._uses[workload.uid]

    def _read_now(self, kind: str, namespace: str, name: str) -> Read:
        live = self.look.live
        workload = live.get_workload(kind, namespace, name)
        queues = self.look.ports.queues.get(self.look.cluster)
        if workload is not None and workload.suspended and queues is not None:
            workload = queues.view_admitted(workload) or workload
        needed = workload is not None and get_kind(workload.kind).reads_pods
        return workload, live.list_workload_pods(workload) if workload and needed else None


@dataclass(frozen=True, slots=True)
class Gathered:
    """The facts about one pool, with its owner for Events."""

    facts: PoolFacts
    workload: WorkloadView | None = None
    """None if it no longer exists or could not be read."""


def read_occupancy(
    look: Look,
    workload: WorkloadView,
    *,
    pools: Sequence[PoolSnapshot],
    pods: Sequence[PodView] | None = None,
) -> Occupancy:
    """Return which pods run on which pools of a workload, from at least all of its pools.

    Its pods are read if they are None.

    Raises:
        Retryable: something could not be read.
        Denied: a permission to read is missing.
    """
    named = select_named(workload, pools)
    found = look.live.list_workload_pods(workload) if pods is None else pods
    homes = look.live.find_pools_of_nodes([pool.name for pool in named])
    return measure_occupancy(get_kind(workload.kind), workload, found, homes)


def gather_facts(
    pool: PoolSnapshot, reader: OwnerReader, *, pools: Sequence[PoolSnapshot], parents: bool = True
) -> Gathered:
    """Return the facts about a pool's owner, without the pods on the pool.

    They are enough to decide that the pool stays. Which pods run on which pool is read only if the
    owner has more pools than slices, or if the pool's slice is no longer needed.

    `pools` has at least all pools of workloads of the owner's name. With `parents` what made a live
    owner is read too, for its Event.

    Raises:
        Retryable: something could not be read.
        Denied: a permission to read is missing.
    """
    owner, look = pool.owner, reader.look
    if owner is None or owner.kind not in look.settings.kinds:
        return Gathered(PoolFacts(pool=pool, owner=OwnerState.UNKNOWN))
    workload, pods = reader.read_owner(owner)
    state, since = classify_owner(owner, workload, pods)
    if workload is not None and workload.quota_reserved and state == OwnerState.SUSPENDED:
        state, since = OwnerState.LIVE, None  # Kueue is about to resume it
    elif workload is not None and workload.suspended and state == OwnerState.SUSPENDED:
        seen = see_parent(look.live, workload)
        state = find_wait(look.cluster, seen, pools, look.settings, now=look.now()) or state
    if workload is not None and may_depend_on_use(pool, state, workload):
        # Where idle pools are, a slice may run on one, and its own pool came too late.
        many = may_have_surplus(workload, pools) or owner.idle_seconds > 0
        worth = many if state == OwnerState.LIVE else may_swap(workload)
        state = judge_use(pool, state, *reader.read_use(workload, pods, pools=pools)) if worth else state
    parent = reader.read_parent(workload) if parents and state == OwnerState.LIVE and workload else None
    found = is_owner(owner, workload)
    facts = PoolFacts(
        pool=pool,
        owner=state,
        owner_since=since,
        owner_found=found,
        parent=parent,
        superseded=pool.status in BROKEN and is_superseded(pool, pools),
        workload_over=state in (OwnerState.OVER, OwnerState.GONE) and has_ended(owner, workload),
    )
    return Gathered(facts, None if state == OwnerState.GONE else workload)


def see_parent(cluster: Cluster, workload: WorkloadView) -> WorkloadView:
    """Return a suspended workload that asks for capacity with its parent as that is now.

    Any other workload is returned as it is.

    Raises:
        Retryable: the parent could not be read.
        Denied: the permission to read it is missing.
    """
    if workload.parent is None or not (workload.suspended and is_asking(workload)):
        return workload
    found = cluster.get_parent(workload.parent, workload.kind)
    return dataclasses.replace(workload, parent=found or dataclasses.replace(workload.parent, ended="gone"))


def gather_again(
    look: Look, name: str, *, pools: Sequence[PoolSnapshot], batch: Look | None = None
) -> PoolFacts | None:
    """Return the facts before a delete, read now: pool, owner by UID, pods bound to its nodes.

    They are None when the pool no longer exists. With `batch`, from `Look.share_batch`, the pool
    and its owner were read at most `SHARED_SECONDS` ago.

    Raises:
        Retryable: something could not be read.
        Denied: a permission to read is missing.
    """
    pool = batch.pools.list().find(name) if batch else look.get_pool(name)
    if pool is None:
        return None
    seen = gather_facts(pool, OwnerReader(batch or look), pools=pools, parents=False)
    facts = _read_nodes(look, seen)
    if facts.workload_over and find_idle_bound(pool, look.settings):
        facts = dataclasses.replace(facts, marks=look.live.list_surplus_marks(pool.name))
    bound = look.live.list_pool_pods(pool.name)
    now, drain_seconds_max = look.now(), look.settings.drain_seconds_max
    pods = count_pods(pool.owner, bound, now=now, drain_seconds_max=drain_seconds_max)
    others = list_others(pool.owner, bound, now=now, drain_seconds_max=drain_seconds_max)
    return dataclasses.replace(facts, pods=pods, others=tuple(others))


def _read_nodes(look: Look, seen: Gathered) -> PoolFacts:
    """Add what the decision about a live owner's pool with errors needs of nodes and pods."""
    facts, owner = seen.facts, seen.facts.pool.owner
    if owner is None or seen.workload is None or facts.owner != OwnerState.LIVE or facts.pool.status not in BROKEN:
        return facts
    waiting = WaitingPods(leader_since=0.0)  # a workload that waits for its capacity has no pods
    if not seen.workload.suspended:
        waiting = measure_waiting(owner, seen.workload, look.live.list_waiting_pods(owner.kind, owner.namespace))
    nodes = look.live.list_pool_nodes(facts.pool.name)
    ready_nodes = sum(node.ready for node in nodes)
    return dataclasses.replace(facts, waiting=waiting, nodes=len(nodes), ready_nodes=ready_nodes)


def is_used_by_others(look: Look, pool: PoolSnapshot) -> bool:
    """Return whether accelerator pods of other workloads use a pool; not while GKE creates it."""
    bound = () if pool.status == PoolStatus.PROVISIONING else look.live.list_pool_pods(pool.name)
    drain_seconds_max = look.settings.drain_seconds_max
    return bool(list_others(pool.owner, bound, now=look.now(), drain_seconds_max=drain_seconds_max))


def read_namespace_obstacle(look: Look, demand: Demand) -> Decision | None:
    """Return why no pool is created for the demand's namespace; None when a pool may be created.

    The namespace is read only when a pool is about to be created or to grow.

    Raises:
        Retryable: the namespace could not be read.
        Denied: the permission to read it is missing.
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


def read_trying(look: Look, demand: Demand, pool: PoolSnapshot | None) -> Decision | None:
    """Return what GKE says while it creates a pool with its nodes; None if it says nothing.

    The demand may be on any attempt, and the pool of its slice in any status, or absent.
    """
    now = look.now()
    creates = pool is not None and pool.status == PoolStatus.PROVISIONING and not pool.autoscaled
    if pool is None or not (look.ports.reads_fillings and creates and pool.is_older(TRYING_SECONDS, now)):
        return None
    machines = _read_machines(look, pool)
    tried = demand.on_attempt(pool.owner.attempt if pool.owner else 0)
    return decide_trying(tried, pool, machines, now=now) if machines else None


def _read_machines(look: Look, pool: PoolSnapshot) -> Machines | None:
    return try_to_read(_KEEPS_EMPTY, partial(look.ports.pools.read_machines, pool), of=f"node pool {pool.name}")


def add_disks(look: Look, workload: WorkloadView, *, claims: Sequence[str] | None = None) -> WorkloadView:
    """Return a workload with the disks of some claims; without any if they may not be read.

    The claims are those of the workload's spec if they are None.

    Raises:
        Retryable: one of them could not be read.
    """
    try:
        return read_disks(look.live, workload, list_claims(workload) if claims is None else claims)
    except Denied as error:
        explain(look.live, decide_failure(_UNREAD, error), objects=(workload,))
        return workload


def read_disks(live: Cluster, workload: WorkloadView, claims: Sequence[str]) -> WorkloadView:
    """Return a workload with the disks of some claims.

    Raises:
        Retryable: one of them could not be read.
        Denied: they may not be read.
    """
    found = [live.find_disk(workload.namespace, claim) for claim in claims]
    return dataclasses.replace(workload, disks=tuple(disk for disk in found if disk)) if found else workload
