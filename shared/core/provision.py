"""Given a demand and the pool of its name, what is to be done? Pure and total: `decide_provision`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.core.decisions import Decision, Reason, Verdict
from shared.core.kinds.table import get_kind
from shared.core.pools import PoolSnapshot, PoolStatus
from shared.core.settings import Mode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.core.demand import Demand
    from shared.core.settings import Settings

_IN_PROGRESS = (PoolStatus.PROVISIONING, PoolStatus.RECONCILING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a cluster's pools hold already, those being created included."""

    chips: int = 0
    chips_in_namespace: int = 0
    slices: int = 0


def decide_provision(
    demand: Demand, pool: PoolSnapshot | None, *, now: float, settings: Settings, usage: Usage | None = None
) -> Decision:
    """Return the decision for one demand, whatever the pool of its name looks like.

    Args:
        demand: what the slice asks for.
        pool: the pool that has the demand's name, or None when there is none (or none was looked for yet).
        now: unix seconds.
        settings: the operator's settings.
        usage: what the cluster holds, when a limit is set; None when none is.
    """
    if pool is None:
        return _decide_absent(demand, settings, usage)
    owner = pool.owner
    if owner is None or owner.claim_hash != demand.claim.hash:
        return Decision(
            Verdict.REFUSE,
            Reason.FOREIGN_LABELS,
            f"node pool {pool.name} exists and its labels do not say that it is this slice's",
        )
    same = owner.was_made_for(demand.fingerprint)
    mode = settings.find_mode(demand.claim.namespace)
    # Where a workload's shape may change while it lives, the pool of its earlier shape is of no more use to it.
    changeable = get_kind(demand.claim.kind).reshapes
    replace = (settings.replace_differing_pools or changeable) and mode == Mode.ACTIVE
    decision = _decide_ours(
        pool, same=same, age_seconds=pool.age_seconds(now), grace_seconds=settings.grace_seconds, replace=replace
    )
    if decision.verdict == Verdict.DELETE and mode == Mode.REPORT_ONLY:
        message = f"would delete node pool {pool.name} ({decision.reason})"
        return Decision(Verdict.KEEP, Reason.MODE_REPORT_ONLY, message)
    return decision


def _decide_absent(demand: Demand, settings: Settings, usage: Usage | None) -> Decision:
    mode = settings.find_mode(demand.claim.namespace)
    size = f"{demand.shape}, {demand.capacity.tier}"
    if mode == Mode.REPORT_ONLY:
        return Decision(Verdict.REFUSE, Reason.MODE_REPORT_ONLY, f"would create {size}; the mode is report-only")
    if mode == Mode.NO_CREATE:
        return Decision(Verdict.REFUSE, Reason.MODE_NO_CREATE, f"would create {size}; the mode is no-create")
    exceeded = find_exceeded_limit(demand, settings, usage)
    if exceeded:
        return Decision(Verdict.REFUSE, Reason.LIMIT_REACHED, exceeded)
    return Decision(Verdict.CREATE, Reason.POOL_ABSENT, f"creating {size}")


def find_exceeded_limit(demand: Demand, settings: Settings, usage: Usage | None) -> str:
    """Return which limit a pool of this size would exceed, in words; empty when none would be."""
    if usage is None:
        return ""
    chips = demand.shape.chips
    rows = (
        (settings.limit_chips, usage.chips + chips, "chips in the cluster (limit_chips)"),
        (
            settings.limit_chips_per_namespace,
            usage.chips_in_namespace + chips,
            f"chips in namespace {demand.claim.namespace} (limit_chips_per_namespace)",
        ),
        (settings.limit_slices, usage.slices + 1, "slices in the cluster (limit_slices)"),
    )
    for limit, wanted, name in rows:
        if limit and wanted > limit:
            return f"{wanted} {name} would exceed {limit}"
    return ""


def _decide_ours(
    pool: PoolSnapshot, *, same: bool, age_seconds: float, grace_seconds: float, replace: bool
) -> Decision:
    """Decide by status, for a pool whose labels carry this very claim."""
    name, status = pool.name, pool.status
    if status in _IN_PROGRESS:
        reason = Reason.POOL_IN_PROGRESS if same else Reason.POOL_IN_PROGRESS_DIFFERS
        return Decision(Verdict.WAIT, reason, f"node pool {name} is {status}")
    if status == PoolStatus.STOPPING:
        return Decision(
            Verdict.WAIT, Reason.POOL_STOPPING, f"node pool {name} is being deleted; then it is re-created"
        )
    if status == PoolStatus.ERROR:
        return Decision(Verdict.DELETE, Reason.POOL_FAILED, f"node pool {name} failed: {pool.error or 'ERROR'}")
    if status == PoolStatus.RUNNING_WITH_ERROR:
        old = age_seconds >= grace_seconds
        verdict = Verdict.DELETE if old else Verdict.WAIT
        return Decision(
            verdict, Reason.POOL_DEGRADED, f"node pool {name} runs with errors: {pool.error or status}"
        )
    if status == PoolStatus.RUNNING:
        return _decide_running(pool, same=same, replace=replace)
    return Decision(Verdict.WAIT, Reason.STATUS_UNKNOWN, f"node pool {name} has a status that is unknown here")


def _decide_running(pool: PoolSnapshot, *, same: bool, replace: bool) -> Decision:
    name, kind = pool.name, pool.owner.kind if pool.owner else "workload"
    if same:
        return Decision(Verdict.KEEP, Reason.POOL_SERVES, f"node pool {name} is running")
    if replace:
        return Decision(
            Verdict.DELETE, Reason.POOL_DIFFERS, f"node pool {name} was made for another shape; replacing"
        )
    return Decision(
        Verdict.REFUSE,
        Reason.POOL_DIFFERS,
        f"node pool {name} was made for another shape; delete the {kind}, or set replace_differing_pools",
    )


def measure_usage(pools: Iterable[PoolSnapshot], namespace: str, *, except_name: str) -> Usage:
    """Return what our pools of one cluster hold, the named one left out (it is the one being asked about)."""
    chips = chips_in_namespace = slices = 0
    for pool in pools:
        owner = pool.owner
        if owner is None or pool.name == except_name or pool.status == PoolStatus.STOPPING:
            continue
        held = pool.node_count * (pool.gpus_per_node or _chips_per_host(pool.machine_type))
        chips, slices = chips + held, slices + 1
        chips_in_namespace += held if owner.namespace == namespace else 0
    return Usage(chips=chips, chips_in_namespace=chips_in_namespace, slices=slices)


def _chips_per_host(machine_type: str) -> int:
    """Return the number in a machine name's suffix ``-Nt``, which is its chip count; 0 for other machines."""
    digits = machine_type.rpartition("-")[2].removesuffix("t")
    return int(digits) if machine_type.endswith("t") and digits.isascii() and digits.isdigit() else 0
