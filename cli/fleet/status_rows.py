"""The rows of a status: one of our pools, what waits for one, and what needs a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.core.decide.limits import count_pool_chips
from shared.core.decide.warm_pools import find_idle_bound

from cli.fleet.failed_creations import OfSlice
from cli.prices import find_pool_price, find_tier
from shared.model.decisions import FAILURE_REASONS, Reason, Verdict
from shared.model.pools import PoolStatus
from shared.plan.failures import classify_failure

if TYPE_CHECKING:
    from shared.engine.tell import Outcome

    from shared.engine.outside import Ports
    from shared.model.pools import PoolSnapshot
    from shared.model.workloads import PodView

STUCK = FAILURE_REASONS | frozenset(
    {
        Reason.POOL_DEGRADED,
        Reason.POOL_DIFFERS,
        Reason.POD_UNPLACED,
        Reason.STATUS_UNKNOWN,
        Reason.OWNER_UNKNOWN,
        Reason.PARENT_OVER,
        Reason.FOREIGN_LABELS,
    }
)
"""With these reasons a person must look, whatever the provisioner does next."""
LEFT_ALONE = frozenset(
    {
        Reason.DEMAND_OPTED_OUT,
        Reason.DEMAND_LEFT_TO_GKE,
        Reason.DEMAND_BOUND_ELSEWHERE,
        Reason.DEMAND_NOT_UNSCHEDULABLE,
        Reason.IDENTITY_MISMATCH,
        Reason.KIND_NOT_SERVED,
    }
)
"""With these reasons a pod waits, and it is not this provisioner that it waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRow(OfSlice):
    """One pool of ours."""

    cluster: str
    pool: str
    namespace: str
    workload: str
    slice: str
    owner_uid: str
    state: str
    nodes: int
    chips: int
    machine_type: str
    topology: str
    age_seconds: float | None
    """None for a pool that does not say when it was made."""
    decision: str
    reason: str
    message: str
    stuck: bool
    attempt: int
    failure: str
    """The class of the failed creation; empty for a pool that was created, or still is."""
    warm: bool = False
    """Its workload is over, and it stays for the next one within its idle time."""
    idle_seconds: float | None = None
    """How long a warm pool is idle; None if no sweep has seen it idle yet."""
    idle_seconds_max: int = 0
    """How long it may stay idle; 0 if it may not."""
    tier: str = ""
    """``on-demand``, ``spot``, ``reservation`` or ``flex-start``."""
    dollars_per_hour: float | None = None
    """The list price of all of its nodes; None if it is unknown."""
    hosts_busy: int | None = None
    """How many of its nodes have accelerator pods; None if that is not known."""

    @property
    def chips_idle(self) -> int:
        """Return the chips of the nodes without accelerator pods; 0 if that is not known."""
        if self.hosts_busy is None or self.nodes < 1:
            return 0
        return self.chips * max(0, self.nodes - self.hosts_busy) // self.nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRow(OfSlice):
    """One slice whose leader pod is bound to no node."""

    cluster: str
    pod: str
    namespace: str
    workload: str
    slice: str
    pool: str
    waiting_seconds: float | None
    decision: str
    reason: str
    message: str
    stuck: bool
    attempt: int | None
    """The attempt that the decision is about; None without a demand."""
    failure: str
    """The class of the failure that the decision follows; empty without one."""
    error: str
    """GKE's words about it."""
    next_try: str
    """When the next attempt begins, in RFC 3339; empty if now, or not by itself."""
    candidate: str = ""
    """Which entry of the list of capacities this is; empty if there is no list."""
    zone: str = ""
    """Where the decision creates the pool."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What needs a person."""

    about: str
    """A workload, or a part of the provisioner."""
    reason: str
    text: str

    def __str__(self) -> str:
        return f"{self.about}: {self.text}"


def pool_row(
    cluster: str, pool: PoolSnapshot, outcome: Outcome, ports: Ports, *, idle_since: float | None = None
) -> PoolRow:
    """Return the row of a pool of its present size; a warm one is idle since a unix time."""
    owner, decision, now = pool.owner, outcome.decision, ports.clock.now()
    age = pool.age_seconds(now)
    return PoolRow(
        cluster=cluster,
        pool=pool.name,
        namespace=owner.namespace if owner else "",
        workload=owner.name if owner else "",
        slice=owner.slice_name if owner else "",
        owner_uid=owner.owner_uid if owner else "",
        state=str(pool.status),
        nodes=pool.node_count,
        chips=count_pool_chips(pool),
        machine_type=pool.machine_type,
        topology=pool.topology,
        age_seconds=None if age is None else round(age, 1),
        decision=str(decision.verdict),
        reason=str(decision.reason),
        message=decision.message,
        stuck=decision.reason in STUCK,
        attempt=owner.attempt if owner else 0,
        failure=str(classify_failure(pool.error)) if pool.status == PoolStatus.ERROR else "",
        warm=decision.reason == Reason.POOL_WARM,
        idle_seconds=None if idle_since is None else round(now - idle_since, 1),
        idle_seconds_max=find_idle_bound(pool, ports.settings),
        tier=str(find_tier(pool)),
        dollars_per_hour=find_pool_price(pool, cluster.split("/")[3]),
    )


def waiting_row(cluster: str, pod: PodView, outcome: Outcome, ports: Ports) -> WaitingRow:
    """Return the row of a pod that waits."""
    decision, since = outcome.decision, pod.unschedulable_since
    return WaitingRow(
        cluster=cluster,
        pod=pod.name,
        namespace=pod.namespace,
        workload=_read_claim(outcome, "name"),
        slice=_read_claim(outcome, "slice"),
        pool=outcome.pool,
        waiting_seconds=None if since is None else round(max(0.0, ports.clock.now() - since), 1),
        decision=str(decision.verdict),
        reason=str(decision.reason),
        message=decision.message,
        stuck=decision.verdict == Verdict.REFUSE or decision.reason in STUCK,
        attempt=outcome.facts.get("attempt"),
        failure=outcome.facts.get("failure", ""),
        error=outcome.facts.get("error", ""),
        next_try=outcome.facts.get("next_try", ""),
        candidate=str(outcome.facts.get("candidate", "")),
        zone=str(outcome.facts.get("zone", "")),
    )


def _read_claim(outcome: Outcome, field: str) -> str:
    return str(outcome.facts.get("claim", {}).get(field, ""))


def tell_reason(row: PoolRow | WaitingRow) -> str:
    """Return the reason of a row in brackets, and the class of its failure."""
    return f"[{row.reason}]" if row.failure in ("", row.reason) else f"[{row.reason}, failure: {row.failure}]"
