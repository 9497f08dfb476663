"""What a plan still has to know: facts that cost a call and that few plans rest on. Pure.

Each is asked for only where it decides, so a plain demand reads none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.plan.scene import Ask, Fact, Verb
from shared.plan.short import is_whole, lacks_nodes

if TYPE_CHECKING:
    from collections.abc import Collection

    from shared.plan.counting import Census
    from shared.plan.scene import Plan, Pool

YOUNG_SECONDS = 60
"""A pod that waits for less has no earlier try, and GKE has no error of a pool that young."""
_REST_ON_PODS = frozenset({Verb.DELETE, Verb.MARK, Verb.CLOSE})


def list_asks(census: Census, plan: Plan) -> tuple[Ask, ...]:
    """Return the facts that a plan rests on and that were not read."""
    scene = census.scene
    taken = {act.pool for act in plan.takes if act.verb in _REST_ON_PODS}
    counted = {pool.name for _, pool in census.demanded.served}
    asks = [Ask(Fact.MACHINES, pool.name) for pool in scene.pools if _may_be_short(pool, census)]
    asks += [
        Ask(Fact.USERS, pool.name)
        for pool in scene.pools
        if not pool.users_read and (pool.name in taken or _is_perhaps_taken(pool, census, counted))
    ]
    creates = any(act.verb == Verb.CREATE for act in plan.adds)
    if scene.creations is None and creates and _is_old(census):
        asks.append(Ask(Fact.OPERATIONS))
    return tuple(asks)


def _may_be_short(pool: Pool, census: Census) -> bool:
    """Return whether the words of GKE decide if a pool is short."""
    if pool.word is not None or not pool.ours or not lacks_nodes(pool):
        return False
    old = census.scene.now - pool.created_at >= YOUNG_SECONDS
    return old and census.find_service(pool).waiting_since is not None


def _is_perhaps_taken(pool: Pool, census: Census, counted: Collection[str]) -> bool:
    """Return whether pods of others would leave a pool out that counts for a pod that waits."""
    if pool.name not in counted or not is_whole(pool):
        return False
    return census.find_service(pool).waiting_since is not None


def _is_old(census: Census) -> bool:
    """Return whether a demand may have had a try that no list shows."""
    now = census.scene.now
    waiting = (pod.created_at for pod in census.scene.pods if pod.waits)
    return now - min(waiting, default=now) >= YOUNG_SECONDS or census.queued
