"""Puts what was read of pools, pods and operations in the words of the plan. Pure."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from shared.model.names import HASH_CHARACTERS, Claim, parse_name
from shared.model.pools import ELASTIC_SLOT, UNDER_WAY, PoolShape, PoolStatus
from shared.plan.scene import Asks, Creation, Pod, Pool, Whose, Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.engine.look import Key
    from shared.model.names import Owner, ParsedName, Slot
    from shared.model.pools import NodePool
    from shared.model.readings import Machines, Operation, PoolNode
    from shared.plan.scene import Need

HOUR = 3600.0
SPARE_SLOTS = 8
"""So many slots above those that it needs a workload may have used before."""
_LAST_USELESS = 2
"""By the name of a pool: two before it in its slot had helped nobody."""
_COMPLETE = (PoolStatus.RUNNING, PoolStatus.RUNNING_WITH_ERROR)


def view_pool(
    pool: NodePool, nodes: Sequence[PoolNode], *, missing_since: float | None, spare: bool
) -> Pool:
    """Return a pool with what was read of its nodes.

    Args:
        pool: as GKE lists it.
        nodes: all of it that the cluster has.
        missing_since: when nodes that existed were first seen to be missing; None if none is.
        spare: whether the last tick found it too many.
    """
    owner, ready = pool.owner, [node for node in nodes if node.ready]
    idle = [node.idle_since for node in nodes if node.idle_since is not None]
    closed = [node.idle_since or 0.0 for node in nodes if node.closed]
    return _view_owner(
        owner,
        Pool(
            name=pool.name,
            status=pool.status,
            shape=pool.shape,
            node_labels=pool.node_labels,
            taints=pool.taints,
            autoscaled=pool.autoscaled,
            maximum=pool.node_count,
            busy=pool.status in UNDER_WAY,
            ready=len(ready),
            ready_since=max((node.ready_at or 0.0 for node in ready), default=None),
            word=_find_word(pool, len(ready), missing_since),
            word_at=missing_since or 0.0,
            spare_before=spare,
            idle_since=min(idle, default=None),
            closed_since=min(closed, default=None),
        ),
    )


def _view_owner(owner: Owner | None, pool: Pool) -> Pool:
    """Return a pool with what its labels say of it."""
    if owner is None:
        return dataclasses.replace(pool, whose=Whose.OTHER)
    return dataclasses.replace(
        pool,
        whose=Whose.GO if owner.slot is None else Whose.DEPLOYMENT,
        slot=owner.slot,
        attempt=owner.attempt,
        candidate=owner.candidate,
        round=owner.round,
        useless=owner.useless,
        created_at=float(owner.created_at or 0),
    )


def _find_word(pool: NodePool, ready: int, missing_since: float | None) -> Word | None:
    """Return what is known of the nodes that a pool lacks; None: GKE was not asked."""
    if missing_since is not None:
        return Word.LOST
    return None if lacks_nodes(pool, ready) else Word.NONE


def lacks_nodes(pool: NodePool, ready: int) -> bool:
    """Return whether a pool has fewer Ready nodes than it should, or than it may have."""
    return ready < (pool.node_count if pool.elastic else pool.hosts)


def has_lost_nodes(pool: NodePool, nodes: Sequence[PoolNode]) -> bool:
    """Return whether nodes that existed are missing.

    GKE calls a pool that comes with its nodes RUNNING when they are there. One that its autoscaler
    fills is RUNNING before, so only a part of its nodes shows that some were there.
    """
    ready = sum(node.ready for node in nodes)
    if pool.elastic or pool.status not in _COMPLETE or not lacks_nodes(pool, ready):
        return False
    return ready > 0 or (not pool.autoscaled and pool.status == PoolStatus.RUNNING)


def add_word(pool: Pool, machines: Machines, now: float) -> Pool:
    """Return a pool with what GKE says of the nodes that it lacks."""
    errors = [error for error in machines.errors if not error.tries]
    if not errors:
        return dataclasses.replace(pool, word=pool.word or Word.NONE)
    at = min(error.at if error.at is not None else now for error in errors)
    return dataclasses.replace(pool, word=pool.word or Word.CAUSE, word_at=at)


def view_stranger(uid: str, pool: str, created_at: float | None) -> Pod:
    """Return a pod on a pool that is of no slice of the workload."""
    asks = Asks(PoolShape(""))
    return Pod(need="", slice=uid, pool=pool, created_at=created_at or 0.0, asks=asks)


def list_slots(need: Need) -> list[Slot]:
    """Return the slots that a need may use."""
    if need.elastic:
        return [ELASTIC_SLOT]
    return [need.pin] if need.pin else list(range(need.most + SPARE_SLOTS))


def make_claim(key: Key, uid: str, need: Need, slot: Slot) -> Claim:
    """Return the claim of one slot of a need."""
    return Claim(
        cluster=key.cluster,
        kind=key.kind,
        namespace=key.namespace,
        name=key.name,
        owner_uid=uid,
        need=need.key,
        slot=slot,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Records:
    """What GKE's operations say of the tries of a workload."""

    creations: tuple[Creation, ...] = ()
    """Of the last hour."""
    useless: frozenset[str] = frozenset()
    """Keys of needs whose third useless pool was deleted after each of their pods was made."""


def read_records(
    key: Key,
    uid: str,
    needs: Sequence[Need],
    pods: Sequence[Pod],
    young: Sequence[Named],
    now: float,
) -> Records:
    """Return what operations of named pools say about the slots of a workload's needs."""
    wanted = {each.parsed.hash for each in young}
    if not wanted:
        return Records()
    slots = {
        make_claim(key, uid, need, slot).hash[:HASH_CHARACTERS]: (need.key, slot)
        for need in needs
        for slot in list_slots(need)
    }
    creations, ends = list[Creation](), dict[str, float]()
    for each in young:
        place, began_at = slots.get(each.parsed.hash), each.operation.began_at or 0.0
        if place is None:
            continue
        if not each.operation.creates:
            if each.parsed.useless == _LAST_USELESS:
                ends[place[0]] = max(began_at, ends.get(place[0], 0.0))
        elif now - began_at <= HOUR:
            creations.append(
                Creation(
                    need=place[0], slot=place[1], attempt=each.parsed.attempt, began_at=began_at
                )
            )
    return Records(tuple(creations), _list_useless(ends, pods))


def _list_useless(ends: dict[str, float], pods: Sequence[Pod]) -> frozenset[str]:
    """Return the needs of which no pod waits that is younger than the end of its last pool."""
    younger = {
        pod.need for pod in pods if pod.waits and pod.created_at > ends.get(pod.need, float("inf"))
    }
    return frozenset(ends) - younger


@dataclasses.dataclass(frozen=True, slots=True)
class Named:
    """An operation with the parts of its pool's name."""

    operation: Operation
    parsed: ParsedName


def name_operations(operations: Iterable[Operation]) -> list[Named]:
    """Return the operations on pools with a name of ours."""
    return [
        Named(each, parsed) for each in operations if (parsed := parse_name(each.pool)) is not None
    ]
