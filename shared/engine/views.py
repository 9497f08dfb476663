"""Puts what was read of pools, pods and operations in the words of the plan. Pure."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import TYPE_CHECKING

from shared.model.names import HASH_CHARACTERS, Claim, Owner, parse_name
from shared.model.pools import ELASTIC_SLOT, UNDER_WAY, PoolShape, PoolStatus
from shared.model.times import find_end
from shared.plan.scene import Asks, Creation, Deletion, Pod, Pool, Whose, Word

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from shared.engine.inventory import Key
    from shared.model.names import ParsedName, Slot
    from shared.model.pools import NodePool
    from shared.model.readings import BoundPod, Machines, Operation, PoolNode
    from shared.model.workloads import PodView
    from shared.plan.scene import Need

    Operations = Mapping[str, Sequence[tuple[ParsedName, Operation]]]
    """By the hash in the name of their pool, with that name."""

HOUR = 3600.0  # assumes: permissions, operations-kept
CLAIMS_MAX = 10_000
"""So many claims are remembered: each tick asks for those of the same slots again."""
SPARE_SLOTS = 8
"""So many slots above those that it needs a workload may have used before."""
_NOBODY = Owner(kind="", namespace="", name="")
_COMPLETE = (PoolStatus.RUNNING, PoolStatus.RUNNING_WITH_ERROR)


def view_pool(
    pool: NodePool,
    nodes: Sequence[PoolNode],
    *,
    missing_since: float | None,
    spare: bool,
    users_read: bool,
) -> Pool:
    """Return a pool with what its labels say of it, and with what was read of its nodes.

    Args:
        nodes: all of it that the cluster has.
        missing_since: when nodes that existed were first seen to be missing; None if none is.
        spare: whether the last tick found it too many.
        users_read: whether the pods of others on its nodes are in the scene.
    """
    owner, ready = pool.owner or _NOBODY, [node.ready_at or 0.0 for node in nodes if node.ready]
    return Pool(
        name=pool.name,
        whose=_find_maker(pool.owner),
        status=pool.status,
        shape=pool.shape,
        node_labels=pool.node_labels,
        taints=pool.taints,
        need=owner.need,
        slot=owner.slot,
        attempt=owner.attempt,
        candidate=owner.candidate,
        round=owner.round,
        useless=owner.useless,
        created_at=float(owner.created_at or 0),
        autoscaled=pool.autoscaled,
        maximum=pool.node_count,
        busy=pool.status in UNDER_WAY,
        ready=len(ready),
        nodes=len(nodes),
        ready_since=max(ready, default=None),
        word=_find_word(pool, len(ready), missing_since),
        word_at=missing_since or 0.0,
        machines=None,
        users_read=users_read,
        spare_before=spare,
        idle_since=_find_first(node.idle_since for node in nodes),
        closed_since=_find_first(node.idle_since for node in nodes if node.closed),
        warm_seconds=owner.warm_seconds,
    )


def _find_maker(owner: Owner | None) -> Whose:
    if owner is None:
        return Whose.OTHER
    return Whose.GO if owner.slot is None else Whose.DEPLOYMENT


def _find_first(moments: Iterable[float | None]) -> float | None:
    return min(filter(None, moments), default=None)


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


def add_word(pool: Pool, machines: Machines | None, now: float) -> Pool:
    """Return a pool with what GKE says of the nodes that it lacks; None: it gave no answer."""
    if machines is None:
        return dataclasses.replace(pool, word=pool.word or Word.NONE)
    asked = dataclasses.replace(pool, machines=machines.made + machines.coming)
    errors = [error for error in machines.errors if not error.tries]
    if not errors:
        return dataclasses.replace(asked, word=pool.word or Word.NONE)
    at = min(error.at if error.at is not None else now for error in errors)
    word, cause = pool.word or Word.CAUSE, errors[-1].message
    return dataclasses.replace(asked, word=word, word_at=at, cause=cause)


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


@lru_cache(maxsize=CLAIMS_MAX)
def make_claim(key: Key, uid: str, need: str, slot: Slot) -> Claim:
    """Return the claim of one slot of a need, whose hash is slow to make."""
    return Claim(
        cluster=key.cluster,
        kind=key.kind,
        namespace=key.namespace,
        name=key.name,
        owner_uid=uid,
        need=need,
        slot=slot,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Records:
    """What GKE's operations of the last hour say of the tries of a workload."""

    creations: tuple[Creation, ...] | None = None
    """None: they were not read."""
    deletions: tuple[Deletion, ...] = ()


def read_records(
    key: Key,
    uid: str,
    needs: Sequence[Need],
    operations: Operations,
    *,
    now: float,
    listed: Container[str],
) -> Records:
    """Return what GKE's operations say about the slots of a workload's needs.

    In `listed` are the names of all pools of the cluster.
    """
    tries = list(_list_tries(key, uid, needs, operations, since=now - HOUR)) if operations else []
    deleted = {each.pool for *_, each in tries if not each.creates}
    creations = (
        Creation(
            need=need,
            slot=slot,
            attempt=name.attempt,
            began_at=each.began_at or 0.0,
            failed=bool(each.error),
            listed=each.pool in listed,
            deleted=each.pool in deleted,
        )
        for need, slot, name, each in tries
        if each.creates
    )
    deletions = (
        Deletion(
            need=need,
            slot=slot,
            attempt=name.attempt,
            useless=name.useless,
            began_at=each.began_at or 0.0,
        )
        for need, slot, name, each in tries
        if not each.creates
    )
    return Records(tuple(creations), tuple(deletions))


def _list_tries(
    key: Key, uid: str, needs: Sequence[Need], operations: Operations, *, since: float
) -> Iterator[tuple[str, Slot, ParsedName, Operation]]:
    """Yield the operations on pools of a workload, with the need and the slot of each."""
    for need in needs:
        for slot in list_slots(need):
            claim = make_claim(key, uid, need.key, slot)
            for name, each in operations.get(claim.hash[:HASH_CHARACTERS], ()):
                if (each.began_at or 0.0) >= since:
                    yield need.key, slot, name, each


def sort_operations(operations: Iterable[Operation]) -> Operations:
    """Return the operations on pools with a name of ours by the hash in that name."""
    by_hash: dict[str, list[tuple[ParsedName, Operation]]] = {}
    for each in operations:
        name = parse_name(each.pool)
        if name is not None:
            by_hash.setdefault(name.hash, []).append((name, each))
    return by_hash
