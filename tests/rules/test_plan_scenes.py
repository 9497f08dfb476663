"""Each scene gives the acts and answers of its row, and each wrong rule makes a scene fail."""

from __future__ import annotations

import pytest

from shared.plan.plan import make_plan
from shared.plan.scene import Act, Plan, Verb
from tests.rules.plan_scenes import Scene as Row
from tests.rules.plan_scenes import build_scene
from tests.rules.scenes_of_attempts import ATTEMPTS
from tests.rules.scenes_of_counting import COUNTING
from tests.rules.scenes_of_elastic_needs import ELASTICS
from tests.rules.scenes_of_queues_and_ends import ENDS, QUEUES
from tests.rules.scenes_of_the_model import SCENES
from tests.rules.wrong_rules import MODULES, WRONG

ALL = [*SCENES, *COUNTING, *ATTEMPTS, *ELASTICS, *QUEUES, *ENDS]


def write_act(act: Act, row: Row) -> str:
    if act.verb != Verb.CREATE:
        return f"{act.verb} {act.pool}{f' {act.maximum}' if act.verb in (Verb.RAISE, Verb.LOWER) else ''}"
    need = next(each for each in row.needs if each.key + each.shape == act.need)
    size = f" max={act.maximum}" if need.wants >= 0 else ""
    marks = f" round={act.round}" * bool(act.round) + f" useless={act.useless}" * bool(act.useless)
    way = need.list[act.candidate]
    return f"create {act.slot}.{act.attempt} {way}{size or ' empty' * act.empty}{marks}"


def write_plan(plan: Plan, row: Row) -> tuple[str, str, str]:
    answers = sorted({str(answer.reason) for answer in plan.answers})
    takes = sorted(write_act(act, row) for act in plan.takes)
    return ", ".join(write_act(act, row) for act in plan.adds), ", ".join(takes), ", ".join(answers)


@pytest.mark.parametrize(
    ("row", "adds", "takes", "answers"), [pytest.param(*each[1:], id=each[0]) for each in ALL]
)
def test_a_scene_has_its_plan(row: Row, adds: str, takes: str, answers: str) -> None:
    assert write_plan(make_plan(build_scene(row)), row) == (adds, takes, answers)


@pytest.mark.parametrize(("name", "rule"), [pytest.param(*each, id=title) for title, each in WRONG.items()])
def test_a_wrong_rule_makes_a_scene_fail(monkeypatch: pytest.MonkeyPatch, name: str, rule: object) -> None:
    *path, last = name.split(".")
    for module in MODULES:
        holder = getattr(module, path[0], None) if path else module
        if holder is not None and hasattr(holder, last):
            monkeypatch.setattr(holder, last, rule)

    assert any(write_plan(make_plan(build_scene(row)), row) != tuple(wanted) for _, row, *wanted in ALL)
