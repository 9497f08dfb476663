"""The order of the plan: is the workload live, what does each need lack, what is too many. Pure.

Both functions make the same plan. `provision` does what adds, `collect` what takes away. Facts that
cost a call and that few plans rest on are asked for only where they decide.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import islice

from msgspec import Struct, structs

from shared.model.decisions import Reason
from shared.model.names import Slot
from shared.plan.answers import decide_check, list_notices
from shared.plan.attempts import find_record, list_free_slots, plan_attempt
from shared.plan.counting import Census, Slice
from shared.plan.limits import Means, count_chips, count_nodes, count_wanted, size_pool, waits
from shared.plan.pool import find_spare, plan_ends, plan_opens, plan_records, plan_takes
from shared.plan.scene import Act, Answer, Ask, Fact, Need, Plan, Pool, Scene, Stop, Verb
from shared.plan.short import is_whole, lacks_nodes

YOUNG_SECONDS = 60
"""A workload so young has no earlier try, and GKE has no error of a pool that young."""
_REST_ON_PODS = frozenset({Verb.DELETE, Verb.MARK, Verb.CLOSE})


class Life(StrEnum):
    """What the state of a workload means for its pools."""

    LIVE = "live"  # or Kueue holds quota for it
    RESTS = "rests"
    """It is suspended for less than the grace: only failed pools with a successor go."""
    OVER = "over"


def find_life(scene: Scene) -> Life:
    """Return what the state of the workload means for its pools."""
    if scene.over or scene.retried:
        return Life.OVER
    if scene.queued or scene.suspended_since is None:
        return Life.LIVE
    rested = scene.now - max(scene.suspended_since, scene.quota_lost_at)
    return Life.OVER if rested >= scene.grace_seconds else Life.RESTS


def make_plan(scene: Scene) -> Plan:
    """Return what a workload gets, what is taken away, and what its owner is told.

    A plan that rests on what was not read asks for it, and has no acts. The plan for a workload
    that could not be read is empty.
    """
    if not scene.owner_known:
        return Plan()
    census = Census(scene)
    plan = _make_plan(census)
    asks = list_asks(census, plan)
    return Plan(asks=asks, answers=plan.answers) if asks else plan


def _make_plan(census: Census) -> Plan:
    scene, life = census.scene, find_life(census.scene)
    draft = _Draft(Means(scene.room, scene.slots))
    takes: list[Act] = []
    spare: frozenset[str] = frozenset()
    if life == Life.OVER:
        takes = plan_ends(census)
    elif life == Life.RESTS:
        takes = plan_records(census)
    else:
        _plan_needs(census, draft)
        if scene.pools:
            spare = frozenset() if census.scene.queued else find_spare(census)
            takes = [*draft.takes, *plan_takes(census, spare, draft.first)]
    opens = plan_opens(census) if scene.pools else []
    return Plan(
        adds=() if scene.stop else (*opens, *draft.adds),
        takes=() if scene.stop == Stop.EVERYTHING else tuple(dict.fromkeys(takes)),
        answers=tuple(dict.fromkeys(draft.answers)),
        spare=spare,
    )


class _Draft(Struct):
    """A plan that is being made, with what is left for its further acts."""

    means: Means
    adds: list[Act] = []
    takes: list[Act] = []
    answers: list[Answer] = []
    first: set[str] = set()  # failed pools that go before their successors are created

    def tell(self, reason: Reason, need: Need) -> None:
        self.answers.append(Answer(reason, need.key))


def _plan_needs(census: Census, draft: _Draft) -> None:
    """Plan what the needs of a live or queued workload get, and what is told about them."""
    scene = census.scene
    check = decide_check(census) if census.scene.queued else None
    never = [Answer(need.never.reason, need.key) for need in scene.needs if need.never]
    if all(need.apart for need in scene.needs if need.never):
        _plan_adds(census, draft)
    if check:
        draft.adds.clear()
    draft.answers += [*never, *list_notices(census)]
    draft.answers += [Answer(Reason.PARENT_OVER)] * scene.parent_over
    draft.answers += [Answer(check)] if check else []


def _plan_adds(census: Census, draft: _Draft) -> None:
    """Plan the pools that needs lack, and the sizes of elastic ones."""
    # A part of a workload in Kueue's queue is of no use, so it gets all that it lacks, or none.
    chips = sum(count_chips(census, want.need) for want in census.demanded.unserved)
    affordable = not census.scene.queued or chips <= census.scene.room
    for need, wants in _list_lacking(census):
        if wants:
            _plan_creates(census, draft, wants, affordable=affordable)
        elif need.elastic:
            _plan_size(census, draft, need)


def _list_lacking(census: Census) -> list[tuple[Need, list[Slice]]]:
    """Return each need with its slices that lack a pool, or those only that others wait for."""
    lacking: dict[str, list[Slice]] = {need.key: [] for need in census.scene.needs}
    for want in census.demanded.unserved:
        lacking[want.need.key] += [want] * want.places.isdisjoint(census.mixed)
    pairs = [(need, lacking[need.key]) for need in census.scene.needs]
    held = [(need, wants) for need, wants in pairs if wants and need.waits_for and not need.apart]
    return held or pairs


def _plan_creates(census: Census, draft: _Draft, wants: list[Slice], *, affordable: bool) -> None:
    """Plan the pools that a need lacks, as many as limits and operation slots allow now."""
    need = wants[0].need
    if census.scene.stop:
        draft.tell(Reason.STOPPED, need)
        return
    if need.waits_for:
        draft.tell(need.waits_for.reason, need)
        return
    for slot in islice(list_free_slots(census, need), len(wants)):
        nodes = _count_affordable(census, need, draft.means) if affordable else 0
        act = _plan_create(census, need, slot, draft.means, nodes)
        if isinstance(act, Act):
            draft.adds.append(act)
            draft.means = draft.means.less(nodes * need.chips)
            if need.loose:
                draft.tell(Reason.SLICES_MAY_MIX, need)
            continue
        draft.tell(act, need)
        record = find_record(census, need, slot)
        if act == Reason.POOL_GOES_FIRST and record:
            draft.first.add(record.name)


def _plan_create(census: Census, need: Need, slot: Slot, means: Means, nodes: int) -> Act | Reason:
    """Return the create of a slot's next pool with so many nodes, or why it does not come now."""
    act = plan_attempt(census, need, slot, means)
    if isinstance(act, Reason):
        return act
    if not nodes:
        return Reason.LIMIT_REACHED
    if means.slots <= 0:
        return Reason.NO_OPERATION_SLOT
    return structs.replace(act, maximum=nodes) if need.elastic else act


def _count_affordable(census: Census, need: Need, means: Means) -> int:
    """Return how many nodes a new pool may have: all hosts of a slice, or none."""
    room = max(0, means.chips) // need.chips
    if need.elastic:
        return min(count_wanted(census, need), room)
    return need.hosts if need.hosts <= room else 0


def _plan_size(census: Census, draft: _Draft, need: Need) -> None:
    """Plan how the maximum of an elastic pool changes, if the need has one."""
    pool = next((pool for want, pool in census.kept.served if want.need is need), None)
    act = size_pool(census, need, pool, draft.means) if pool else None
    if pool is None or act is None:
        return
    if isinstance(act, Reason):
        draft.tell(act, need)
    elif act.verb == Verb.LOWER:
        draft.takes.append(act)
    elif census.scene.stop:
        draft.tell(Reason.STOPPED, need)
    else:
        draft.adds.append(act)
        before = count_nodes(pool.status, pool.maximum, pool.nodes)
        draft.means = draft.means.less((act.maximum - before) * need.chips)
        if act.maximum < count_wanted(census, need):
            draft.tell(Reason.LIMIT_REACHED, need)


def list_asks(census: Census, plan: Plan) -> tuple[Ask, ...]:
    """Return the facts that a plan rests on and that were not read."""
    pools = census.scene.pools
    lacking = [pool for pool in pools if _rests_on_machines(pool, census, plan)]
    asks = [Ask(Fact.MACHINES, pool.name) for pool in lacking]
    decisive = _list_decisive(census, plan)
    # The pods of others on an idle pool take its mark away.
    others = [each for each in pools if each.idle_since or each.name in decisive]
    asks += [Ask(Fact.USERS, each.name) for each in others if not each.users_read]
    asks += [Ask(Fact.OPERATIONS)] * _rests_on_operations(census, plan)
    return tuple(asks)


def _list_decisive(census: Census, plan: Plan) -> set[str]:
    """Return the pools of which the pods of others would change the plan."""
    decisive = {act.pool for act in plan.takes if _rests_on_pods(act, census)}
    if any(pod.waits for pod in census.scene.pods):
        served = (pool for _, pool in census.demanded.served if is_whole(pool))
        decisive.update(pool.name for pool in served if census.find_wait(pool) is not None)
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
    return census.scene.operations is None and bool(creates) and (follows or _is_old(census))


def _rests_on_machines(pool: Pool, census: Census, plan: Plan) -> bool:
    """Return whether it decides how many machines GKE makes for a pool, or why it makes none."""
    if pool.word is not None or not lacks_nodes(pool):
        return False
    if any(act.verb == Verb.LOWER and act.pool == pool.name for act in plan.takes):
        return True
    is_young = census.scene.now - pool.owner.created_at < YOUNG_SECONDS
    return not is_young and census.find_wait(pool) is not None


def _is_old(census: Census) -> bool:
    """Return whether a demand may have had a try that no list shows.

    The pods of a workload that is older may have been made again. A clock that is far ahead of this
    one says nothing of its age.
    """
    now = census.scene.now
    waiting = min((pod.created_at for pod in census.scene.pods if pod.waits), default=now)
    since = min(waiting, census.scene.owner_created_at or waiting)
    return abs(now - since) >= YOUNG_SECONDS or census.scene.queued
