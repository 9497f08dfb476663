"""The order of the plan: is the workload live, what does each need lack, what is too many. Pure.

Both functions make the same plan. `provision` does what adds, `collect` what takes away.
"""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from typing import TYPE_CHECKING

from shared.model.decisions import Reason
from shared.plan.asks import list_asks
from shared.plan.attempts import list_free_slots, plan_attempt
from shared.plan.checks import decide_check
from shared.plan.counting import (
    count_to_keep,
    find_taken,
    group_slices,
    is_mixed,
    list_counted,
    list_demands,
    list_elsewhere,
    list_lacking,
    list_served,
)
from shared.plan.limits import ELASTIC_NODES_MAX, count_affordable, count_more_nodes
from shared.plan.pool import find_spare, is_used, plan_ends, plan_opens, plan_strays, plan_takes
from shared.plan.scene import Act, Answer, Plan, Queue, Stop, Verb, Word
from shared.plan.short import is_short

if TYPE_CHECKING:
    from shared.plan.scene import Need, Scene

GRACE_SECONDS = 300


class Life(StrEnum):
    """What the state of a workload means for its pools."""

    LIVE = "live"
    QUEUED = "queued"
    """It is suspended, and Kueue holds quota for it."""
    RESTS = "rests"
    """Nothing is done: it is suspended for less than the grace, or could not be read."""
    OVER = "over"


def find_life(scene: Scene) -> Life:
    """Return what the state of the workload means for its pools."""
    if not scene.owner_known:
        return Life.RESTS
    if scene.over or scene.retried:
        return Life.OVER
    if scene.suspended_since is None:
        return Life.LIVE
    if scene.queue == Queue.QUOTA:
        return Life.QUEUED
    rested = scene.now - max(scene.suspended_since, scene.quota_lost_at)
    return Life.OVER if rested >= GRACE_SECONDS else Life.RESTS


def make_plan(scene: Scene) -> Plan:
    """Return what a workload gets, what is taken away, and what its owner is told.

    A plan that rests on what was not read asks for it, and has no acts.
    """
    plan = _make_plan(scene)
    asks = list_asks(scene, plan)
    return Plan(asks=asks, answers=plan.answers) if asks else plan


def _make_plan(scene: Scene) -> Plan:
    life, adds, takes, answers = find_life(scene), list[Act](), list[Act](), list[Answer]()
    spare: frozenset[str] = frozenset()
    if life == Life.OVER:
        takes = plan_ends(scene)
    elif life != Life.RESTS:
        for need in scene.needs:
            plan = _plan_elastic(scene, need) if need.elastic else _plan_slices(scene, need)
            adds, takes = [*adds, *plan.adds], [*takes, *plan.takes]
            answers += [*plan.answers, *_list_notices(scene, need)]
        takes += plan_strays(scene) if life == Life.LIVE else []
        spare = find_spare(scene) if life == Life.LIVE else frozenset()
        answers += [Answer(Reason.PARENT_OVER)] * scene.parent_over
        adds, answers = _hold_back(scene, life, adds, answers)
    adds = [*plan_opens(scene), *adds]
    return Plan(
        adds=() if scene.stop else tuple(adds),
        takes=() if scene.stop == Stop.EVERYTHING else tuple(dict.fromkeys(takes)),
        answers=tuple(dict.fromkeys(answers)),
        spare=spare,
    )


def _hold_back(
    scene: Scene, life: Life, adds: list[Act], answers: list[Answer]
) -> tuple[list[Act], list[Answer]]:
    """Return the creates that remain, with what Kueue is told, or which part is refused."""
    if life == Life.QUEUED:
        check = decide_check(scene)
        return ([], [*answers, Answer(check)]) if check else (adds, answers)
    refused = [Answer(need.never.reason, need.key) for need in scene.needs if need.never]
    return ([], [*answers, *refused]) if refused else (adds, answers)


def _plan_slices(scene: Scene, need: Need) -> Plan:
    """Return the plan for a need whose slices have a pool each."""
    adds, answers = _plan_creates(scene, need)
    return Plan(adds=tuple(adds), takes=tuple(plan_takes(scene, need)), answers=tuple(answers))


def _plan_creates(scene: Scene, need: Need) -> tuple[list[Act], list[Answer]]:
    """Return the pools that a need lacks, as many as limits and operation slots allow now."""
    asked = list_lacking(scene, need)
    lacking = len(asked)
    if not lacking:
        return [], []
    if scene.stop:
        return [], [Answer(Reason.STOPPED, need.key)]
    if need.waits_for:
        return [], [Answer(need.waits_for.reason, need.key)]
    acts, answers = list[Act](), list[Answer]()
    affordable = count_affordable(scene, need, lacking)
    for slot, asks in zip(list_free_slots(scene, need), asked, strict=False):
        act = plan_attempt(scene, need, slot)
        if isinstance(act, Reason):
            answers.append(Answer(act, need.key))
        elif len(acts) >= affordable:
            answers.append(Answer(Reason.LIMIT_REACHED, need.key))
        elif len(acts) >= scene.slots:
            answers.append(Answer(Reason.NO_OPERATION_SLOT, need.key))
        else:
            acts.append(dataclasses.replace(act, labels=asks.labels - need.asks.labels))
    return acts, answers


def _plan_elastic(scene: Scene, need: Need) -> Plan:
    """Return the plan for a need whose pods share one pool: its maximum follows the spec."""
    outside = list_elsewhere(scene, list(scene.pods))
    pods = tuple(dataclasses.replace(pod, slice="") for pod in scene.pods if pod not in outside)
    scene, need = dataclasses.replace(scene, pods=pods), dataclasses.replace(need, most=1, hosts=1)
    counted = list_counted(scene, need)
    wanted = min(need.nodes or 0, ELASTIC_NODES_MAX)
    if not counted:
        adds, answers = _plan_creates(scene, need) if wanted else ([], [])
        maximum = min(wanted, count_more_nodes(scene, need))
        sized = [dataclasses.replace(act, maximum=maximum, whole=need.part) for act in adds]
        return Plan(adds=tuple(sized), takes=tuple(plan_takes(scene, need)), answers=tuple(answers))
    pool = counted[0]
    floor = 0 if need.part else 1
    allowed = max(floor, min(wanted, pool.maximum + count_more_nodes(scene, need)))
    answers = [Answer(Reason.LIMIT_REACHED, need.key)] if allowed < wanted else []
    if allowed > pool.maximum:
        if scene.stop:
            return Plan(answers=(Answer(Reason.STOPPED, need.key),))
        act = Act(verb=Verb.RAISE, pool=pool.name, need=need.key, maximum=allowed)
        return Plan(adds=(act,), answers=tuple(answers))
    return Plan(takes=tuple(_plan_lower(scene, need, allowed)), answers=tuple(answers))


def _plan_lower(scene: Scene, need: Need, allowed: int) -> list[Act]:
    """Return how an elastic pool gets smaller: by its maximum, never below the nodes that exist.

    Pods that use less than half of a host would be moved by GKE's autoscaler, so their pool has no
    room to shrink and goes as a whole.
    """
    pool = list_counted(scene, need)[0]
    if need.part:
        gone = not need.nodes and not is_used(pool, scene, need) and pool.spare_before
        return [Act(verb=Verb.DELETE, pool=pool.name, need=need.key)] if gone else []
    lowest = max(allowed, pool.ready or 0)
    lower = lowest < pool.maximum
    return [Act(verb=Verb.LOWER, pool=pool.name, need=need.key, maximum=lowest)] if lower else []


def _list_notices(scene: Scene, need: Need) -> list[Answer]:
    """Return what the owner is told about slices and pools that are not as they should be."""
    groups = list(group_slices(scene, need).values())
    follow = [
        pods for pods in groups if list_elsewhere(scene, pods) and any(pod.waits for pod in pods)
    ]
    taken = find_taken(scene, need)
    lost = [
        pool.name
        for pool in scene.pools
        if pool.word == Word.LOST and is_short(pool, need, list_served(pool, scene, need), scene)
    ]
    doubled = not need.elastic and len(list_demands(scene, need)) > count_to_keep(scene, need)
    holds = {
        Reason.SLICE_MIXED: any(map(is_mixed, groups)),
        Reason.SLICE_DOUBLED: doubled,
        Reason.POOL_TAKEN: taken is not None,
        Reason.FOLLOWERS_WAIT: any(not is_mixed(pods) for pods in follow),
        Reason.HOST_LOST: bool(lost),
    }
    return [Answer(reason, need.key) for reason, true in holds.items() if true]
