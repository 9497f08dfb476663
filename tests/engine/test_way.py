"""How short the one way is: modules and functions that a demand and a delete pass."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.builders import JOBSET_UID
from tests.engine.world import World

SHARED = str(Path(__file__).parents[2] / "shared")
MODULES, FUNCTIONS = 28, 150  # of a plain demand; the goal of the design
DELETE_MODULES, DELETE_FUNCTIONS = 24, 120


def trace(work: Callable[[], object]) -> tuple[set[str], set[tuple[str, str]]]:
    """Return the modules and functions of the product that a call passes; no comprehensions."""
    functions: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _arg: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SHARED) and not code.co_name.startswith("<"):
            functions.add((code.co_filename, code.co_qualname))

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return {module for module, _ in functions}, functions


def demand() -> World:
    world = World()
    world.wait(0)
    return world


def over() -> World:
    world = World()
    world.run_all()
    world.finish(replicas=1)
    return world


@pytest.mark.parametrize(("what", "modules_max", "functions_max"), [("demand", 33, 249), ("delete", 18, 114)])
def test_the_way_is_short(
    what: str, modules_max: int, functions_max: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bounds are where it stands; the goals are `MODULES` and the others above."""
    world = demand() if what == "demand" else over()
    work = world.provisioner.work if what == "demand" else lambda: world.collector.work(uid=JOBSET_UID)

    modules, functions = trace(work)

    with capsys.disabled():
        goal = (MODULES, FUNCTIONS) if what == "demand" else (DELETE_MODULES, DELETE_FUNCTIONS)
        sys.stdout.write(f"\n{what}: {len(modules)} modules, {len(functions)} functions; goal {goal}\n")
    assert (len(modules) <= modules_max, len(functions) <= functions_max) == (True, True)
