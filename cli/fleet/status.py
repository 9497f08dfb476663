"""The present state: every pool of ours and every waiting slice, each with its decision."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cli.endings import say
from cli.fleet.busy_hosts import count_busy_hosts
from cli.fleet.failed_creations import (
    FailureRow,
    OfSlice,
    find_failures,
    hash_of,
    name_slice,
    read_records,
    sum_up,
    tell_failures,
)
from cli.prices import find_pool_price, find_tier
from cli.rehearsal import open_rehearsal, rehearse, rehearse_asking, rehearse_leaders, rehearse_pools
from shared.core.decide.failures import classify_failure
from shared.core.decide.limits import count_pool_chips
from shared.core.decide.warm_pools import find_idle_bound, find_idle_since
from shared.core.decisions import FAILURE_REASONS, Reason, Verdict
from shared.core.errors import ProvisionerError
from shared.core.identity.pools import PoolStatus
from shared.core.workloads import PodTemplate, PodView
from shared.perform.changes import read_stop
from shared.perform.pool_sizes import measure_elastic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cli.fleet.failed_creations import Slice
    from cli.logs.log_search import OpenLogs
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import Ports
    from shared.core.workloads import WorkloadView
    from shared.perform.tell import Outcome

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
    candidate: str = ""
    """Which entry of the list of capacities this is; empty if there is no list."""
    zone: str = ""
    """Where the decision creates the pool."""
    parent: str = ""
    """Kind and name of what made a workload that waits so, for example ``RayJob nightly``."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What needs a person."""

    about: str
    """A workload, or a part of the provisioner."""
    reason: str
    text: str

    def __str__(self) -> str:
        return f"{self.about}: {self.text}"


@dataclass(slots=True)
class Status:
    """All of it."""

    pools: list[PoolRow] = field(default_factory=list)
    waiting: list[WaitingRow] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """What could not be asked."""
    stops: dict[str, str] = field(default_factory=dict)
    """By cluster: why its emergency stop is on, in a sentence."""
    failures: list[FailureRow] = field(default_factory=list)
    """The failed creations of the slices that wait."""
    unread: list[str] = field(default_factory=list)
    """Sources of further facts that could not be read."""
    left_alone: list[WaitingRow] = field(default_factory=list)
    """Pods that wait and get no pools from this provisioner."""
    asked: int = 0
    """How many clusters answered."""

    @property
    def is_empty(self) -> bool:
        """Return whether there is no pool, and nothing that waits for one."""
        return not (self.pools or self.waiting or self.left_alone)

    @property
    def stuck(self) -> int:
        """Return how many rows need a person."""
        return len(self.troubles)

    @property
    def troubles(self) -> list[Trouble]:
        """Return what needs a person: a slice that waits once, also if it has a failed pool."""
        stuck = {row.key for row in self.waiting if row.stuck}
        pools = [row for row in self.pools if not (row.failure and row.key in stuck)]
        rows: list[PoolRow | WaitingRow] = [*pools, *self.waiting]
        told = [_trouble(row, row.reason, f"{row.message} {tell_reason(row)}") for row in rows if row.stuck]
        new = [each for each in self.failures if each.lasts and each.key not in stuck]
        return told + [_trouble(each, each.failure, tell_failures(each)) for each in new]

    def as_data(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "pools": [asdict(row) | {"chips_idle": row.chips_idle} for row in self.pools],
            "waiting": [asdict(row) for row in self.waiting],
            "left_alone": [asdict(row) for row in self.left_alone],
            "failures": [asdict(row) for row in self.failures],
            "stuck": self.stuck,
            "errors": self.errors,
            "unread": self.unread,
            "stops": self.stops,
        }


def read_status(ports: Ports, *, namespace: str = "", open_logs: OpenLogs | None = None) -> Status:
    """Return the status of every cluster. A cluster that does not answer is listed as an error.

    Args:
        ports: the deployment; nothing is changed.
        namespace: only what belongs to workloads of this namespace; empty: all.
        open_logs: opens the functions' logs, which tell the requests that GKE refused. They are
            read only while a slice waits.
    """
    ports = rehearse(ports)
    status = Status()
    for cluster in ports.clusters:
        found = Status()
        try:
            _read_cluster(cluster, ports, found, open_logs)
        except ProvisionerError as error:
            status.errors.append(f"{cluster}: {say(error)}")
        else:
            status.asked += 1
        for part in ("pools", "waiting", "failures", "left_alone", "unread"):
            getattr(status, part).extend(getattr(found, part))
        status.stops |= found.stops
    _share_failures(status)
    if namespace:
        status.pools = [row for row in status.pools if row.namespace == namespace]
        status.waiting = [row for row in status.waiting if row.namespace == namespace]
        status.failures = [row for row in status.failures if row.namespace == namespace]
        status.left_alone = [row for row in status.left_alone if row.namespace == namespace]
    status.pools.sort(key=lambda row: (row.cluster, row.namespace, row.workload, row.slice, row.pool))
    status.waiting.sort(key=lambda row: (row.cluster, row.namespace, row.workload, row.slice))
    status.failures.sort(key=lambda row: row.key)
    return status


def _read_cluster(cluster: str, ports: Ports, status: Status, open_logs: OpenLogs | None) -> None:
    if stop := read_stop(cluster, ports):
        status.stops[cluster] = f"the mode is {stop.mode}: {stop.cause}"
    pools = ports.pools.list(cluster)
    busy = _read_busy_hosts(cluster, pools, ports, status)
    look = open_rehearsal(cluster, pools, ports)
    for pool, outcome in rehearse_pools(look):
        row = _pool_row(cluster, pool, outcome, ports)
        status.pools.append(replace(row, hosts_busy=busy.get(pool.name, None if row.nodes else 0)))
    waiting: list[Outcome] = []
    for pod, outcome in rehearse_leaders(look):
        asks = _waiting_row(cluster, pod, outcome, ports)
        if outcome.decision.verdict != Verdict.NOTHING:
            status.waiting.append(asks)
            waiting.append(outcome)
        elif outcome.decision.reason in LEFT_ALONE:
            status.left_alone.append(asks)
    for workload, outcomes in rehearse_asking(look):
        status.waiting.append(_asking_row(cluster, workload, outcomes, ports))
        waiting += outcomes
    if waiting:
        status.failures += _read_failures(cluster, waiting, ports, status, open_logs)


def _read_busy_hosts(cluster: str, pools: Sequence[PoolSnapshot], ports: Ports, status: Status) -> dict[str, int]:
    try:
        return count_busy_hosts(ports.clusters[cluster], pools)
    except ProvisionerError as error:
        status.unread.append(f"busy hosts of {cluster}: {say(error)}")
        return {}


def _read_failures(
    cluster: str, waiting: Sequence[Outcome], ports: Ports, status: Status, open_logs: OpenLogs | None
) -> list[FailureRow]:
    """Return the failed creations of the slices that wait."""
    known: dict[str, Slice] = {}
    zones: dict[Slice, str] = {}
    for each in waiting:
        if claim := each.facts.get("claim"):
            known[hash_of(each.pool)] = name_slice(claim)
            zones[name_slice(claim)] = str(each.facts.get("zone", ""))
    now, creations, answers = ports.clock.now(), [], []
    try:
        creations = list(ports.pools.list_creations(cluster))
    except ProvisionerError as error:
        status.unread.append(f"GKE's operations of {cluster}: {say(error)}")
    try:
        answers = read_records(open_logs, cluster, now=now)
    except ProvisionerError as error:
        status.unread.append(f"the functions' logs: {say(error)}")
    rows = sum_up(cluster, find_failures(creations, answers, known), zones, now=now)
    return [row for home, row in rows.items() if home in zones]


def _share_failures(status: Status) -> None:
    """Show a failed pool with the class that its slice has: it may rest on GKE's operation too."""
    known = {(row.cluster, row.pool): row.failure for row in status.waiting if row.failure}
    for at, row in enumerate(status.pools):
        if row.failure:
            failure = known.get((row.cluster, row.pool), row.failure)
            status.pools[at] = replace(row, failure=failure)


def _pool_row(cluster: str, pool: PoolSnapshot, outcome: Outcome, ports: Ports) -> PoolRow:
    pool = measure_elastic([pool], ports, autoscaled=True)[0][0]
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
        tier=str(find_tier(pool)),
        dollars_per_hour=find_pool_price(pool, cluster.split("/")[3]),
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
        candidate=str(outcome.facts.get("candidate", "")),
        zone=str(outcome.facts.get("zone", "")),
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
    parent = f"{workload.parent.kind} {workload.parent.name}" if workload.parent else ""
    return replace(_waiting_row(cluster, pod, outcome, ports), parent=parent)


def _read_claim(outcome: Outcome, field: str) -> str:
    return str(outcome.facts.get("claim", {}).get(field, ""))


def _trouble(row: PoolRow | WaitingRow | FailureRow, reason: str, text: str) -> Trouble:
    return Trouble(f"{row.namespace}/{row.workload}", reason, text)


def tell_reason(row: PoolRow | WaitingRow) -> str:
    """Return the reason of a row in brackets, and the class of its failure."""
    return f"[{row.reason}]" if row.failure in ("", row.reason) else f"[{row.reason}, failure: {row.failure}]"
