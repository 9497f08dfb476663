"""Each scene gives the acts and answers of its row, and each wrong rule makes a scene fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shared.plan.plan import make_plan
from shared.plan.scene import Act, Plan, Verb
from tests.rules.plan_scenes import SCENES, build_scene
from tests.rules.plan_scenes import Scene as Row

Rule = Callable[..., Any]


def write_act(act: Act, row: Row) -> str:
    if act.verb != Verb.CREATE:
        return f"{act.verb} {act.pool}{f' {act.maximum}' if act.verb in (Verb.RAISE, Verb.LOWER) else ''}"
    need = row.needs[0]
    size = f" max={act.maximum}" if need.wants >= 0 else ""
    return f"create {act.slot}.{act.attempt} {need.list[act.candidate]}{size or ' empty' * act.empty}"


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
