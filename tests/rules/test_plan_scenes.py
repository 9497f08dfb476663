"""Each scene gives the acts and answers of its row, and each wrong rule makes a scene fail."""

from __future__ import annotations

import time
from dataclasses import fields

import pytest

from shared.model.needs import Asks, Need, Pod
from shared.model.pools import PoolShape
from shared.plan.plan import make_plan
from shared.plan.scene import Act, Plan, Pool, Scene, Verb
from tests.rows import read_table, rows
from tests.rules.plan_scenes import Scene as Row
from tests.rules.plan_scenes import build_scene, read_scene
from tests.rules.wrong_rules import CONSTANT, MODULES, WRONG

COLUMNS = " ".join(["about", *(field.name for field in fields(Row))])
SCENES = {name: read_scene(row) for name, row in read_table("scenes.yaml", COLUMNS, "about").items()}
ADDS = {Verb.CREATE, Verb.RAISE, Verb.OPEN}


def write_act(act: Act, row: Row) -> str:
    if act.verb != Verb.CREATE:
        return f"{act.verb} {act.pool}{f' {act.maximum}' if act.verb in (Verb.RAISE, Verb.LOWER) else ''}"
    need = next(each for each in row.needs if each.key + each.shape == act.need)
    size = f" max={act.maximum}" if need.wants >= 0 else ""
    marks = f" round={act.round}" * bool(act.round) + f" useless={act.useless}" * bool(act.useless)
    way = need.list[act.candidate]
    return f"create {act.slot}.{act.attempt} {way}{size or ' empty' * act.empty}{marks}"


def write_plan(plan: Plan, row: Row) -> str:
    if plan.asks:
        return ", ".join(f"asks {each.fact} {each.pool}".strip() for each in plan.asks)
    takes = sorted(write_act(act, row) for act in plan.takes)
    answers = sorted({str(answer.reason) for answer in plan.answers})
    return ", ".join([*(write_act(act, row) for act in plan.adds), *takes, *answers])


@rows("row", SCENES)
def test_a_scene_has_its_plan(row: Row) -> None:
    plan = make_plan(build_scene(row))

    assert write_plan(plan, row) == row.gets
    assert {act.verb for act in plan.adds} <= ADDS
    assert ADDS.isdisjoint(act.verb for act in plan.takes)


def misses(row: Row) -> bool:
    """Return whether the plan of a scene is another one, or none."""
    try:
        return write_plan(make_plan(build_scene(row)), row) != row.gets
    except Exception:  # noqa: BLE001 - a broken rule may raise anything
        return True


@rows("name rule", WRONG | CONSTANT)
def test_a_wrong_rule_makes_a_scene_fail(monkeypatch: pytest.MonkeyPatch, name: str, rule: object) -> None:
    *path, last = name.split(".")
    for module in MODULES:
        holder = getattr(module, path[0], None) if path else module
        if holder is not None and hasattr(holder, last):
            monkeypatch.setattr(holder, last, rule)

    assert any(map(misses, SCENES.values()))


def build_fleet(*, pinned: bool, pools: bool) -> Scene:
    shape = PoolShape("ct6e-standard-4t", "4x4", 4, 4)
    asked = [Asks(shape, frozenset({("job", str(number))} if pinned else ())) for number in range(1000)]
    needs = (
        tuple(Need(key=f"k{number}", asks=asks, hosts=4, pin=f"s{number}") for number, asks in enumerate(asked))
        if pinned
        else (Need(key="k0", asks=asked[0], most=1000, hosts=4),)
    )
    pods = tuple(
        Pod(need=f"k{number * pinned}", slice=f"s{number}", waits=True, created_at=1.0)
        for number in range(1000)
        for _ in range(4)
    )
    made = tuple(
        Pool(
            name=f"p{number}",
            shape=shape,
            slot=f"s{number}" if pinned else number,
            need=f"k{number * pinned}",
            node_labels=dict(asks.labels),
            ready=4,
            nodes=4,
            ready_since=9.0,
            created_at=2.0,
            maximum=4,
        )
        for number, asks in enumerate(asked)
    )
    return Scene(now=5000.0, needs=needs, pods=pods, pools=made if pools else (), slots=10**4)


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("pools", [True, False])
def test_a_thousand_slices_are_planned_at_once(*, pinned: bool, pools: bool) -> None:
    fleet_of_all, took = build_fleet(pinned=pinned, pools=pools), []
    for _ in range(3):  # the collection of garbage may fall into one
        began = time.process_time()
        plan = make_plan(fleet_of_all)
        took.append(time.process_time() - began)

    assert len(plan.adds) == 1000
    assert min(took) < 0.6  # 0.06 to 0.17 s on two cores
