"""Decides what to do for a demand, from the pool of its name. Pure and total."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from shared.core import labels
from shared.core.decide.limits import decide_limit
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.identity.pool_index import PoolIndex
from shared.core.identity.pools import RUNNING, PoolStatus
from shared.core.kinds.table import get_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.decide.limits import Usage
    from shared.core.demand.demand import Demand
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.settings import Settings

_IS_AUTOSCALED = attrgetter("autoscaled")

_IN_PROGRESS = (PoolStatus.PROVISIONING, PoolStatus.RECONCILING)


def decide_provision(
    demand: Demand, pool: PoolSnapshot | None, *, now: float, settings: Settings, usage: Usage | None = None
) -> Decision:
    """Return the decision for one demand.

    Args:
        demand: what the slice needs.
        pool: the pool of the demand's name; None when there is none or it was not looked for yet.
        now: unix seconds.
        settings: the operator's settings.
        usage: the chips and slices of the cluster; None when no limit is set.
    """
    if pool is None:
        return _decide_absent(demand, settings, usage)
    owner = pool.owner
    if owner is None or owner.claim_hash != demand.claim.hash:
        return Decision(
            Verdict.REFUSE,
            Reason.FOREIGN_LABELS,
            f"node pool {pool.name} already exists and its labels do not name this slice; "
            "delete the node pool if nothing uses it",
        )
    if demand.before_pods and pool.autoscaled and pool.status == PoolStatus.RUNNING:
        return _decide_autoscaled(pool.name)
    # If a live workload may change its shape, it cannot use the pool of the earlier shape.
    changeable = get_kind(demand.claim.kind).reshapes
    replace = settings.replace_differing_pools or changeable
    return _decide_ours(demand, pool, old=pool.is_older(settings.grace_seconds, now), replace=replace)


def limit_autoscaled(demand: Demand, pools: Sequence[PoolSnapshot], settings: Settings) -> Demand:
    """Return a demand, with nodes at creation if the cluster has too many autoscaled pools.

    GKE's autoscaler gets slower with each of them:
    https://cloud.google.com/kubernetes-engine/docs/concepts/cluster-autoscaler#limitations.
    """
    many = len(PoolIndex.of(pools).select(_IS_AUTOSCALED)) >= settings.autoscaled_pools_max
    return demand.with_nodes_at_creation() if many else demand  # assumes: autoscaler-pools


def describe_creation(demand: Demand) -> str:
    """Return what is created for a demand, in words."""
    return f"creating {demand.shape}, {demand.place}"


def decide_created(decision: Decision, pool_name: str) -> Decision:
    """Return the decision to create, with the name of the pool that GKE has accepted."""
    return Decision(decision.verdict, decision.reason, f"{decision.message}: node pool {pool_name}")


def decide_sent(pool_name: str) -> Decision:
    """Return the answer for a pool whose create another delivery has sent, which tells of it."""
    return Decision(Verdict.NOTHING, Reason.POOL_IN_PROGRESS, f"another delivery creates node pool {pool_name}")


def _decide_absent(demand: Demand, settings: Settings, usage: Usage | None) -> Decision:
    create = Decision(Verdict.CREATE, Reason.POOL_ABSENT, describe_creation(demand))
    return decide_limit(demand, settings, usage) or create


def _decide_autoscaled(name: str) -> Decision:
    """Decide about an autoscaled pool whose pods do not exist, so that no nodes come or stay."""
    message = (
        f"node pool {name} gets its nodes from GKE's autoscaler, which adds none before pods exist; it is replaced"
    )
    return Decision(Verdict.DELETE, Reason.POOL_DIFFERS, message)


def _decide_ours(demand: Demand, pool: PoolSnapshot, *, old: bool, replace: bool) -> Decision:
    """Decide by status, for a pool whose labels name this claim; old: it is past the grace."""
    name, status, same = pool.name, pool.status, bool(pool.owner and pool.owner.was_made_for(demand.fingerprint))
    if status in _IN_PROGRESS:
        reason = Reason.POOL_IN_PROGRESS if same else Reason.POOL_IN_PROGRESS_DIFFERS
        but = "" if same else ", but it does not have the shape that the pods need now"
        return Decision(Verdict.WAIT, reason, f"node pool {name} is {status}{but}")
    if status == PoolStatus.STOPPING:
        message = f"node pool {name} is being deleted; it is created again afterwards"
        return Decision(Verdict.WAIT, Reason.POOL_STOPPING, message)
    if status == PoolStatus.ERROR:
        return Decision(Verdict.DELETE, Reason.POOL_FAILED, f"node pool {name} failed: {pool.error or 'ERROR'}")
    if status == PoolStatus.RUNNING_WITH_ERROR and not pool.autoscaled and (same or not replace):
        message = f"node pool {name} runs with errors: {pool.error or status}"
        return Decision(Verdict.DELETE if old else Verdict.WAIT, Reason.POOL_DEGRADED, message)
    if status in RUNNING:  # assumes: status-after-end
        return _decide_running(demand, pool, same=same, replace=replace)
    message = f"node pool {name} has a status that this version does not know"
    return Decision(Verdict.WAIT, Reason.STATUS_UNKNOWN, message)


def _decide_running(demand: Demand, pool: PoolSnapshot, *, same: bool, replace: bool) -> Decision:
    name, kind, machine = pool.name, demand.claim.kind, f"{labels.INSTANCE_TYPE}={demand.shape.machine_type}"
    if same:
        return Decision(Verdict.KEEP, Reason.POOL_SERVES, f"node pool {name} is running")
    beside = f"; to get one beside it, select {machine} in the pod template" * demand.elastic
    differs = f"node pool {name} does not have the shape that the pods need{beside}"
    if replace:
        return Decision(Verdict.DELETE, Reason.POOL_DIFFERS, f"{differs}; it is replaced")
    mend = f"delete the {kind} and create it again, or set replace_differing_pools to true"
    return Decision(Verdict.REFUSE, Reason.POOL_DIFFERS, f"{differs}; {mend}")
