"""What becomes of each pool of a workload: kept, marked, closed, made smaller, or deleted. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.model.pools import PoolStatus
from shared.plan.attempts import goes_first, holds_room, list_tries
from shared.plan.counting import (
    assign,
    count_to_keep,
    find_places,
    fits,
    group_slices,
    is_mixed,
    list_counted,
    list_elsewhere,
    list_served,
    read_asks,
)
from shared.plan.scene import Act, Queue, Verb, Word
from shared.plan.short import helps_not, is_last_useless, is_short, is_whole

if TYPE_CHECKING:
    from shared.plan.scene import Need, Pool, Scene

TICK_SECONDS = 60


def is_at_rest(pool: Pool) -> bool:
    """Return whether a pool of ours may be deleted at all: GKE works on no other change of it."""
    moving = (PoolStatus.PROVISIONING, PoolStatus.STOPPING, PoolStatus.RECONCILING)
    return pool.ours and not pool.busy and pool.status not in moving


def is_used(pool: Pool, scene: Scene, need: Need | None) -> bool:
    """Return whether a pod on the nodes of a pool holds it.

    The pods of a TPU slice that lost a host do not hold its pool, once it is short: they hang, and
    GKE cannot repair a slice in part.
    """
    served = list_served(pool, scene, need) if need else []
    hangs = (
        need
        and pool.word == Word.LOST
        and pool.shape.topology
        and is_short(pool, need, served, scene)
    )
    return any(pod.pool == pool.name and not (pod.need and hangs) for pod in scene.pods)


def is_waited_for(pool: Pool, scene: Scene, need: Need) -> bool:
    """Return whether a pod exists that is bound to no node and could run on a pool."""
    return any(
        fits(pool, read_asks(need, [pod]))
        for pod in scene.pods
        if pod.asks.shape == need.asks.shape and not pod.pool and not pod.terminating
    )


def list_too_many(scene: Scene, need: Need) -> list[Pool]:
    """Return the pools that no slice is left for, while each slice keeps a whole one.

    Those go first that do not help, are not whole, have no pods, have the highest slot.
    """
    most = max(0, count_to_keep(scene, need))
    live = [
        read_asks(need, pods)
        for pods in group_slices(scene, need).values()
        if len(list_elsewhere(scene, pods)) < need.hosts
    ]
    wanted = (live + [need.asks] * (most - len(live)))[:most]
    best = sorted(
        list_counted(scene, need), key=lambda pool: _rank(pool, scene, need), reverse=True
    )
    unmet, left = assign(wanted, best)
    return [pool for pool in left if not any(fits(pool, asks) for asks, _ in unmet)]


def _rank(pool: Pool, scene: Scene, need: Need) -> tuple[bool, bool, bool, int, int]:
    slot = pool.slot if isinstance(pool.slot, int) else -1
    helps = not helps_not(pool, need, list_served(pool, scene, need), scene)
    return helps, is_whole(pool), is_used(pool, scene, need), -slot, -pool.attempt


def plan_takes(scene: Scene, need: Need) -> list[Act]:
    """Return what is taken away of a need's pools while its workload is live."""
    spare = (
        []
        if scene.queue == Queue.QUOTA and scene.suspended_since is not None
        else list_too_many(scene, need)
    )
    groups = group_slices(scene, need).values()
    mixed = {name for pods in groups if is_mixed(pods) for name in find_places(pods)}
    acts: list[Act | None] = []
    for pool in sorted(scene.pools, key=lambda pool: _rank(pool, scene, need)):
        if not fits(pool, need.asks) or not is_at_rest(pool) or is_used(pool, scene, need):
            continue
        if helps_not(pool, need, list_served(pool, scene, need), scene):
            acts.append(_end_record(pool, scene, need))
        elif pool in spare and pool.spare_before and pool.name not in mixed:
            acts.append(
                None
                if is_waited_for(pool, scene, need)
                else _end_idle(pool, scene, need.warm_seconds)
            )
    return [act for act in acts if act is not None]


def _end_record(pool: Pool, scene: Scene, need: Need) -> Act | None:
    """Return the end of a pool that does not help: it stays as long as it is the newest record."""
    served = list_served(pool, scene, need)
    later = any(each.attempt > pool.attempt for each in list_tries(scene, need, pool.slot or 0))
    needless = len(list_counted(scene, need)) >= count_to_keep(scene, need)
    if later or needless or is_last_useless(pool, served, scene) or goes_first(pool, scene, need):
        return Act(verb=Verb.DELETE, pool=pool.name, need=need.key)
    if holds_room(pool, short=is_short(pool, need, served, scene)):
        return Act(verb=Verb.SWITCH_OFF, pool=pool.name, need=need.key)
    return None


def _end_idle(pool: Pool, scene: Scene, warm_seconds: int) -> Act | None:
    """Return the next step of a pool that nobody needs: at once, or mark, close, a tick, delete."""
    closed = pool.closed_since is not None and scene.now - pool.closed_since >= TICK_SECONDS
    if not warm_seconds or not is_whole(pool) or closed:
        return Act(verb=Verb.DELETE, pool=pool.name)
    if pool.idle_since is None:
        return Act(verb=Verb.MARK, pool=pool.name)
    if pool.closed_since is None and scene.now - pool.idle_since >= warm_seconds:
        return Act(verb=Verb.CLOSE, pool=pool.name)
    return None


def plan_strays(scene: Scene) -> list[Act]:
    """Return the deletions of unused pools that fit no need of their live workload."""
    return [
        Act(verb=Verb.DELETE, pool=pool.name)
        for pool in scene.pools
        if is_at_rest(pool)
        and pool.spare_before
        and not any(fits(pool, need.asks) for need in scene.needs)
        and not is_used(pool, scene, None)
    ]


def find_spare(scene: Scene) -> frozenset[str]:
    """Return the pools of a live workload that are too many now, or fit none of its needs."""
    spare = {
        pool.name
        for need in scene.needs
        for pool in ([] if need.elastic else list_too_many(scene, need))
        if not is_used(pool, scene, need)
    }
    parts = {
        pool.name
        for need in scene.needs
        if need.part and not need.nodes
        for pool in list_counted(scene, need)
    }
    strays = {
        pool.name for pool in scene.pools if not any(fits(pool, need.asks) for need in scene.needs)
    }
    return frozenset(spare | parts | strays)


def plan_ends(scene: Scene) -> list[Act]:
    """Return what is taken away when the workload is over: each pool that nobody uses."""
    warm = max((need.warm_seconds for need in scene.needs), default=0)
    acts: list[Act | None] = []
    for pool in scene.pools:
        wanted = pool.idle_since is not None and any(
            is_waited_for(pool, scene, need) for need in scene.needs
        )
        need = next((need for need in scene.needs if fits(pool, need.asks)), None)
        if is_at_rest(pool) and not wanted and not is_used(pool, scene, need):
            acts.append(_end_idle(pool, scene, warm))
    return [act for act in acts if act is not None]


def plan_opens(scene: Scene) -> list[Act]:
    """Return the idle pools whose taint goes: a pod uses one, or waits and fits."""
    return [
        Act(verb=Verb.OPEN, pool=pool.name)
        for pool in scene.pools
        if pool.idle_since is not None
        and (
            is_used(pool, scene, None)
            or any(is_waited_for(pool, scene, need) for need in scene.needs)
        )
    ]
