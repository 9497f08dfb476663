"""What holds for every scene: the plan is total, takes nothing in use, and adds nothing twice."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace

from shared.model.pools import PoolStatus
from shared.plan.plan import Life, find_life, make_plan
from shared.plan.scene import Act, Plan, Pool, Scene, Verb, Whose
from tests.rules.plan_scenes import FLAVOR, LIST, build_scene
from tests.rules.plan_scenes import Need as NeedRow
from tests.rules.plan_scenes import Pod as PodRow
from tests.rules.plan_scenes import Pool as PoolRow
from tests.rules.plan_scenes import Scene as Row

SEEDS = range(400)
AGES = (10, 100, 400, 1000, 4000)
STATES = ["RUNNING"] * 6 + ["PROVISIONING", "RECONCILING", "ERROR", "RUNNING_WITH_ERROR", "STOPPING"]
LISTS = [("demand",), LIST, ("reservation",), ("flex", "spot"), ("reservation", "spot", "demand")]
LIVES: list[dict[str, Any]] = [
    *({},) * 8,
    {"over": True},
    {"unknown": True},
    {"suspended": 100},
    {"suspended": 5000},
    {"suspended": 5000, "queue": "quota"},
    {"suspended": 5000, "queue": "none", "retried": True},
]


def draw_needs(dice: random.Random) -> list[NeedRow]:
    needs = [NeedRow(key="a", most=dice.randrange(4), list=dice.choice(LISTS))]
    if dice.random() < 0.5:
        needs.append(NeedRow(key="b", most=dice.randrange(3), list=dice.choice(LISTS), asks=FLAVOR))
    if dice.random() < 0.4:
        part = dice.random() < 0.3
        needs.append(
            NeedRow(key="e", shape="gpu", hosts=1, wants=dice.randrange(5), list=dice.choice(LISTS), part=part)
        )
    if dice.random() < 0.05:
        needs.append(NeedRow(key="n", shape="tpu9", never="resource_unknown"))
    return needs


def draw_pool(dice: random.Random, slot: int | str | None, attempt: int, owner: str = "ours") -> PoolRow:
    elastic, state = slot == "any", dice.choice(STATES)
    nodes = 0 if state == "PROVISIONING" else dice.choice([0, 2, 4, 4])
    idle = dice.random() < 0.1
    fields: dict[str, Any] = {
        "nodes": nodes,
        "candidate": dice.randrange(3),
        **{each: dice.choice(AGES) for each in ("age", "ready", "error")},
        "word": dice.choice(["", "", "cause", "lost"]) if nodes < 4 else "",
        "labels": FLAVOR if dice.random() < 0.4 and not elastic else frozenset(),
        "key": "e" if elastic else dice.choice("ab"),
        "shape": "gpu" if elastic else dice.choice(["tpu", "tpu", "tpu", "old"]),
        "hosts": 0 if elastic else 4,
        "autoscaled": elastic or dice.random() < 0.3,
        "maximum": dice.choice([0, 4, 4]),
        "busy": dice.random() < 0.1,
        **{each: dice.randrange(3) for each in ("round", "useless")},
        "spare_before": dice.random() < 0.7,
        "idle": dice.choice(AGES) if idle else -1,
        "closed": dice.choice(AGES) if idle and dice.random() < 0.5 else -1,
    }
    return PoolRow(slot, attempt, state, owner=owner, **fields)


def draw_pods(dice: random.Random, needs: list[NeedRow], pools: list[PoolRow]) -> list[PodRow]:
    pods = []
    for group, need in enumerate(needs):
        places = [pool.name for pool in pools if pool.nodes and pool.shape == need.shape] + [""] * 3
        for slice_key in range(dice.randrange(need.most + 2) if not need.never else 0):
            place = dice.choice(places)
            for _ in range(dice.randrange(1, 5)):
                bound = place if dice.random() < 0.9 else dice.choice(places)
                held = dice.choice(["", "", "", "gated", "terminating", "young"]) if not bound else ""
                asks = FLAVOR if dice.random() < 0.2 else frozenset()
                pods.append(
                    PodRow(f"{group}-{slice_key}", bound, dice.choice(AGES), held, asks, need.shape, group=group)
                )
    strangers = [pool.name for pool in pools if pool.nodes and dice.random() < 0.1]
    return pods + [PodRow(f"x{name}", name, dice.choice(AGES), ours=False) for name in strangers]


def draw_scene(seed: int) -> Scene:
    dice = random.Random(seed)
    needs = draw_needs(dice)
    slots = [(slot, attempt) for slot in range(dice.randrange(4)) for attempt in range(dice.choice([1, 1, 2]))]
    pools = [draw_pool(dice, *each) for each in slots]
    pools += [draw_pool(dice, "any", each) for each in range(dice.choice([0, 1, 1, 2]))]
    pools += [draw_pool(dice, None, 0, owner) for owner in ("go", "static") if dice.random() < 0.2]
    row = Row(
        tuple(needs),
        tuple(draw_pods(dice, needs, pools)),
        tuple(pools),
        **dice.choice(LIVES),
        limit=dice.choice([10**6, 10**6, 4, 8, 12, 20]),
        slots=dice.choice([20, 20, 1, 0]),
        stop=dice.choice(["", "", "", "", "", "no-create", "report-only"]),
        refused=tuple(number for number in range(1) if dice.random() < 0.1),
        operations=tuple((0, number, dice.choice(AGES)) for number in range(dice.choice([0, 0, 0, 1, 2, 5]))),
        part_held=dice.choice([0, 100, 1000]),
        takers_served=dice.random() < 0.1,
        warm=dice.random() < 0.3,
    )
    return build_scene(row)


def make_pool(act: Act, scene: Scene) -> Pool:
    """Return what GKE lists a moment after a create."""
    need = next(need for need in scene.needs if need.key == act.need)
    attempt = {name: getattr(act, name) for name in ("slot", "attempt", "candidate", "round")}
    return Pool(
        name=f"{act.need} {act.slot}.{act.attempt}",
        status=PoolStatus.PROVISIONING,
        shape=need.asks.shape,
        node_labels=dict(need.asks.labels | act.labels),
        need=need.key,
        created_at=scene.now,
        maximum=act.maximum or need.hosts,
        **attempt,
    )


def list_creates(plan: Plan) -> list[Act]:
    return [act for act in plan.adds if act.verb == Verb.CREATE]


def count_nodes(scene: Scene, creates: list[Act]) -> int:
    hosts = {need.key: need.hosts for need in scene.needs}
    return sum(act.maximum or hosts[act.need] for act in creates)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_holds_for_every_scene(seed: int) -> None:
    scene = draw_scene(seed)
    plan = make_plan(scene)
    pools, life = {pool.name: pool for pool in scene.pools}, find_life(scene)
    creates = list_creates(plan)

    # Never a pool that is not ours, or in use, or on which GKE works.
    for act in plan.takes:
        pool = pools[act.pool]
        own_hung = {pod.need for pod in scene.pods if pod.pool == pool.name and pod.need}
        strangers = any(pod.pool == pool.name and not pod.need for pod in scene.pods)
        assert pool.whose != Whose.OTHER
        assert not pool.busy
        if act.verb == Verb.DELETE:
            assert not strangers
            assert not own_hung or pool.word == "lost"
            assert pool.status not in (PoolStatus.PROVISIONING, PoolStatus.STOPPING)
        if act.verb == Verb.LOWER:
            assert act.maximum >= pool.present
    # A stop stops, and nothing is done about what could not be read.
    assert not (scene.stop and plan.adds)
    assert not (scene.stop == "report-only" and plan.takes)
    assert not (life == Life.UNKNOWN and (plan.adds or plan.takes))
    assert not (creates and life not in (Life.LIVE, Life.QUEUED))
    # A number never comes again, limits and slots hold, a pool is not changed both ways.
    used = {(pool.need, pool.slot, pool.attempt) for pool in scene.pools}
    assert not used & {(act.need, act.slot, act.attempt) for act in creates}
    assert len({(act.need, act.slot) for act in creates}) == len(creates) <= scene.slots
    assert count_nodes(scene, creates) <= max(0, scene.room)
    touched = [act.pool for act in plan.takes]
    assert len(touched) == len(set(touched))
    ends = {act.pool for act in plan.takes if act.verb in (Verb.DELETE, Verb.MARK, Verb.CLOSE)}
    assert not ends & {act.pool for act in plan.adds}


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_created_is_not_created_again(seed: int) -> None:
    scene = replace(draw_scene(seed), slots=100)
    creates = list_creates(make_plan(scene))
    pools = (*scene.pools, *(make_pool(act, scene) for act in creates))

    again = make_plan(replace(scene, pools=pools, room=scene.room - count_nodes(scene, creates)))

    assert not list_creates(again)
