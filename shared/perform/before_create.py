"""Reads a slice's other pools again right before a pool is created, so that none is created twice.

What was read before may be some seconds old, and another function may have acted since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core.decide.attempts import find_newest
from shared.core.decide.freshness import is_fresh
from shared.core.errors import OldLook, Unavailable
from shared.core.identity.pool_index import PoolIndex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.demand.demand import Demand
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import Ports


def read_again(demand: Demand, name: str, ports: Ports, known: Sequence[PoolSnapshot]) -> None:
    """Read what the next pool's number follows from; the create must come promptly after this.

    The emergency stop and the limits were read just before, and this must not make them old.

    Raises:
        OldLook: it has changed, could not be read, or the read took too long.
    """
    began = ports.clock.now()
    try:
        if demand.choices > 1:
            expect_no_other(demand, name, ports, known)  # GKE may have refused this one before
        else:
            _expect_last(demand, name, ports, known)
    except Unavailable as error:
        raise OldLook(f"node pool {name} was not created: its slice's pools cannot be read: {error}") from error
    if not is_fresh(began, now=ports.clock.now()):
        raise OldLook(f"node pool {name} was not created, because the last read of its slice took too long")


def expect_no_other(demand: Demand, name: str, ports: Ports, known: Sequence[PoolSnapshot] = ()) -> None:
    """List the pools again: another attempt may have one by now.

    Raises:
        OldLook: another pool of the claim exists than those that are known.
    """
    own = PoolIndex(ports.pools.list(demand.claim.cluster)).list_claimed(demand.claim.hash)
    expected = {name, *(pool.name for pool in known)}
    if other := next((pool.name for pool in own if pool.name not in expected), ""):
        raise OldLook(f"node pool {name} was not created, because {other} of its slice was listed since the look")


def _expect_last(demand: Demand, name: str, ports: Ports, known: Sequence[PoolSnapshot]) -> None:
    """Read the last pool of the claim again, from which the number of the next attempt follows.

    A function that does not find that pool, or not its labels, begins with the first number. Then
    two functions would create pools of two names at the same time.

    Raises:
        OldLook: that pool does not exist any more, or has other labels.
    """
    last = find_newest(PoolIndex.of(known).list_claimed(demand.claim.hash))
    if last is None or last.name == name:
        return
    found = ports.pools.get(demand.claim.cluster, last.name)
    if found is None or found.labels != last.labels:
        raise OldLook(f"node pool {name} was not created: {last.name} before it is gone or changed since the look")
