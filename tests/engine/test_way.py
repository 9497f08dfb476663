"""How short the one way is: modules and functions that a demand and a delete pass."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from tests.builders import JOBSET_UID
from tests.engine.world import World

SHARED = str(Path(__file__).parents[2] / "shared")
EDGES = f"{SHARED}/edges"
MODULES, FUNCTIONS = 32, 241
DELETE_MODULES, DELETE_FUNCTIONS = 17, 106


def count_way(work: Callable[[], object]) -> tuple[int, int]:
    """Return how many modules and functions of the product a call passes; no comprehensions."""
    functions: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _arg: Any) -> None:
        code = frame.f_code
        own = code.co_filename.startswith(SHARED) and not code.co_filename.startswith(EDGES)  # the fakes' reader
        if event == "call" and own and not code.co_name.startswith("<"):
            functions.add((code.co_filename, code.co_qualname))

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return len({module for module, _ in functions}), len(functions)


def test_the_way_is_short() -> None:
    """The bounds are where it stands. The goals: 28 modules, 150 functions, and 24 and 120."""
    before, demand, over = World(), World(), World()
    for world in (before, demand):
        world.wait(0)
    before.provisioner.work()  # what is learnt once in a process is no part of the way
    over.run_all()
    over.finish(replicas=1)

    modules, functions = count_way(demand.provisioner.work)
    assert (modules <= MODULES, functions <= FUNCTIONS) == (True, True), (modules, functions)
    modules, functions = count_way(lambda: over.collector.work(uid=JOBSET_UID))
    assert (modules <= DELETE_MODULES, functions <= DELETE_FUNCTIONS) == (True, True), (modules, functions)
