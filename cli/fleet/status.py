"""The present state: every pool of ours and every waiting slice, each with its decision."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from shared.core.decide.pool_facts import OwnerState, PoolFacts
from shared.core.decide.warm_pools import find_idle_since
from shared.engine.looks.gather import read_stop
from shared.engine.looks.pool_reads import measure_elastic
from shared.engine.steps.release_pools import judge_pool
from shared.engine.tell import Outcome, describe_pool_outcome, name_error

from cli.exit_codes import say
from cli.fleet.busy_hosts import count_busy_hosts
from cli.fleet.failed_creations import (
    FailureRow,
    find_failures,
    hash_of,
    name_slice,
    read_records,
    sum_up,
    tell_failures,
)
from cli.fleet.status_rows import LEFT_ALONE, PoolRow, Trouble, WaitingRow, pool_row, tell_reason, waiting_row
from cli.fleet.unlabelled_pools import find_unlabelled
from cli.printing import count
from cli.rehearsal import ONE_REFUSED, open_rehearsal, rehearse, rehearse_leaders, rehearse_pools
from shared.model.decisions import Reason, Verdict
from shared.model.errors import Denied, ProvisionerError
from shared.plan.failures import decide_read_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from shared.engine.looks.look import Look

    from cli.access.log_search import OpenLogs
    from cli.fleet.failed_creations import Slice
    from shared.engine.outside import Ports
    from shared.model.pools import PoolSnapshot

T = TypeVar("T")


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
    unlabelled: list[Trouble] = field(default_factory=list)
    """Pools of ours by their names, whose labels do not say whose they are."""
    asked: int = 0
    """Of how many clusters all that waits and all pools are listed."""

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
        failed = [_trouble(each, each.failure, tell_failures(each, self.pools)) for each in new]
        return told + failed + self.unlabelled

    def as_data(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "pools": [asdict(row) | {"chips_idle": row.chips_idle} for row in self.pools],
            "waiting": [asdict(row) for row in self.waiting],
            "left_alone": [asdict(row) for row in self.left_alone],
            "failures": [asdict(row) for row in self.failures],
            "unlabelled": [asdict(each) for each in self.unlabelled],
            "stuck": self.stuck,
            "errors": self.errors,
            "unread": self.unread,
            "stops": self.stops,
        }


def read_status(ports: Ports, *, namespace: str = "", open_logs: OpenLogs | None = None) -> Status:
    """Return the status of every cluster. What cannot be read of one is listed as an error.

    A refused read hides only what follows from it. A cluster that does not answer is asked no more.

    Args:
        ports: the deployment; nothing is changed.
        namespace: only what belongs to workloads of this namespace; empty: all.
        open_logs: opens the functions' logs, which tell the requests that GKE refused. They are
            read only while a slice waits.
    """
    ports = rehearse(ports)
    status = Status()
    for cluster in ports.clusters:
        refused: list[Exception] = []
        try:
            _read_cluster(cluster, ports, status, refused, namespace=namespace, open_logs=open_logs)
        except ProvisionerError as error:
            refused.append(error)
        status.errors += _sum_up_errors(cluster, refused)
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


def _read_cluster(
    cluster: str,
    ports: Ports,
    status: Status,
    refused: list[Exception],
    *,
    namespace: str,
    open_logs: OpenLogs | None,
) -> None:
    """Add what is found of a cluster to a status, and what was refused to `refused`."""
    if stop := _read(partial(read_stop, cluster, ports), None, refused):
        status.stops[cluster] = f"the mode is {stop.mode}: {stop.cause}"
    pools: Sequence[PoolSnapshot] | Denied
    try:
        pools = ports.pools.list(cluster)
    except Denied as error:
        pools = error
    look, waiting = open_rehearsal(cluster, pools, ports), list[Outcome]()
    if not isinstance(pools, Denied):
        status.unlabelled += find_unlabelled(cluster, pools, namespace=namespace)
        busy = _read_busy_hosts(cluster, pools, ports, status)
        for pool, found in rehearse_pools(look):
            row = _read_pool(look, pool, found, refused)
            status.pools.append(replace(row, hosts_busy=busy.get(pool.name, None if row.nodes else 0)))
    unlisted: list[Exception] = []
    for pod, found in _list(rehearse_leaders(look), unlisted):
        outcome = _get_outcome(found, cluster, refused)
        asks = waiting_row(cluster, pod, outcome, ports)
        if outcome.decision.verdict != Verdict.NOTHING:
            status.waiting.append(asks)
            waiting.append(outcome)
        elif outcome.decision.reason in LEFT_ALONE:
            status.left_alone.append(asks)
    refused += unlisted
    status.asked += not unlisted
    if waiting:
        status.failures += _read_failures(cluster, waiting, ports, status, open_logs)


def _read(read: Callable[[], T], otherwise: T, refused: list[Exception]) -> T:
    try:
        return read()
    except ONE_REFUSED as error:
        refused.append(error)
        return otherwise


def _list(found: Iterator[T], refused: list[Exception]) -> Iterator[T]:
    """Yield what is found until a list is refused."""
    try:
        yield from found
    except ONE_REFUSED as error:
        refused.append(error)


def _get_outcome(found: Outcome | Exception, cluster: str, refused: list[Exception]) -> Outcome:
    """Return an outcome, or one that says why there is none."""
    if isinstance(found, Outcome):
        return found
    refused.append(found)
    error = name_error(found)
    claim = {"claim": error.claim} if error.claim else {}
    return Outcome(decision=decide_read_error(error), cluster=cluster, facts=claim)


def _read_pool(look: Look, pool: PoolSnapshot, found: Outcome | Exception, refused: list[Exception]) -> PoolRow:
    ports = look.ports
    if isinstance(found, Exception):
        refused.append(found)
        judged = judge_pool(look, PoolFacts(pool=pool, owner=OwnerState.UNKNOWN))
        found = describe_pool_outcome(look.cluster, pool, judged.decision)
    measured, unmeasured = measure_elastic([pool], ports, autoscaled=True)
    refused += unmeasured.values()
    since = None
    if found.decision.reason == Reason.POOL_WARM:
        since = _read(lambda: find_idle_since(look.live.list_surplus_marks(pool.name), look.now()), None, refused)
    return pool_row(look.cluster, measured[0], found, ports, idle_since=since)


def _sum_up_errors(cluster: str, errors: Sequence[Exception]) -> list[str]:
    """Return the errors of a cluster: of those for one reason the first, and how many more."""
    alike: dict[str, dict[str, None]] = {}
    for each in errors:
        alike.setdefault(name_error(each).reason, {})[say(each)] = None
    more = {
        each: f" (and {count(len(texts) - 1, 'read')} more)" for each, texts in alike.items() if len(texts) > 1
    }
    return [f"{cluster}: {next(iter(texts))}{more.get(each, '')}" for each, texts in alike.items()]


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


def _trouble(row: PoolRow | WaitingRow | FailureRow, reason: str, text: str) -> Trouble:
    return Trouble(f"{row.namespace}/{row.workload}", reason, text)
