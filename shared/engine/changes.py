"""Every change of node pools, nodes, workloads and Kueue's checks, behind the guards of its verb.

`GUARDS` names what is read and compared right before each change, in that order. What must be as
young as possible comes last: the slice's pools before a create, the pool itself before its
deletion, and the machines of one that is left for another. If the look is too old, or not so any
more, a change raises `OldLook`, and nothing was done.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from shared.core.decide.attempts import find_newest
from shared.core.decide.cluster_stops import decide_stop, decide_unproven
from shared.core.decide.collect import decide_over_cap
from shared.core.decide.provision import decide_sent
from shared.core.decisions import Decision, Verdict
from shared.core.errors import AlreadyExists, Busy, OldLook, ProvisionerError, Unavailable
from shared.core.times import LOOKS_MAX, TURN_SECONDS, is_fresh
from shared.engine.looks.gather import is_proven, read_stop

if TYPE_CHECKING:
    from typing import Any

    from shared.core.demand.demand import Demand
    from shared.core.identity.pools import PoolSnapshot
    from shared.engine.looks.limit_holds import OwnHolds
    from shared.engine.looks.look import Look, Turn
    from shared.engine.looks.sweep_report import DeletionCap

T = TypeVar("T")
_LOG = logging.getLogger("emergency_stop")


class Verb(StrEnum):
    """What is changed, with the words for a change that did not happen."""

    CREATE = "node pool {} was not created"
    RESIZE = "node pool {} was not resized"
    DELETE = "node pool {} was not deleted"
    REMOVE_NODES = "node pool {} gave no nodes up"
    MARK_NODES = "the nodes of node pool {} were not marked"
    CHANGE = "{} was not changed"


@dataclass(slots=True)
class _Change:
    """One change, as its guards see it."""

    verb: Verb
    look: Look
    name: str
    decision: Decision
    pool: PoolSnapshot | None = None
    """As the look found it; None if nodes are added."""
    looked_at: float = 0.0
    """When the first read of the look began on which it rests, in unix seconds."""
    objects: int = 0
    """How many objects that look read one by one."""
    turn: Turn | None = None
    """Of the slice that gets nodes."""
    namespace: str = ""
    last_look: Callable[[], Decision] | None = None
    cap: DeletionCap | None = None
    holds: OwnHolds | None = None
    counted: bool = False
    decided_at: float = 0.0
    """When its guards were first asked, in unix seconds."""

    def refuse(self, why: str) -> OldLook:
        """Return the error that stops it, because it rests on what is no longer so."""
        return OldLook(f"{self.verb.format(self.name)}, because {why}")

    def expect_fresh(self, looked_at: float, *, objects: int = 0) -> None:
        """Expect that a look which began at a time is young enough to act on."""
        if not is_fresh(looked_at, now=self.look.now(), objects=objects):
            raise self.refuse("the look at it took too long")

    def give_back(self) -> None:
        """Let others have what was held or counted for it, since it has not happened."""
        if self.look.limits and self.holds:
            self.look.limits.give_back(self.holds)
        if self.cap and self.counted:
            self.cap.give_back()


def look_again_if_old(look_and_act: Callable[[], T]) -> T:
    """Look and act, `LOOKS_MAX` times if each look but the last one took too long to act on.

    Raises:
        OldLook: the last one took too long, too.
    """
    for _ in range(LOOKS_MAX - 1):
        with contextlib.suppress(OldLook):
            return look_and_act()
    return look_and_act()


def _hold(change: _Change) -> Decision | None:
    look, turn = change.look, cast("Turn", change.turn)
    found = look.limits.hold(turn.demand, change.name, instead_of=turn.replaced) if look.limits else None
    if isinstance(found, Decision):
        return found
    change.holds = found
    return None


def _make_room(change: _Change) -> Decision | None:
    """Delete the pool in whose place another one is created, if it goes first and that may come."""
    make_room = change.turn and change.turn.make_room
    gone = _obey_stop(change) or make_room() if make_room else None
    return None if gone is None or gone.verdict == Verdict.DELETE else gone


def _prove_cluster(change: _Change) -> Decision | None:
    proven = change.pool and is_proven(change.look, change.pool, change.decided_at)
    return None if proven else decide_unproven(change.name)


def _obey_stop(change: _Change) -> Decision | None:
    look, began = change.look, change.look.now()
    owner = change.turn.demand.claim if change.turn else change.pool and change.pool.owner
    stop = read_stop(look.cluster, look.ports, owner.namespace if owner else change.namespace)
    stopped = decide_stop(change.decision, stop)
    if stopped is not None:
        fields = {"cluster": look.cluster, "decision": str(stopped.verdict), "reason": str(stopped.reason)}
        _LOG.warning("%s", stopped.message, extra=fields)
        return stopped
    change.expect_fresh(began)
    return None


def _expect_counted(change: _Change) -> None:
    holds, now = change.holds, change.look.now()
    if holds and not 0 <= now - holds.made_at <= TURN_SECONDS:
        raise change.refuse("the limits were counted too long ago; they are counted again")


def _expect_same_slice(change: _Change) -> None:
    """Expect that the slice has the same pools as in the look, if the name follows from them.

    A pool that has a number needs a look of just now: the number may be used up. What was read
    before may be some seconds old, and another function may have acted since.
    """
    look, turn = change.look, cast("Turn", change.turn)
    if turn.demand.elastic and turn.demand.choices == 1:
        return
    _read_again(change)
    if not 0 <= look.now() - turn.looked_at <= TURN_SECONDS:
        raise change.refuse("the look at its slice took too long")


def _expect_same_owner(change: _Change) -> None:
    expect_owner(change.look, cast("PoolSnapshot", change.pool), since=change.decided_at)


def _expect_same_pool(change: _Change) -> None:
    pool = cast("PoolSnapshot", change.pool)
    if expect_owner(change.look, pool, since=change.decided_at).status != pool.status:
        raise change.refuse("its status has changed since the look")


def _look_last(change: _Change) -> Decision | None:
    """Decide again from what neither pool nor pods show, by the last read before the deletion."""
    now = change.last_look() if change.last_look else None
    return None if now is None or now.verdict == Verdict.DELETE else now


def _expect_young(change: _Change) -> None:
    change.expect_fresh(change.looked_at, objects=change.objects)


def _count(change: _Change) -> Decision | None:
    change.counted = change.cap is not None and change.cap.take()
    return None if change.counted or change.cap is None else decide_over_cap(change.name, change.look.settings)


Guard = Callable[[_Change], Decision | None]
"""Returns what is decided in place of the change; None lets it pass."""
_NODES = (_obey_stop, _expect_same_owner, _expect_young)
GUARDS: Mapping[Verb, Sequence[Guard]] = {
    Verb.CREATE: (_hold, _make_room, _obey_stop, _expect_counted, _expect_same_slice),
    Verb.RESIZE: (_hold, _obey_stop, _expect_counted, _expect_young),
    Verb.DELETE: (_prove_cluster, _obey_stop, _expect_same_pool, _look_last, _expect_young, _count),
    Verb.REMOVE_NODES: _NODES,
    Verb.MARK_NODES: _NODES,
    Verb.CHANGE: (_obey_stop,),
}
_MAY_HAVE_BEGUN: Mapping[Verb, tuple[type[ProvisionerError], ...]] = {
    Verb.CREATE: (Unavailable, AlreadyExists, Busy),
    Verb.RESIZE: (Unavailable, Busy),
}
"""After one of these errors the nodes may come. For any other verb only after no answer."""


def _send(change: _Change, request: Callable[[], T]) -> T | Decision:
    """Make a change if all guards of its verb let it pass; else return what they decide.

    What was held or counted for it is given back if it has surely not happened.
    """
    begun, change.decided_at = False, change.look.now()
    try:
        for guard in GUARDS[change.verb]:
            if (instead := guard(change)) is not None:
                change.give_back()
                return instead
        begun = True
        return request()
    except ProvisionerError as error:
        if not (begun and isinstance(error, _MAY_HAVE_BEGUN.get(change.verb, (Unavailable,)))):
            change.give_back()
        raise


def create_pool(turn: Turn, decision: Decision, body: Mapping[str, Any]) -> Decision:
    """Create a pool, of the turn's attempt, within the limits; return what came of it.

    The body is the pool as GKE's API takes it.

    Raises:
        StaleView: too many processes write holds at the same time, or something has changed or took
            too long since it was read. Nothing was created.
    """
    look, name, places = turn.look, str(body["name"]), turn.look.ports.places
    create = partial(look.ports.pools.create, look.cluster, body)

    def send() -> Decision | None:
        if places is None:
            return create()
        sent = places.send(create, look.cluster, name, turn.pools, now=look.now())
        return None if sent else decide_sent(name)

    return _send(_Change(Verb.CREATE, look, name, decision, turn=turn), send) or decision


def resize_pool(turn: Turn, name: str, decision: Decision, *, looked_at: float) -> Decision:
    """Give an elastic pool as many nodes as its demand has; it was measured at `looked_at`."""
    look, size = turn.look, turn.demand.shape.node_count
    change = _Change(Verb.RESIZE, look, name, decision, None, looked_at, turn=turn)
    return _send(change, partial(look.ports.pools.resize, look.cluster, name, size)) or decision


def delete_pool(
    look: Look,
    pool: PoolSnapshot,
    decision: Decision,
    *,
    looked_at: float,
    limited: bool = True,
    last_look: Callable[[], Decision] | None = None,
) -> Decision:
    """Submit the deletion of a pool that was looked at just now; return what came of it.

    Args:
        look: with unshared reads, but those of a batch.
        pool: as the look found it.
        decision: why it is deleted.
        looked_at: when the first read of the look began, in unix seconds.
        limited: it counts against the cap of a sweep.
        last_look: decides again from what neither pool nor pods show, by the last read before it.

    Raises:
        Busy: another operation holds the pool.
    """
    change = _Change(Verb.DELETE, look, pool.name, decision, pool, looked_at, pool.node_count)
    change.last_look, change.cap = last_look, look.cap if limited else None
    return _send(change, partial(look.ports.pools.delete, look.cluster, pool.name)) or decision


def remove_nodes(
    look: Look, pool: PoolSnapshot, names: Sequence[str], decision: Decision, *, looked_at: float, objects: int = 0
) -> Decision:
    """Remove nodes of a pool, or give up nodes that GKE has not made; see `delete_pool`.

    The look has read so many objects one by one.
    """
    change = _Change(Verb.REMOVE_NODES, look, pool.name, decision, pool, looked_at, objects)
    return _send(change, partial(look.ports.pools.remove_nodes, pool, names)) or decision


def mark_nodes(
    look: Look,
    pool: PoolSnapshot,
    marks: Mapping[str, tuple[float | None, bool]],
    decision: Decision,
    *,
    looked_at: float,
) -> Decision:
    """Write our marks on nodes of a pool; see `delete_pool`.

    `marks` has by the name of a node since when it is not needed, in unix seconds, or None to
    remove the mark; and whether it is closed to new pods.
    """

    def mark() -> None:
        for node, (since, closed) in marks.items():
            look.live.mark_surplus(node, since, closed=closed)

    change = _Change(Verb.MARK_NODES, look, pool.name, decision, pool, looked_at, pool.node_count)
    return _send(change, mark) or decision


def tell_queue(look: Look, namespace: str, decision: Decision, write: Callable[[], None]) -> Decision | None:
    """Write what Kueue is told about a check; return the mode that forbids it, or None."""
    return _send(_Change(Verb.CHANGE, look, "Kueue's check", decision, namespace=namespace), write)


def _read_again(change: _Change) -> None:
    """Read what the pool's number follows from; the create must come promptly after this."""
    look, turn = change.look, cast("Turn", change.turn)
    began = look.now()
    try:
        if turn.demand.choices > 1:
            expect_no_other(look, turn.demand, change.name, turn.own)  # GKE may have refused this one before
        else:
            _expect_last(change, turn.own)
    except Unavailable as error:
        raise change.refuse(f"its slice's pools cannot be read: {error}") from error
    change.expect_fresh(began)


def expect_no_other(look: Look, demand: Demand, name: str, known: Sequence[PoolSnapshot] = ()) -> None:
    """List the pools again: another attempt may have one by now.

    Raises:
        OldLook: another pool of the claim exists than those that are known.
    """
    expected = {name, *(pool.name for pool in known)}
    own = look.list_pools().list_claimed(demand.claim.hash)
    if other := next((pool.name for pool in own if pool.name not in expected), ""):
        raise OldLook(f"node pool {name} was not created, because {other} of its slice was listed since the look")


def _expect_last(change: _Change, own: Sequence[PoolSnapshot]) -> None:
    """Read the last pool of the claim again, from which the number of the next attempt follows.

    A function that does not find that pool, or not its labels, begins with the first number. Then
    two functions would create pools of two names at the same time.
    """
    last = find_newest(own)
    if last is None or last.name == change.name:
        return
    found = change.look.get_pool(last.name)
    if found is None or found.labels != last.labels:
        raise change.refuse(f"{last.name} before it is gone or changed since the look")


def expect_owner(look: Look, pool: PoolSnapshot, *, since: float = 0.0) -> PoolSnapshot:
    """Read a pool again: a list may be minutes old, and a person may have removed our labels since.

    The changes of a batch share a list in place of that read. It serves those that were decided, at
    `since` in unix seconds, before it began. So it shows labels and status as they were after the
    decision, as the read of one pool does, and they are compared in the same way. It is at most
    `SHARED_SECONDS` old: only the proof of the cluster and the stop are read since the decision.

    Raises:
        OldLook: the pool is gone, or its labels name another owner, or none.
    """
    found = look.find_pool(pool.name, since=since)
    if found is None or found.owner != pool.owner:
        raise OldLook(f"the labels of node pool {pool.name} have changed since they were read")
    return found
