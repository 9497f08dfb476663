"""Creations that failed: GKE's operations that ended with an error, and requests that it refused.

GKE's list of operations has no refused requests, for example with HTTP 429. Only the functions' log
records have those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cli.access.log_search import read_answers
from shared.model.decisions import Reason, Verdict
from shared.model.names import parse_pool_name
from shared.model.times import format_time
from shared.plan.failures import RULES, Failure, classify_failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.core.identity.creations import Creation

    from cli.access.log_search import Answered, OpenLogs

REFUSALS = frozenset(
    {
        Reason.THROTTLED,
        Reason.QUOTA_EXCEEDED,
        Reason.RESERVATION_UNFIT,
        Reason.PERMISSION_DENIED,
        Reason.REQUEST_INVALID,
        Reason.CLUSTER_NOT_FOUND,
        Reason.UNAVAILABLE,
        Reason.INTERNAL_ERROR,
    }
)
"""Reasons of an answer that failed, or of a request that GKE did not accept."""
LASTING = frozenset(
    {
        *(str(failure) for failure, rule in RULES.items() if rule.lasting),
        str(Reason.PERMISSION_DENIED),
        str(Reason.REQUEST_INVALID),
        str(Reason.CLUSTER_NOT_FOUND),
        str(Reason.QUOTA_EXCEEDED),
    }
)
"""Classes that no further try mends."""
REPEATED = 3
"""So many failures of one slice without a success need a person, whatever the class."""

Slice = tuple[str, str, str, str]
"""Namespace, workload, slice, and the UID of the workload: a later one of that name is another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """One creation that failed."""

    at: float
    """Unix seconds."""
    slice: Slice
    failure: str
    """The class of a failed creation, or the reason of a refused request."""
    error: str
    zone: str = ""


class OfSlice:
    """What a row about one slice has."""

    __slots__ = ()
    cluster: str
    namespace: str
    workload: str
    slice: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Return cluster, namespace, workload and slice."""
        return self.cluster, self.namespace, self.workload, self.slice


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRow(OfSlice):
    """The failures of one slice since its last success; class, zone and words are of the last."""

    cluster: str
    namespace: str
    workload: str
    slice: str
    count: int
    failure: str
    zone: str
    """Empty if nothing tells it."""
    since: str
    """RFC 3339."""
    last: str
    """RFC 3339."""
    last_seconds: float
    """How long ago the last one was."""
    error: str

    @property
    def lasts(self) -> bool:
        """Return whether further tries alone will not help."""
        return self.count >= REPEATED or self.failure in LASTING


def find_failures(
    creations: Iterable[Creation], answers: Sequence[Answered], known: dict[str, Slice]
) -> list[Failed]:
    """Return the failures since each slice's last success, in order of time.

    Args:
        creations: the operations of GKE that create pools.
        answers: the functions' log records.
        known: the slices, by the hash in the names of their pools; the records add others.
    """
    slices = known | {key: name_slice(each.claim) for each in answers if (key := hash_of(each.pool))}
    zones = {each.pool: each.zone for each in answers if each.pool and each.zone}
    accepted: dict[Slice, float] = {}
    ended: dict[Slice, float] = {}
    found: list[Failed] = []
    for each in creations:
        home = slices.get(hash_of(each.pool), ("", "", each.pool, ""))
        if each.began_at is not None:
            accepted[home] = max(each.began_at, accepted.get(home, 0.0))
        at = each.ended_at or each.began_at
        if not each.ended or at is None:
            continue
        if not each.error:
            ended[home] = max(at, ended.get(home, 0.0))
            continue
        failure = str(classify_failure(each.error, each.code))
        found.append(Failed(at=at, slice=home, failure=failure, error=each.error, zone=zones.get(each.pool, "")))
    for answer in answers:
        home = name_slice(answer.claim)
        if _is_refusal(answer) and answer.at > accepted.get(home, 0.0):
            found.append(
                Failed(at=answer.at, slice=home, failure=answer.reason, error=answer.message, zone=answer.zone)
            )
    return sorted((each for each in found if each.at > ended.get(each.slice, 0.0)), key=lambda each: each.at)


def sum_up(
    cluster: str, failures: Iterable[Failed], zones: dict[Slice, str], *, now: float
) -> dict[Slice, FailureRow]:
    """Return one row for each slice.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        failures: in order of time.
        zones: by slice, for failures that do not tell their zone.
        now: unix seconds.
    """
    by_slice: dict[Slice, list[Failed]] = {}
    for each in failures:
        by_slice.setdefault(each.slice, []).append(each)
    rows = {}
    for home, found in by_slice.items():
        last = found[-1]
        rows[home] = FailureRow(
            cluster=cluster,
            namespace=home[0],
            workload=home[1],
            slice=home[2],
            count=len(found),
            failure=last.failure,
            zone=last.zone or zones.get(home, ""),
            since=format_time(found[0].at),
            last=format_time(last.at),
            last_seconds=round(max(0.0, now - last.at), 1),
            error=last.error,
        )
    return rows


def read_records(open_logs: OpenLogs | None, cluster: str, *, now: float) -> list[Answered]:
    """Return the functions' log records about a cluster's slices; none where no logs can be read.

    Raises:
        ProvisionerError: the logs could not be read.
    """
    return [] if open_logs is None else read_answers(open_logs, cluster, now=now)


def name_slice(claim: dict[str, str]) -> Slice:
    """Return the slice of a claim as log records have it."""
    return tuple(claim.get(key, "") for key in ("namespace", "name", "slice", "owner_uid"))  # type: ignore[return-value]


def _is_refusal(answer: Answered) -> bool:
    """Return whether a record tells a failure that no operation of GKE tells."""
    refused = answer.decision in ("none", Verdict.REFUSE) and answer.reason in REFUSALS
    return refused and answer.failure not in set(Failure)


def hash_of(pool: str) -> str:
    """Return the hash in the name of a pool of ours; empty for another name."""
    parsed = parse_pool_name(pool)
    return parsed.hash if parsed else ""


def tell_failures(row: FailureRow, pools: Iterable[OfSlice] = ()) -> str:
    """Return how often the creation of a slice failed, since when, and GKE's last words.

    Args:
        row: the failures.
        pools: that exist; one of them may be the slice's, which then did not go without.
    """
    what = "has failed creations" if row.key in {each.key for each in pools} else "got no node pool"
    times = f"{row.count} x {row.failure}" if row.count > 1 else row.failure
    where = f" in {row.zone}" if row.zone else ""
    when = f"since {row.since}, last at {row.last}" if row.count > 1 else f"at {row.last}"
    return f"slice {row.slice} {what}: {times}{where} {when}: {row.error}"
