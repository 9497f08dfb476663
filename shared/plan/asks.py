"""What a plan still has to know: facts that cost a call and that few plans rest on. Pure.

Each is asked for only where it decides, so a plain demand reads none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.plan.limits import waits
from shared.plan.scene import Ask, Fact, Verb
from shared.plan.short import is_whole, lacks_nodes

if TYPE_CHECKING:
    from shared.plan.counting import Census
    from shared.plan.scene import Act, Plan, Pool

YOUNG_SECONDS = 60
"""A workload so young has no earlier try, and GKE has no error of a pool that young."""
_REST_ON_PODS = frozenset({Verb.DELETE, Verb.MARK, Verb.CLOSE})


def list_asks(census: Census, plan: Plan) -> tuple[Ask, ...]:
    """Return the facts that a plan rests on and that were not read."""
    pools = census.scene.pools
    lacking = [pool for pool in pools if _rests_on_machines(pool, census, plan)]
    asks = [Ask(Fact.MACHINES, pool.name) for pool in lacking]
    decisive = _list_decisive(census, plan)
    unread = [pool.name for pool in pools if not pool.users_read]
    asks += [Ask(Fact.USERS, name) for name in unread if name in decisive]
    asks += [Ask(Fact.OPERATIONS)] * _rests_on_operations(census, plan)
    return tuple(asks)


def _list_decisive(census: Census, plan: Plan) -> set[str]:
    """Return the pools of which the pods of others would change the plan."""
    decisive = {act.pool for act in plan.takes if _rests_on_pods(act, census)}
    if any(pod.waits for pod in census.scene.pods):
        served = (pool for _, pool in census.demanded.served if is_whole(pool))
        decisive.update(pool.name for pool in served if _is_waited_beside(pool, census))
    return decisive


def _rests_on_pods(act: Act, census: Census) -> bool:
    """Return whether pods of others decide: of a lower maximum only while a pod waits for it."""
    lowers = act.verb == Verb.LOWER and waits(census, act.need)
    return lowers or act.verb in _REST_ON_PODS


def _rests_on_operations(census: Census, plan: Plan) -> bool:
    """Return whether a create may follow one that no list shows, and that was not read.

    One that follows a failure rests on them however young its pods are, because they count it.
    """
    creates = [act for act in plan.adds if act.verb == Verb.CREATE]
    follows = any(act.attempt for act in creates)
    return census.scene.creations is None and bool(creates) and (follows or _is_old(census))


def _rests_on_machines(pool: Pool, census: Census, plan: Plan) -> bool:
    """Return whether it decides how many machines GKE makes for a pool, or why it makes none."""
    if pool.word is not None or not pool.ours or not lacks_nodes(pool):
        return False
    if any(act.verb == Verb.LOWER and act.pool == pool.name for act in plan.takes):
        return True
    old = census.scene.now - pool.created_at >= YOUNG_SECONDS
    return old and _is_waited_beside(pool, census)


def _is_waited_beside(pool: Pool, census: Census) -> bool:
    return census.find_service(pool).waiting_since is not None


def _is_old(census: Census) -> bool:
    """Return whether a demand may have had a try that no list shows.

    The pods of a workload that is older may have been made again.
    """
    now = census.scene.now
    waiting = min((pod.created_at for pod in census.scene.pods if pod.waits), default=now)
    since = min(waiting, census.scene.owner_created_at or waiting)
    return now - since >= YOUNG_SECONDS or census.queued
