"""Independent tasks: results in order, every error in its place, and an end at the bound."""

import threading
import time
from collections.abc import Callable
from functools import partial

import pytest
from shared.engine.looks.side_by_side import OneByOne

from shared.edges.clock import SYSTEM_CLOCK
from shared.edges.threads import Threads
from shared.engine.outside import SideBySide
from shared.model.errors import OutOfTime, Unavailable

RUNNERS = [pytest.param(OneByOne(SYSTEM_CLOCK), id="one-by-one"), pytest.param(Threads(), id="threads")]


def in_a_while() -> float:
    return time.time() + 60


def fail(error: Exception) -> int:
    raise error


@pytest.mark.parametrize("run", RUNNERS)
def test_results_and_errors_come_in_the_order_of_the_tasks(run: SideBySide) -> None:
    refused, broken = Unavailable("503"), OverflowError("a number")
    tasks = [partial(int, "1"), partial(fail, refused), partial(int, "3"), partial(fail, broken)]

    assert run(tasks, at_once=2, until=in_a_while()) == [1, refused, 3, broken]
    assert run([], at_once=2, until=in_a_while()) == []


@pytest.mark.parametrize("run", RUNNERS)
def test_no_task_begins_when_the_time_is_over(run: SideBySide) -> None:
    begun: list[int] = []
    found = run([partial(begun.append, 1)], at_once=1, until=time.time() - 1)

    assert isinstance(found[0], OutOfTime)
    assert begun == []


def test_a_task_that_hangs_is_left_behind_and_the_others_have_their_results() -> None:
    release = threading.Event()
    tasks: list[Callable[[], bool]] = [release.wait, lambda: True]
    try:
        found = Threads()(tasks, at_once=2, until=time.time() + 0.3)
    finally:
        release.set()

    assert isinstance(found[0], OutOfTime)
    assert found[1:] == [True]
