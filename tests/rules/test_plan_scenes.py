"""Each scene gives the acts and answers of its row, and each wrong rule makes a scene fail."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import pytest

import shared.plan
from shared.plan import attempts, counting, short
from shared.plan.plan import Life, make_plan
from shared.plan.scene import Act, Plan, Scene, Verb, Word
from tests.rules.plan_scenes import SCENES, build_scene
from tests.rules.plan_scenes import Scene as Row

Rule = Callable[..., Any]


def write_act(act: Act, row: Row) -> str:
    if act.verb != Verb.CREATE:
        return f"{act.verb} {act.pool}{f' {act.maximum}' if act.verb in (Verb.RAISE, Verb.LOWER) else ''}"
    need = row.needs[0]
    size = f" max={act.maximum}" if need.wants >= 0 else ""
    return f"create {act.slot}.{act.attempt} {need.list[act.candidate]}{' empty' * act.empty}{size}"


def write_plan(plan: Plan, row: Row) -> tuple[str, str, str]:
    answers = sorted({str(answer.reason) for answer in plan.answers})
    takes = sorted(write_act(act, row) for act in plan.takes)
    return ", ".join(write_act(act, row) for act in plan.adds), ", ".join(takes), ", ".join(answers)


@pytest.mark.parametrize(
    ("row", "adds", "takes", "answers"), [pytest.param(*each[1:], id=each[0]) for each in SCENES]
)
def test_a_scene_has_its_plan(row: Row, adds: str, takes: str, answers: str) -> None:
    assert write_plan(make_plan(build_scene(row)), row) == (adds, takes, answers)


def always(value: object) -> Rule:
    return lambda *_, **__: value


def bury_suspended(scene: Scene) -> Life:
    return Life.OVER if scene.over or scene.suspended_since is not None else Life.LIVE


WRONG: dict[str, tuple[str, Rule]] = {
    "fit by shape only": ("fits", lambda pool, asks: pool.ours and pool.shape == asks.shape),
    "only slices that wait are demands": (
        "list_demands",
        lambda scene, need: [
            pods for pods in counting.group_slices(scene, need).values() if any(pod.waits for pod in pods)
        ],
    ),
    "no upper bound": ("count_to_keep", lambda scene, need: need.most + 10),
    "keep what the spec says, wherever it runs": ("count_to_keep", lambda scene, need: need.most),
    "taken pools are ignored": ("find_taken", always(None)),
    "delete the newest failed attempt": (
        "_end_record",
        lambda pool, scene, need: Act(verb=Verb.DELETE, pool=pool.name),
    ),
    "a pool that is coming is whole": ("is_whole", lambda pool: pool.status != "ERROR"),
    "a number comes again": (
        "number_attempt",
        lambda scene, need, slot: max(
            [each.attempt + 1 for each in attempts.list_tries(scene, need, slot) if each.status != "STOPPING"]
            + [0]
        ),
    ),
    "no pause": ("find_pause", always(0)),
    "the pause does not double": ("find_pause", always(60)),
    "flex-start has patience": ("find_patience", always(3600)),
    "a pool without machines fills the limit": ("count_affordable", always(10**6)),
    "nothing goes first": ("goes_first", always(False)),
    "a list's pools come with their nodes": ("comes_empty", always(False)),
    "useless for ever": ("is_last_useless", always(False)),
    "suspended is over": ("find_life", bury_suspended),
    "mixed slices are not seen": ("is_mixed", always(False)),
    "followers buy a pool": ("list_elsewhere", always([])),
    "own hung pods hold a pool": (
        "is_used",
        lambda pool, scene, need: any(pod.pool == pool.name for pod in scene.pods),
    ),
    "no pod is waited for": ("is_waited_for", always(False)),
    "a record is no record": ("find_record", always(None)),
    "an empty pool holds its room": ("holds_room", always(False)),
    "an answer of Kueue's check is never given": ("decide_check", always(None)),
    "a lost host has no patience of its own": (
        "is_short",
        lambda pool, need, served, scene: short.is_short(
            dataclasses.replace(pool, word=Word.NONE), need, served, scene
        ),
    ),
    "every pool is at rest": ("is_at_rest", lambda pool: pool.ours),
    "an elastic need has no limit": ("count_more_nodes", always(10**6)),
}


@pytest.mark.parametrize(("name", "rule"), [pytest.param(*each, id=title) for title, each in WRONG.items()])
def test_a_wrong_rule_makes_a_scene_fail(monkeypatch: pytest.MonkeyPatch, name: str, rule: Rule) -> None:
    modules = [
        importlib.import_module(f"shared.plan.{each.name}") for each in pkgutil.iter_modules(shared.plan.__path__)
    ]
    users = [module for module in modules if hasattr(module, name)]
    original = getattr(users[0], name)
    if rule.__code__.co_names[:2] == ("short", name):  # it calls the right rule
        monkeypatch.setattr(short, name, original)
    for module in users:
        if module is not short or "short" not in rule.__code__.co_names:
            monkeypatch.setattr(module, name, rule)

    assert any(write_plan(make_plan(build_scene(row)), row) != tuple(wanted) for _, row, *wanted in SCENES)
