"""Each scene gives the acts and answers of its row, and a rule that knows one answer fails one."""

from __future__ import annotations

import importlib
import pkgutil
import re
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import shared.plan
from shared.plan.plan import make_plan
from shared.plan.scene import Act, Plan, Scene, Verb
from tests.rows import read_table, rows
from tests.rules.plan_scenes import COLUMNS, TIERS, read_scene

ROWS = read_table("scenes.yaml", COLUMNS, "about")
SCENES: dict[str, tuple[Scene, str]] = {name: (read_scene(row), row.get("gets", "")) for name, row in ROWS.items()}
ADDS = {Verb.CREATE, Verb.RAISE, Verb.OPEN}
WORDS = {tier: word for word, tier in TIERS.items()}


def write_act(act: Act, scene: Scene) -> str:
    if act.verb != Verb.CREATE:
        return f"{act.verb} {act.pool}{f' {act.maximum}' if act.verb in (Verb.RAISE, Verb.LOWER) else ''}"
    need = next(each for each in scene.needs if each.key == act.need)
    size = f" max={act.maximum}{' with its nodes' * (not act.empty)}" if need.elastic else ""
    marks = f" round={act.round}" * bool(act.round) + f" useless={act.useless}" * bool(act.useless)
    way = WORDS[need.ways[act.candidate].tier]
    return f"create {act.slot}.{act.attempt} {way}{size or ' empty' * act.empty}{marks}"


def write_plan(plan: Plan, scene: Scene) -> str:
    if plan.asks:
        return ", ".join(f"asks {each.fact} {each.pool}".strip() for each in plan.asks)
    takes = [write_act(act, scene) for act in plan.takes]
    answers = sorted({str(answer.reason) for answer in plan.answers})
    return ", ".join([*(write_act(act, scene) for act in plan.adds), *takes, *answers])


@rows("scene gets", SCENES)
def test_a_scene_has_its_plan(scene: Scene, gets: str) -> None:
    plan = make_plan(scene)

    assert write_plan(plan, scene) == gets
    assert {act.verb for act in plan.adds} <= ADDS
    assert ADDS.isdisjoint(act.verb for act in plan.takes)


MODULES = [
    importlib.import_module(f"shared.plan.{each.name}") for each in pkgutil.iter_modules(shared.plan.__path__)
]
ANSWERS: dict[str, tuple[object, ...]] = {"bool": (True, False), "int": (0,), "list": ([],)}
"""By the type that a rule returns, what it may answer whatever it is asked."""


def list_rules(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the functions of a module and the methods of its classes, by their names."""
    for name, each in vars(module).items():
        if getattr(each, "__module__", "") == module.__name__:
            yield name, each
            yield from ((f"{name}.{key}", rule) for key, rule in vars(each).items() if not key.startswith("__"))


def list_constant_rules() -> Iterator[tuple[str, object, bool]]:
    """Yield each rule by its name, with an answer that it may give, and whether it is a field."""
    for module in MODULES:
        for name, rule in list_rules(module):
            field = getattr(rule, "fget", None) or getattr(rule, "func", None)
            kind = str(getattr(field or rule, "__annotations__", {}).get("return", ""))
            (base,) = re.findall(r"^\w*", kind)
            for answer in (*ANSWERS.get(base, ()), *[None] * ("| None" in kind)):
                yield name, answer, bool(field)


def misses(scene: Scene, gets: str) -> bool:
    """Return whether the plan of a scene is another one, or none."""
    try:
        return write_plan(make_plan(scene), scene) != gets
    except Exception:  # noqa: BLE001 - a broken rule may raise anything
        return True


@pytest.mark.parametrize(("name", "answer", "is_field"), list(list_constant_rules()))
def test_a_rule_that_always_gives_one_answer_makes_a_scene_fail(
    monkeypatch: pytest.MonkeyPatch, name: str, answer: object, *, is_field: bool
) -> None:
    *path, last = name.split(".")
    for module in MODULES:
        holder = getattr(module, path[0], None) if path else module
        if holder is not None and hasattr(holder, last):
            monkeypatch.setattr(holder, last, property(lambda _: answer) if is_field else lambda *_, **__: answer)

    assert any(misses(scene, gets) for scene, gets in SCENES.values())


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("pools", [True, False])
def test_a_thousand_slices_are_planned_at_once(*, pinned: bool, pools: bool) -> None:
    numbers = range(1000)
    fleet: dict[str, object] = {"needs": "most=1000", "pods": ", ".join(f"{each} age=9000 x4" for each in numbers)}
    if pinned:
        fleet = {
            "needs": ", ".join(f"key=k{each} pin=s{each} asks=job={each}" for each in numbers),
            "pods": ", ".join(f"s{each} age=9000 group={each} x4" for each in numbers),
        }
    if pools:  # which helped nobody, so each gets a successor
        own = (f"s{each}.0 key=k{each} labels=job={each}" if pinned else f"{each}.0" for each in numbers)
        fleet["pools"] = ", ".join(own)
    scene, took = read_scene(fleet | {"slots": 10**4}), []
    for _ in range(3):  # the collection of garbage may fall into one
        began = time.process_time()
        plan = make_plan(scene)
        took.append(time.process_time() - began)

    assert len(plan.adds) == 1000
    assert min(took) < 0.6  # 0.06 to 0.17 s on two cores
