"""The present state: every pool of ours and every waiting slice, each with its decision."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cli.printing import count, format_age, print_columns, print_line, short_cluster, styled
from cli.rehearsal import rehearse, rehearse_asking, rehearse_leaders, rehearse_pools
from shared.core.decide.failures import classify_failure
from shared.core.decide.limits import count_pool_chips
from shared.core.decide.warm_pools import find_idle_bound, find_idle_since
from shared.core.decisions import FAILURE_REASONS, Reason, Verdict
from shared.core.errors import ProvisionerError
from shared.core.identity.pools import PoolStatus
from shared.core.times import format_minute, parse_time
from shared.core.workloads import PodTemplate, PodView
from shared.perform.emergency_stop import read_stop
from shared.perform.pool_sizes import measure_elastic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import Ports
    from shared.core.workloads import WorkloadView
    from shared.perform.outcome import Outcome

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRow:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRow:
    """One slice whose leader pod is bound to no node, or a workload that waits without pods."""

    cluster: str
    pod: str
    """Empty for a workload that waits for the capacity of all of its slices."""
    namespace: str
    workload: str
    slice: str
    """Empty for such a workload."""
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
    """When the next attempt or round begins, in RFC 3339; empty if now, or not by itself."""
    round: int | None = None
    """The round of a workload that waits for its capacity, from 1; None for a slice."""


@dataclass(slots=True)
class Status:
    """All of it."""

    pools: list[PoolRow] = field(default_factory=list)
    waiting: list[WaitingRow] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """What could not be asked."""
    stops: dict[str, str] = field(default_factory=dict)
    """By cluster: why its emergency stop is on, in a sentence."""

    @property
    def stuck(self) -> int:
        """Return how many rows need a person."""
        return len(self.troubles)

    @property
    def troubles(self) -> list[str]:
        """Return what needs a person, a sentence each."""
        rows: list[PoolRow | WaitingRow] = [*self.pools, *self.waiting]
        return [f"{row.namespace}/{row.workload}: {row.message} {tell_reason(row)}" for row in rows if row.stuck]

    def as_data(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "pools": [asdict(row) for row in self.pools],
            "waiting": [asdict(row) for row in self.waiting],
            "stuck": self.stuck,
            "errors": self.errors,
            "stops": self.stops,
        }


def read_status(ports: Ports, *, namespace: str = "") -> Status:
    """Return the status of every cluster. A cluster that does not answer is listed as an error.

    Args:
        ports: the deployment; nothing is changed.
        namespace: only what belongs to workloads of this namespace; empty: all.
    """
    ports = rehearse(ports)
    status = Status()
    for cluster in ports.clusters:
        try:
            if stop := read_stop(cluster, ports):
                status.stops[cluster] = f"the mode is {stop.mode}: {stop.cause}"
            pools = ports.pools.list(cluster)
            for pool, outcome in rehearse_pools(cluster, pools, ports):
                status.pools.append(_pool_row(cluster, pool, outcome, ports))
            for pod, outcome in rehearse_leaders(cluster, pools, ports):
                if outcome.decision.verdict != Verdict.NOTHING:
                    status.waiting.append(_waiting_row(cluster, pod, outcome, ports))
            for workload, outcomes in rehearse_asking(cluster, pools, ports):
                status.waiting.append(_asking_row(cluster, workload, outcomes, ports))
        except ProvisionerError as error:
            status.errors.append(f"{cluster}: {error}")
    _share_failures(status)
    if namespace:
        status.pools = [row for row in status.pools if row.namespace == namespace]
        status.waiting = [row for row in status.waiting if row.namespace == namespace]
    status.pools.sort(key=lambda row: (row.cluster, row.namespace, row.workload, row.slice, row.pool))
    status.waiting.sort(key=lambda row: (row.cluster, row.namespace, row.workload, row.slice))
    return status


def _share_failures(status: Status) -> None:
    """Show a failed pool with the class that its slice has: it may rest on GKE's operation too."""
    known = {(row.cluster, row.pool): row.failure for row in status.waiting if row.failure}
    for at, row in enumerate(status.pools):
        if row.failure:
            failure = known.get((row.cluster, row.pool), row.failure)
            status.pools[at] = replace(row, failure=failure)


def _pool_row(cluster: str, pool: PoolSnapshot, outcome: Outcome, ports: Ports) -> PoolRow:
    pool = measure_elastic([pool], ports)[0][0]
    owner, decision = pool.owner, outcome.decision
    now, warm = ports.clock.now(), decision.reason == Reason.POOL_WARM
    age = pool.age_seconds(now)
    since = find_idle_since(ports.clusters[cluster].list_surplus_marks(pool.name), now) if warm else None
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
        warm=warm,
        idle_seconds=None if since is None else round(now - since, 1),
        idle_seconds_max=find_idle_bound(pool, ports.settings),
    )


def _waiting_row(cluster: str, pod: PodView, outcome: Outcome, ports: Ports) -> WaitingRow:
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
        round=outcome.facts.get("round"),
    )


def _asking_row(cluster: str, workload: WorkloadView, outcomes: Sequence[Outcome], ports: Ports) -> WaitingRow:
    """Return the row of a suspended workload that waits for its capacity; it has no pods.

    Attempt and failure are those of the slice that is tried again first.
    """
    outcome, *slices = outcomes
    failed = [each.facts for each in slices if each.demand and each.facts.get("failure")]
    first = min(failed, key=lambda facts: str(facts.get("next_try", "")), default={})
    told = {key: first[key] for key in ("attempt", "failure", "error", "next_try") if key in first}
    outcome = replace(outcome, facts=told | outcome.facts)
    pod = PodView(
        namespace=workload.namespace,
        name="",
        uid="",
        template=PodTemplate(),
        unschedulable_since=workload.suspended_since,
    )
    return _waiting_row(cluster, pod, outcome, ports)


def _read_claim(outcome: Outcome, field: str) -> str:
    return str(outcome.facts.get("claim", {}).get(field, ""))


def print_status(console: Console, status: Status, *, wide: bool) -> None:
    """Print the status for people: pools, then what waits, then one line that sums it up."""
    if status.pools:
        headings = ["POOL", "WORKLOAD", "STATE", "CHIPS", "AGE", "REASON"]
        extra = ["ATTEMPT", "FAILURE", "CLUSTER", "SLICE", "NODES", "MACHINE", "TOPOLOGY", "MESSAGE"]
        print_columns(console, headings + extra * wide, [_pool_cells(row, wide=wide) for row in status.pools])
    if status.waiting:
        if status.pools:
            print_line(console)
        headings = ["WAITING SLICE", "WORKLOAD", "FOR", "DECISION", "REASON", "ATTEMPT", "FAILURE", "NEXT TRY"]
        extra = ["CLUSTER", "LEADER", "POOL", "MESSAGE"]
        print_columns(console, headings + extra * wide, [_waiting_cells(row, wide=wide) for row in status.waiting])
    if status.pools or status.waiting:
        print_line(console)
    chips = sum(row.chips for row in status.pools)
    tail = f"; {status.stuck} need{'s' * (status.stuck == 1)} a person" if status.stuck else ""
    print_line(
        console,
        f"{count(len(status.pools), 'pool')} with {count(chips, 'chip')}, "
        f"{count(len(status.waiting), 'slice')} waiting{tail}",
    )
    for cluster, why in status.stops.items():
        text = f"{short_cluster(cluster)}: {why}"
        print_line(console, styled(text, "bad"))
    for trouble in status.troubles:
        print_line(console, styled(trouble, "warn"))


def _pool_cells(row: PoolRow, *, wide: bool) -> list[Any]:
    age = format_age(row.age_seconds)
    look = "bad" if row.stuck else "ok" if row.state == "RUNNING" else "warn"
    cells = [
        row.pool,
        f"{row.namespace}/{row.workload}",
        styled(row.state, look),
        str(row.chips),
        age,
        styled(row.reason + _tell_idle(row), "bad" if row.stuck else ""),
    ]
    extra = [
        str(row.attempt),
        row.failure or "-",
        short_cluster(row.cluster),
        row.slice or "-",
        str(row.nodes),
        row.machine_type,
        row.topology or "-",
        row.message,
    ]
    return cells + extra * wide


def _tell_idle(row: PoolRow) -> str:
    if not row.warm:
        return ""
    most = format_age(row.idle_seconds_max)
    return (
        f": up to {most}" if row.idle_seconds is None else f": idle for {format_age(row.idle_seconds)} of {most}"
    )


def _waiting_cells(row: WaitingRow, *, wide: bool) -> list[Any]:
    waited = format_age(row.waiting_seconds)
    cells = [
        row.slice or "(all)",
        f"{row.namespace}/{row.workload}",
        waited,
        styled(row.decision, "bad" if row.stuck else ""),
        styled(row.reason, "bad" if row.stuck else ""),
        "-" if row.attempt is None else str(row.attempt),
        row.failure or "-",
        _format_next(row),
    ]
    return cells + [short_cluster(row.cluster), row.pod or "-", row.pool or "-", row.message] * wide


def _format_next(row: WaitingRow) -> str:
    """Return when a failed creation is tried again; ``-`` if never by itself."""
    at = parse_time(row.next_try)
    if at is not None:
        return format_minute(at)
    return "now" if row.failure and row.decision == Verdict.CREATE else "-"


def tell_reason(row: PoolRow | WaitingRow) -> str:
    """Return the reason of a row in brackets, and the class of its failure."""
    return f"[{row.reason}]" if row.failure in ("", row.reason) else f"[{row.reason}, failure: {row.failure}]"
