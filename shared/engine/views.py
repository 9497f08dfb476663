"""Puts what was read of pools, pods and operations in the words of the plan. Pure."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from shared.model.names import HASH_CHARACTERS, Claim, parse_name
from shared.model.pools import ELASTIC_SLOT, UNDER_WAY, PoolShape, PoolStatus
from shared.model.times import find_end
from shared.plan.scene import Asks, Creation, Deletion, Pod, Pool, Whose, Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.engine.look import Key
    from shared.model.names import Owner, ParsedName, Slot
    from shared.model.pools import NodePool
    from shared.model.readings import BoundPod, Machines, Operation, PoolNode
    from shared.model.workloads import PodView
    from shared.plan.scene import Need

HOUR = 3600.0  # assumes: permissions, operations-kept
SPARE_SLOTS = 8
"""So many slots above those that it needs a workload may have used before."""
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
            nodes=len(nodes),
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
        need=owner.need,
        slot=owner.slot,
        attempt=owner.attempt,
        candidate=owner.candidate,
        round=owner.round,
        useless=owner.useless,
        created_at=float(owner.created_at or 0),
        warm_seconds=owner.warm_seconds,
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


def view_stranger(pod: PodView | BoundPod, pool: str) -> Pod:
    """Return a pod on a pool that is of no slice of the workload."""
    return Pod(
        need="",
        slice=pod.uid,
        pool=pool,
        created_at=pod.created_at or 0.0,
        terminating=pod.deleting_since is not None,
        ends_by=find_end(pod.deleting_since),
        asks=Asks(PoolShape("")),
    )


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
    """What GKE's operations of the last hour say of the tries of a workload."""

    creations: tuple[Creation, ...] = ()
    deletions: tuple[Deletion, ...] = ()


def read_records(
    key: Key, uid: str, needs: Sequence[Need], named: Sequence[Named], now: float
) -> Records:
    """Return what operations of named pools say about the slots of a workload's needs."""
    young = [each for each in named if now - (each.operation.began_at or 0.0) <= HOUR]
    if not young:
        return Records()
    slots = {
        make_claim(key, uid, need, slot).hash[:HASH_CHARACTERS]: (need.key, slot)
        for need in needs
        for slot in list_slots(need)
    }
    creations, deletions = list[Creation](), list[Deletion]()
    for each in young:
        if each.parsed.hash not in slots:
            continue
        (need_key, slot), began_at = slots[each.parsed.hash], each.operation.began_at or 0.0
        if each.operation.creates:
            attempt = each.parsed.attempt
            creations.append(Creation(need=need_key, slot=slot, attempt=attempt, began_at=began_at))
        else:
            useless = each.parsed.useless
            deletions.append(Deletion(need=need_key, slot=slot, useless=useless, began_at=began_at))
    return Records(tuple(creations), tuple(deletions))


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
