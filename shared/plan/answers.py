"""What Kueue's check and the owner are told, beside what the acts of a plan say. Pure.

All or nothing is Kueue's: a workload is resumed when each of its slices has a whole pool. A part of
them is held for a time and then given back, so that two workloads never hold halves.
"""

from __future__ import annotations

from collections.abc import Iterator

from shared.model.decisions import Reason
from shared.plan.attempts import may_use
from shared.plan.counting import Census, Slice, list_demands
from shared.plan.scene import Answer, Need, Word
from shared.plan.short import USELESS_SECONDS, Trouble, is_whole


def decide_check(census: Census) -> Reason | None:
    """Return what Kueue is told about a workload with quota; None while it waits.

    With another flavor a workload may still be served, so only its spec itself is refused.
    """
    never = [need for need in census.scene.needs if need.never]
    if any(not each.of_flavor for each in never):
        return Reason.CHECK_REJECTED
    if not never and is_complete(census):
        return Reason.CHECK_READY
    retries = never or not _may_come(census) or _is_held_for_long(census)
    return Reason.CHECK_RETRY if retries else None


def _may_come(census: Census) -> bool:
    """Return whether each need has a way that serves before its pods exist."""
    return all(any(may_use(census, way) for way in need.ways) for need in census.scene.needs)


def _is_held_for_long(census: Census) -> bool:
    """Return whether a part, or quota for which all tries fail, was held for its time."""
    since, now = census.scene.part_held_since, census.scene.now
    held = since is not None and now - since >= census.scene.part_seconds
    return held and bool(census.counted or census.troubles)


def is_complete(census: Census) -> bool:
    """Return whether each slice of a queued workload has a pool with all of its nodes."""
    whole = (
        is_whole(pool) and pool.ready >= (want.need.nodes or 0) for want, pool in census.kept.served
    )
    return not census.kept.unserved and all(whole)


def list_notices(census: Census) -> list[Answer]:
    """Return what is told beside the creates: states that a person, or time, ends."""
    slices = [need for need in census.scene.needs if not need.elastic]
    answers = [each for need in slices for each in _list_of_slices(census, need)]
    answers += [Answer(Reason.POOL_TAKEN, key, pool.name) for key, pool in census.taken.items()]
    answers += _list_shared(census)
    answers += [
        Answer(Reason.HOST_LOST, census.homes[pool.name].key)
        for pool in census.scene.pools
        if pool.word == Word.LOST and census.troubles[pool.name] == Trouble.SHORT
    ]
    return answers + list(_list_unplaced(census))


def _list_shared(census: Census) -> Iterator[Answer]:
    """Yield what is told of pods that wait beside complete nodes of theirs, on which others run.

    The rest of a slice waits beside the part that runs, even if GKE calls its pool failed.
    """
    wants = [(want, {pool.name}) for want, pool in census.demanded.served]
    wants += [(want, set()) for want in census.demanded.unserved]
    for want, serving in wants:
        if want.waiting_since is None or want.need.elastic:
            continue
        for name in sorted(serving | want.places):
            if _is_taken(name, census):
                yield Answer(Reason.POOL_TAKEN, want.need.key, name)


def _is_taken(name: str, census: Census) -> bool:
    """Return whether others run on a pool with all of its nodes, and get no pool of their own."""
    # First the strangers, of whom there are few: the pools of a large workload are many.
    others = any(not pod.need for pod in census.users.get(name, ()))
    if not others or census.scene.takers_served:
        return False
    pools = census.scene.pools
    return any(each.name == name and each.ready >= each.shape.hosts for each in pools)


def _list_unplaced(census: Census) -> Iterator[Answer]:
    """Yield what is told of pods that wait for long beside their whole pool."""
    for want, pool in census.demanded.served:
        since, ready = want.waiting_since, pool.ready_since
        if want.need.elastic or since is None or ready is None or not is_whole(pool):
            continue
        if census.scene.now - max(since, ready) >= USELESS_SECONDS:
            yield Answer(Reason.POD_UNPLACED, want.need.key)


def _is_doubled(each: Slice) -> bool:
    """Return whether each host of a slice has a pod, and a second one of each waits.

    After an upgrade KubeRay makes each worker again, beside the one that runs.
    """
    hosts, waiting = each.need.hosts, sum(pod.waits for pod in each.pods)
    placed = sum(bool(pod.pool) and not pod.terminating for pod in each.pods)
    return hosts > 1 and min(placed, waiting) >= hosts


def _has_too_many(census: Census, need: Need) -> bool:
    """Return whether more slices have pods than the spec wants, and one of them waits.

    When the spec shrinks, all slices still run for a moment: then nothing waits in vain.
    """
    demands = list_demands(census, need)
    waits = any(each.waiting_since is not None for each in demands)
    return waits and len(demands) > census.most[need.key]


def _list_of_slices(census: Census, need: Need) -> Iterator[Answer]:
    slices = census.slices[need.key]
    mixed = sorted(each.pods[0].slice for each in slices if each.mixed)
    if mixed:
        yield Answer(Reason.SLICE_MIXED, need.key, slices=", ".join(mixed[:5]))
    if _has_too_many(census, need) or any(map(_is_doubled, slices)):
        yield Answer(Reason.SLICE_DOUBLED, need.key)
    if any(each.outside and not each.mixed and each.waiting_since is not None for each in slices):
        yield Answer(Reason.FOLLOWERS_WAIT, need.key)
