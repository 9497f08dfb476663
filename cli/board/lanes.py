"""One lane for each slice: what waited, each creation, and the state or end of its pools. Pure.

A reading of the deployment gives the present only. GKE's list of operations gives the creations of
the last day, also the failed ones. What followed a creation is remembered from earlier readings.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from cli.fleet.failed_creations import hash_of, tell_failures
from shared.model.decisions import Reason, Verdict
from shared.plan.failures import classify_failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from shared.core.identity.creations import Creation

    from cli.fleet.status import Status
    from cli.fleet.status_rows import PoolRow, WaitingRow

WAIT, CREATE, FAILED, PLACE, USE, OVER, DELETE = "wait", "create", "failed", "place", "use", "over", "delete"
KEPT_SECONDS = 900.0
"""How long a lane is shown after its last pool is gone and nothing waits."""
LANES_MAX = 500
_OF_STATE = {"PROVISIONING": CREATE, "ERROR": FAILED, "STOPPING": DELETE}
_OVER = frozenset(
    {
        Reason.WORKLOAD_OVER,
        Reason.WORKLOAD_SUSPENDED,
        Reason.OWNER_GONE,
        Reason.PODS_STILL_BOUND,
        Reason.GRACE_NOT_OVER,
        Reason.POOL_WARM,
    }
)

Key = tuple[str, str, str, str]
"""Cluster, namespace, workload, slice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One stretch of a lane."""

    phase: str
    start: float
    """Unix seconds."""
    end: float | None
    """None while it goes on."""
    pool: str = ""
    cause: str = ""
    """The class of a failed creation."""
    text: str = ""
    """GKE's words about it."""


@dataclass(slots=True)
class Lane:
    """What is known of one slice."""

    key: Key
    seen_at: float
    claims: set[str] = field(default_factory=set)
    """The hashes in the names of its pools: a workload that is made again has another one."""
    waiting_since: float | None = None
    waited_until: float | None = None
    creations: dict[str, Creation] = field(default_factory=dict)
    lives: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    """By pool: each phase, and when it began."""
    ends: dict[str, float] = field(default_factory=dict)
    """By pool: when it was gone."""
    unfilled: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By pool that GKE's autoscaler could not fill: the class of the failure, and GKE's words."""
    decision: str = ""
    reason: str = ""
    message: str = ""
    stuck: bool = False
    waits: bool = False
    state: str = ""

    def spans(self) -> list[Span]:
        """Return its stretches in the order of their beginnings."""
        made = [_draw_creation(each) for each in self.creations.values() if each.began_at is not None]
        found = [*made, *(span for pool in self.lives for span in self._draw_life(pool))]
        found.sort(key=lambda span: span.start)
        return sorted([*found, *self._draw_waits(found)], key=lambda span: span.start)

    def as_data(self) -> dict[str, Any]:
        """Return it for the page."""
        return {
            **dict(zip(("cluster", "namespace", "workload", "slice"), self.key, strict=True)),
            "state": self.state,
            "decision": self.decision,
            "reason": self.reason,
            "message": self.message,
            "stuck": self.stuck,
            "waits": self.waits,
            "failures": sum(bool(each.error) for each in self.creations.values()) + len(self.unfilled),
            "spans": [asdict(span) for span in self.spans()],
        }

    def _draw_life(self, pool: str) -> Iterable[Span]:
        life = self.lives[pool]
        ends = [start for _, start in life[1:]] + [self.ends.get(pool)]
        known = self.creations.get(pool)
        for (phase, start), end in zip(life, ends, strict=True):
            drawn = known is not None and known.began_at is not None  # by `_draw_creation`
            if not drawn or not (phase == CREATE or (phase == FAILED and pool not in self.unfilled)):
                cause, text = self.unfilled.get(pool, ("", "")) if phase == FAILED else ("", "")
                yield Span(phase=phase, start=start, end=end, pool=pool, cause=cause, text=text)

    def _draw_waits(self, found: Sequence[Span]) -> Iterable[Span]:
        """Yield the gaps in which the slice waited and no pool of it was made or there."""
        if self.waiting_since is None:
            return
        at: float | None = self.waiting_since
        for span in found:
            if at is not None and at < span.start:
                yield Span(phase=WAIT, start=at, end=span.start)
            at = None if span.end is None or at is None else max(at, span.end)
        if at is not None and (self.waited_until is None or at < self.waited_until):
            yield Span(phase=WAIT, start=at, end=self.waited_until)


class Lanes:
    """All lanes; `observe` takes the readings in."""

    def __init__(self) -> None:
        self._lanes: dict[Key, Lane] = {}

    def observe(self, status: Status, creations: Mapping[str, Sequence[Creation]], now: float) -> list[Lane]:
        """Take one reading in, and return the lanes: those that need a person or wait are first.

        Args:
            status: the pools and what waits now.
            creations: by cluster, as GKE lists them.
            now: unix seconds.
        """
        unread = {error.partition(":")[0] for error in status.errors}
        waiting = {row.key: row for row in status.waiting}
        pools: dict[Key, dict[str, PoolRow]] = {}
        for row in status.pools:
            pools.setdefault(row.key, {})[row.pool] = row
        for key in {**waiting, **pools}:
            lane = self._lanes.setdefault(key, Lane(key=key, seen_at=now))
            _see_present(lane, waiting.get(key), pools.get(key, {}), now)
        for failure in status.failures:
            failing = self._lanes.get(failure.key)
            if failing is not None and failing.decision == Verdict.CREATE:  # again, what GKE refused
                failing.message, failing.reason = tell_failures(failure), failure.failure
                failing.stuck = failure.lasts
        for key, lane in self._lanes.items():
            if key[0] in unread:
                continue  # what is absent from the reading is unknown, not gone
            if key not in waiting and lane.waits:
                lane.waits, lane.waited_until = False, now
            _see_creations(lane, creations.get(key[0], ()))
            _see_lives(lane, pools.get(key, {}), now)
            if key not in waiting and key not in pools:
                lane.state, lane.stuck, lane.decision, lane.reason, lane.message = "gone", False, "", "", ""
        self._forget(now)
        return sorted(self._lanes.values(), key=lambda lane: (not lane.stuck, not lane.waits, lane.key))

    def _forget(self, now: float) -> None:
        old = [key for key, lane in self._lanes.items() if now - lane.seen_at > KEPT_SECONDS]
        by_age = sorted(self._lanes, key=lambda key: self._lanes[key].seen_at)
        for key in {*old, *by_age[: max(0, len(by_age) - LANES_MAX)]}:
            del self._lanes[key]


def find_phase(row: PoolRow, *, waits: bool, unfilled: bool = False) -> str:
    """Return the phase of a pool that is there.

    A pool of GKE's autoscaler runs before it has nodes, so its slice still waits.

    Args:
        row: the pool.
        waits: whether the leader of its slice is bound to no node.
        unfilled: whether GKE's autoscaler could not make its nodes.
    """
    if row.state in _OF_STATE:
        return _OF_STATE[row.state]
    if row.decision == Verdict.DELETE or row.reason in _OVER:
        return OVER
    if waits and not row.nodes:
        return FAILED if unfilled else WAIT
    return PLACE if waits else USE


def _see_present(lane: Lane, waiting: WaitingRow | None, pools: Mapping[str, PoolRow], now: float) -> None:
    lane.seen_at = now
    names = [*pools, *([waiting.pool] if waiting else [])]
    lane.claims |= {found for name in names if (found := hash_of(name))}
    newest = max(pools.values(), key=lambda row: row.attempt, default=None)
    told = waiting or newest
    if told is not None:
        lane.decision, lane.reason, lane.message = told.decision, told.reason, told.message
    lane.stuck = any(row.stuck for row in (waiting, newest) if row)
    lane.state = newest.state if newest else "waiting"
    if waiting and waiting.failure and newest and newest.state == "RUNNING" and not newest.nodes:
        lane.unfilled[newest.pool] = (waiting.failure, waiting.error)
    if waiting is not None:
        if not lane.waits:
            lane.waiting_since = now - (waiting.waiting_seconds or 0.0)
            lane.waited_until = None
        lane.waits = True


def _see_creations(lane: Lane, creations: Iterable[Creation]) -> None:
    for each in creations:
        if hash_of(each.pool) in lane.claims:
            lane.creations[each.pool] = each


def _see_lives(lane: Lane, pools: Mapping[str, PoolRow], now: float) -> None:
    for name, row in pools.items():
        phase = find_phase(row, waits=lane.waits, unfilled=name in lane.unfilled)
        life = lane.lives.setdefault(name, [])
        lane.ends.pop(name, None)
        if not life or life[-1][0] != phase:
            first = not life or life[-1][0] == CREATE
            life.append((phase, _find_beginning(lane, row, phase, now) if first else now))
    for name in lane.lives.keys() - pools.keys():
        lane.ends.setdefault(name, now)


def _find_beginning(lane: Lane, row: PoolRow, phase: str, now: float) -> float:
    """Return when the phase began in which a pool is seen first, as far as that is known."""
    creation, seen = lane.creations.get(row.pool), bool(lane.lives[row.pool])
    if phase in (PLACE, USE, WAIT) and creation is not None and creation.ended_at is not None:
        return min(now, creation.ended_at)
    if phase in (CREATE, PLACE, USE) and row.age_seconds is not None and not seen:
        return now - row.age_seconds
    return now


def _draw_creation(creation: Creation) -> Span:
    failed = bool(creation.error)
    return Span(
        phase=FAILED if failed else CREATE,
        start=creation.began_at or 0.0,
        end=creation.ended_at,
        pool=creation.pool,
        cause=str(classify_failure(creation.error, creation.code)) if failed else "",
        text=creation.error,
    )
