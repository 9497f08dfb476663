"""What a plan still has to know: facts that cost a call and that few plans rest on. Pure.

Each is asked for only where it decides, so a plain demand reads none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.model.pools import PoolStatus
from shared.plan.counting import list_counted, list_served
from shared.plan.scene import Ask, Fact, Verb
from shared.plan.short import is_whole

if TYPE_CHECKING:
    from shared.plan.scene import Plan, Pool, Scene

YOUNG_SECONDS = 60
"""A pod that waits for less has no earlier try, and GKE has no error of a pool that young."""


def list_asks(scene: Scene, plan: Plan) -> tuple[Ask, ...]:
    """Return the facts that a plan rests on and that were not read."""
    asks = [Ask(Fact.MACHINES, pool.name) for pool in scene.pools if _may_be_short(pool, scene)]
    asks += [Ask(Fact.USERS, pool.name) for pool in scene.pools if _use_decides(pool, scene, plan)]
    if (
        scene.creations is None
        and any(act.verb == Verb.CREATE for act in plan.adds)
        and _is_old(scene)
    ):
        asks.append(Ask(Fact.OPERATIONS))
    return tuple(asks)


def _may_be_short(pool: Pool, scene: Scene) -> bool:
    lacks = pool.ours and pool.status == PoolStatus.RUNNING and not is_whole(pool) and not pool.busy
    if pool.word is not None or not lacks or scene.now - pool.created_at < YOUNG_SECONDS:
        return False
    return any(list_served(pool, scene, need) for need in scene.needs)


def _use_decides(pool: Pool, scene: Scene, plan: Plan) -> bool:
    """Return whether the pods of others on a pool change the plan.

    They do before it is taken away, and while it counts for a slice that waits beside it.
    """
    if pool.users_read or not pool.ours:
        return False
    if any(act.pool == pool.name for act in plan.takes):
        return True
    return is_whole(pool) and any(
        pool in list_counted(scene, need) and list_served(pool, scene, need) for need in scene.needs
    )


def _is_old(scene: Scene) -> bool:
    """Return whether a demand may have had a try that no list shows."""
    oldest = min(
        (pod.created_at for pod in scene.pods if pod.waits), default=scene.now - YOUNG_SECONDS
    )
    return scene.now - oldest >= YOUNG_SECONDS
