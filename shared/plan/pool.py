"""What becomes of each pool of a workload: kept, marked, closed, made smaller, or deleted. Pure."""

from __future__ import annotations

from collections.abc import Collection

from shared.plan.attempts import goes_first, holds_room, is_last_useless, list_tries
from shared.plan.counting import Census
from shared.plan.limits import Means, count_wanted, lower_maximum
from shared.plan.scene import Act, Pool, Verb
from shared.plan.short import USELESS_SECONDS, Trouble, is_whole

TICK_SECONDS = 60


def is_used(pool: Pool, census: Census) -> bool:
    """Return whether a pod on the nodes of a pool holds it; pods of its own that hang do not."""
    # One that terminates and does not end in time holds nothing more.
    holders = [
        pod
        for pod in census.users.get(pool.name, ())
        if not pod.terminating or pod.ends_by is None or census.scene.now < pod.ends_by
    ]
    return bool(holders) and not (all(pod.need for pod in holders) and _hangs(pool, census))


def _hangs(pool: Pool, census: Census) -> bool:
    """Return whether a TPU slice that began on a failed or short pool waits for hosts it lacks.

    They were lost or never came, and GKE cannot repair a slice in part.
    """
    if pool.shape.gpus or pool.ready >= pool.shape.hosts:
        return False
    troubled = census.troubles[pool.name] in (Trouble.FAILED, Trouble.SHORT)
    return troubled and census.find_wait(pool) is not None


def may_serve_soon(pool: Pool, census: Census) -> bool:
    """Return whether a pod is unbound that an idle pool could serve, and has not had the time to.

    A pod that the scheduler did not place in that time needs something else, and must not keep a
    pool for ever.
    """
    if census.troubles[pool.name]:
        return False
    matches = census.unbound.keys() & census.answered[pool.name]
    youngest = max((census.unbound[asks] for asks in matches), default=None)
    since = max(youngest, pool.idle_since or 0.0) if youngest is not None else None
    return since is not None and census.scene.now - since < USELESS_SECONDS


def list_too_many(census: Census) -> list[Pool]:
    """Return the pools that no slice is left for, if each slice that fits has a whole one."""
    kept = census.kept
    unmet = {want.need.asks for want in kept.unserved}
    unmet |= {want.need.asks for want, pool in kept.served if not is_whole(pool)}
    return [pool for pool in kept.left if unmet.isdisjoint(census.answered[pool.name])]


def find_spare(census: Census) -> frozenset[str]:
    """Return the pools of a live workload that are too many, or fit nothing, and that are empty.

    A pool is not too many as long as a pod waits that it could serve, or a slice is mixed on it.
    """
    strays = [pool for pool in census.scene.pools if pool.name not in census.homes]
    return frozenset(
        pool.name
        for pool in (*strays, *list_too_many(census))
        if pool.name not in census.mixed
        and not is_used(pool, census)
        and census.unbound.keys().isdisjoint(census.answered[pool.name])
    )


def plan_takes(census: Census, spare: Collection[str], first: Collection[str]) -> list[Act]:
    """Return what is taken away while the workload is live or in Kueue's queue.

    A spare pool goes if the last tick found it so too; one of `first` is in the way.
    """
    acts: list[Act | None] = []
    at_rest = (pool for pool in census.scene.pools if pool.at_rest)
    for pool in sorted(at_rest, key=census.rank):
        act = None if is_used(pool, census) else _end(pool, census, spare, first)
        if act is None and holds_room(pool, census):
            off = Act(verb=Verb.LOWER, pool=pool.name, maximum=0)
            comes = pool.nodes or (pool.elastic and pool.machines)
            act = lower_maximum(pool) if comes else off
        acts.append(act)
    return list(filter(None, acts))


def _end(pool: Pool, census: Census, spare: Collection[str], first: Collection[str]) -> Act | None:
    """Return the end of an unused pool, or its next step."""
    if pool.name in spare:
        return _end_idle(pool, census) if pool.spare_before else None
    failed = census.troubles[pool.name] and pool.name in census.homes
    return _end_record(pool, census, first) if failed else None


def plan_records(census: Census) -> list[Act]:
    """Return the deletions of failed pools whose successors are listed: nothing else is certain.

    An elastic pool that got some of its nodes is of use again when the workload resumes.
    """
    return [
        _delete(pool)
        for pool in census.scene.pools
        if pool.at_rest
        and census.troubles[pool.name]
        and not is_used(pool, census)
        and has_successor(pool, census)
        and not (pool.elastic and pool.nodes)
    ]


def has_successor(pool: Pool, census: Census) -> bool:
    """Return whether a later attempt of a pool's slot is listed."""
    home = census.homes.get(pool.name)
    if home is None or pool.owner.slot is None:
        return False
    tries = list_tries(census, home, pool.owner.slot)
    return any(each.owner.attempt > pool.owner.attempt for each in tries)


def is_needless(pool: Pool, census: Census) -> bool:
    """Return whether each need that a pool fits has all the pools that it may use.

    An elastic need that wants no further node now may use a pool again, but not one that does not
    help.
    """
    home = census.homes[pool.name]
    if home.elastic and not count_wanted(census, home):
        return True
    return census.unmet.isdisjoint(census.answered[pool.name])


def is_in_the_way(pool: Pool, census: Census) -> bool:
    """Return whether a failed pool of the Go program holds what a new pool needs.

    It has no slot, so it is the record of no attempt, and nothing is lost with it.
    """
    home, scene = census.homes[pool.name], census.scene
    if pool.owner.slot is not None or scene.stop or not pool.nodes:
        return False
    lacking = any(want.need is home for want in census.demanded.unserved)
    return lacking and goes_first(pool, home, home.ways[0], Means(scene.room, scene.slots))


def _end_record(pool: Pool, census: Census, first: Collection[str]) -> Act | None:
    """Return the end of a pool that does not help: it stays as long as it is the newest record."""
    needless = has_successor(pool, census) or is_needless(pool, census)
    first_of_all = pool.name in first or is_in_the_way(pool, census)
    useless = is_last_useless(pool, census) or _is_useless_for_long(pool, census)
    return _delete(pool) if needless or first_of_all or useless else None


def _is_useless_for_long(pool: Pool, census: Census) -> bool:
    """Return whether a useless pool got no successor in as long a time as it took to know that.

    GKE may refuse the successor as long as this pool has its machines. GKE's operations are then
    the record.
    """
    useless = census.troubles[pool.name] == Trouble.USELESS
    return useless and census.scene.now - (pool.ready_since or 0.0) >= 2 * USELESS_SECONDS


def _end_idle(pool: Pool, census: Census) -> Act | None:
    """Return the next step of a pool that nobody needs: at once, or mark, close, a tick, delete."""
    warm, now = _find_warm_seconds(pool, census), census.scene.now
    if not warm or (pool.closed_since is not None and now - pool.closed_since >= TICK_SECONDS):
        return _delete(pool)
    if pool.idle_since is None:
        return Act(verb=Verb.MARK, pool=pool.name)
    if pool.closed_since is None and now - pool.idle_since >= warm:
        return Act(verb=Verb.CLOSE, pool=pool.name)
    return None


def _find_warm_seconds(pool: Pool, census: Census) -> int:
    """Return for how long a pool may stay without use; 0 for one that could serve nobody."""
    home = census.homes.get(pool.name)
    if census.scene.retried or not is_whole(pool) or not pool.nodes:
        return 0
    return max(pool.owner.warm_seconds, home.warm_seconds if home else 0)


def plan_ends(census: Census) -> list[Act]:
    """Return what is taken away when the workload is over: each pool that nobody uses."""
    unused = (pool for pool in census.scene.pools if pool.at_rest and not is_used(pool, census))
    ends = (pool for pool in unused if not _is_needed_again(pool, census))
    return list(filter(None, (_end_idle(pool, census) for pool in ends)))


def plan_opens(census: Census) -> list[Act]:
    """Return the idle pools whose taint goes: a pod uses one, or it keeps a pod off that fits."""
    return [
        Act(verb=Verb.OPEN, pool=pool.name)
        for pool in census.scene.pools
        if pool.at_rest and pool.idle_since is not None and _is_needed_again(pool, census)
    ]


def _is_needed_again(pool: Pool, census: Census) -> bool:
    if any(not pod.terminating for pod in census.users.get(pool.name, ())):
        return True
    return pool.closed_since is not None and may_serve_soon(pool, census)


def _delete(pool: Pool) -> Act:
    return Act(verb=Verb.DELETE, pool=pool.name)
