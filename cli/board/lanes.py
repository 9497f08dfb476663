"""One lane for each slot of a need, and one for each need that waits: what became of it. Pure.

A reading of the deployment gives the present only. GKE's list of operations gives the creations of
the last day, also the failed ones. What followed a creation is remembered from earlier readings.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from cli.fleet.rows import KEPT
from shared.model.failures import classify_failure
from shared.model.names import parse_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cli.fleet.looks import Reading
    from cli.fleet.rows import PoolRow, WaitingRow
    from cli.fleet.status import Status
    from shared.model.pools import Operation

WAIT, CREATE, FAILED, PLACE, USE, OVER, DELETE = "wait", "create", "failed", "place", "use", "over", "delete"
KEPT_SECONDS = 900.0
"""How long a lane is shown after its last pool is gone and nothing waits."""
LANES_MAX = 500
_OF_STATE = {"PROVISIONING": CREATE, "ERROR": FAILED, "STOPPING": DELETE}

Key = tuple[str, str, str, str]
"""Cluster, namespace, workload, and the hash of a slot or the shape of a need."""


@dataclass(frozen=True, slots=True)
class Created:
    """What GKE created for one slot."""

    slot: str
    operations: list[Operation] = field(default_factory=list)


def list_creations(readings: Iterable[Reading]) -> dict[Key, Created]:
    """Return what GKE created for each slot, also for slots whose pools are gone."""
    found: dict[Key, Created] = {}
    for reading in readings:
        for one in reading.planned:
            key = one.look.key
            for operation in reading.list_operations(one.slots):
                parsed = parse_name(operation.pool)
                if operation.creates and parsed is not None:
                    lane = (key.cluster, key.namespace, key.name, parsed.hash)
                    found.setdefault(lane, Created(one.slots[parsed.hash])).operations.append(operation)
    return found


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
    """What is known of one slot, or of one need that waits."""

    key: Key
    title: str
    seen_at: float
    waiting_since: float | None = None
    waited_until: float | None = None
    creations: dict[str, Operation] = field(default_factory=dict)
    lives: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    """By pool: each phase, and when it began."""
    ends: dict[str, float] = field(default_factory=dict)
    """By pool: when it was gone."""
    decision: str = ""
    reason: str = ""
    message: str = ""
    stuck: bool = False
    state: str = ""

    @property
    def waits(self) -> bool:
        """Return whether it is a need that waits now."""
        return self.waiting_since is not None and self.waited_until is None

    def spans(self) -> list[Span]:
        """Return its stretches in the order of their beginnings."""
        found = [_draw_creation(each) for each in self.creations.values() if each.began_at is not None]
        found += [span for pool in self.lives for span in self._draw_life(pool)]
        if self.waiting_since is not None:
            found.append(Span(phase=WAIT, start=self.waiting_since, end=self.waited_until))
        return sorted(found, key=lambda span: span.start)

    def as_data(self) -> dict[str, Any]:
        """Return it for the page."""
        return {
            **dict(zip(("cluster", "namespace", "workload", "slice"), self.key, strict=True)),
            "title": self.title,
            "state": self.state,
            "decision": self.decision,
            "reason": self.reason,
            "message": self.message,
            "stuck": self.stuck,
            "waits": self.waits,
            "failures": sum(bool(each.error) for each in self.creations.values()),
            "spans": [asdict(span) for span in self.spans()],
        }

    def _draw_life(self, pool: str) -> Iterator[Span]:
        life = self.lives[pool]
        ends = [start for _, start in life[1:]] + [self.ends.get(pool)]
        drawn = pool in self.creations and self.creations[pool].began_at is not None
        for (phase, start), end in zip(life, ends, strict=True):
            if not (drawn and phase in (CREATE, FAILED)):  # `_draw_creation` has drawn these
                yield Span(phase=phase, start=start, end=end, pool=pool)


class Lanes:
    """All lanes; `observe` takes the readings in."""

    def __init__(self) -> None:
        self._lanes: dict[Key, Lane] = {}

    def observe(self, status: Status, creations: Mapping[Key, Created], now: float) -> list[Lane]:
        """Take one reading in, and return the lanes: those that need a person or wait are first."""
        pools = _group_pools(status.pools)
        waiting = {(row.cluster, row.namespace, row.workload, row.shape): row for row in status.waiting}
        for key, rows in pools.items():
            title = f"slot {rows[0].slot}" if rows[0].slot else rows[0].pool
            self._find(key, title, now).seen_at = now
        for key, need in waiting.items():
            _see_waiting(self._find(key, f"{need.slices} of {need.shape} wait", now), need, now)
        self._see_creations(creations, now)
        unread = {error.partition(":")[0] for error in status.errors}
        for key, lane in self._lanes.items():
            if key[0] not in unread:  # what is absent from the reading is unknown then, not gone
                _see_present(lane, pools.get(key, []), now, waits=key in waiting)
        self._forget(now)
        return sorted(self._lanes.values(), key=lambda lane: (not lane.stuck, not lane.waits, lane.key))

    def _see_creations(self, creations: Mapping[Key, Created], now: float) -> None:
        """Take in what GKE created; a slot whose pools are gone has a lane for a while only."""
        for key, created in creations.items():
            ends = [each.ended_at or each.began_at or 0.0 for each in created.operations]
            if key in self._lanes or now - max(ends) <= KEPT_SECONDS:
                lane = self._find(key, f"slot {created.slot}", now)
                lane.creations |= {each.pool: each for each in created.operations}

    def _find(self, key: Key, title: str, now: float) -> Lane:
        lane = self._lanes.setdefault(key, Lane(key=key, title=title, seen_at=now))
        lane.title = title
        return lane

    def _forget(self, now: float) -> None:
        old = [key for key, lane in self._lanes.items() if now - lane.seen_at > KEPT_SECONDS]
        by_age = sorted(self._lanes, key=lambda key: self._lanes[key].seen_at)
        for key in {*old, *by_age[: max(0, len(by_age) - LANES_MAX)]}:
            del self._lanes[key]


def _group_pools(rows: Iterable[PoolRow]) -> dict[Key, list[PoolRow]]:
    pools: dict[Key, list[PoolRow]] = {}
    for row in rows:
        parsed = parse_name(row.pool)
        key = (row.cluster, row.namespace, row.workload, parsed.hash if parsed else row.pool)
        pools.setdefault(key, []).append(row)
    return pools


def find_phase(row: PoolRow) -> str:
    """Return the phase of a pool that is there."""
    if row.state in _OF_STATE:
        return _OF_STATE[row.state]
    if row.hosts_busy:
        return USE
    if row.decision != KEPT:
        return OVER
    return PLACE if row.nodes else WAIT


def _see_waiting(lane: Lane, row: WaitingRow, now: float) -> None:
    if not lane.waits:
        lane.waiting_since, lane.waited_until = now - row.waiting_seconds, None
    lane.seen_at, lane.state = now, "waiting"
    lane.decision, lane.reason, lane.message, lane.stuck = row.decision, row.reason, row.message, row.stuck


def _see_present(lane: Lane, rows: list[PoolRow], now: float, *, waits: bool) -> None:
    """Take in the pools of a lane, or that it has none and nothing waits."""
    _see_pools(lane, rows, now)
    if lane.waits and not waits:
        lane.waited_until = now
    if not waits and not rows:
        lane.state, lane.stuck, lane.decision, lane.reason, lane.message = "gone", False, "", "", ""


def _see_pools(lane: Lane, rows: Iterable[PoolRow], now: float) -> None:
    names = set()
    for row in sorted(rows, key=lambda row: row.attempt):
        names.add(row.pool)
        lane.state = row.state
        lane.decision, lane.reason, lane.message, lane.stuck = row.decision, row.reason, row.message, row.stuck
        phase, life = find_phase(row), lane.lives.setdefault(row.pool, [])
        lane.ends.pop(row.pool, None)
        if not life or life[-1][0] != phase:
            life.append((phase, _find_beginning(lane, row, phase, now)))
    for name in lane.lives.keys() - names:
        lane.ends.setdefault(name, now)


def _find_beginning(lane: Lane, row: PoolRow, phase: str, now: float) -> float:
    """Return when the phase began in which a pool is seen first, as far as that is known."""
    creation, life = lane.creations.get(row.pool), lane.lives[row.pool]
    if life and life[-1][0] != CREATE:
        return now
    if phase in (PLACE, USE, WAIT) and creation is not None and creation.ended_at is not None:
        return min(now, creation.ended_at)
    if phase in (CREATE, PLACE, USE) and row.age_seconds is not None and not life:
        return now - row.age_seconds
    return now


def _draw_creation(creation: Operation) -> Span:
    failed = bool(creation.error)
    return Span(
        phase=FAILED if failed else CREATE,
        start=creation.began_at or 0.0,
        end=creation.ended_at,
        pool=creation.pool,
        cause=str(classify_failure(creation.error)) if failed else "",
        text=creation.error,
    )
