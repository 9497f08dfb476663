"""What is counted in the process, whose turn a free slot is, and threads that meet."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import inf

from msgspec import structs

from shared.engine.budget import Key, open_books
from shared.engine.threads import CALLS_AT_ONCE, Crew
from shared.model.errors import OutOfTime
from shared.settings import ClusterSettings
from tests.builders import CLUSTER, settings
from tests.engine.world import World, list_reasons


def test_threads_together_pass_no_limit() -> None:
    world = World(limit_chips=48)
    names = [f"w{number}" for number in range(12)]
    world.add(*names)
    function = world.provisioner
    function.ports = structs.replace(function.ports, crew=Crew())
    barrier = threading.Barrier(len(names), timeout=10)

    # Each has planned its create, and none has sent it.
    world.on("get namespace kube-system", barrier.wait, times=inf)
    with ThreadPoolExecutor(len(names)) as pool:
        works = list(pool.map(function.work, names))

    assert len(world.gke.pools) == 3
    told = [reason for work in works for reason in list_reasons(work)]
    assert (told.count("pool_absent"), told.count("limit_reached")) == (3, 9)
    assert not [error for work in works for error in work.errors]


def key(namespace: str, name: str) -> Key:
    return Key(CLUSTER, "JobSet", namespace, name)


def test_a_gang_that_began_goes_first_then_namespaces_in_turn_then_the_longest_wait() -> None:
    other = "projects/p/locations/l/clusters/other"
    books = open_books(settings(clusters={CLUSTER: ClusterSettings(), other: ClusterSettings()}))
    turns = books[CLUSTER]
    turns.wait(key("a", "old"), 1.0, begun=False)
    turns.wait(key("a", "older"), 0.0, begun=False)
    turns.wait(key("b", "young"), 9.0, begun=False)
    turns.wait(key("c", "gang"), 99.0, begun=True)
    turns.wait(key("c", "gone"), 0.0, begun=False)
    turns.wait(key("c", "gone"), None)

    order = [turns.take_next() for _ in range(5)]

    assert [each.name if each else None for each in order] == ["gang", "older", "young", "old", None]
    assert books[other].take_next() is None


def test_no_task_begins_after_its_time_and_none_that_has_begun_holds_up_its_caller() -> None:
    crew, over, begun, before = Crew(), threading.Event(), list[None](), threading.enumerate()

    tasks: list[Callable[[], object]] = [*[over.wait] * CALLS_AT_ONCE, lambda: begun.append(None)]

    crew.fork(over.wait)
    answers = crew.run(tasks, seconds=0.01)
    over.set()
    for thread in set(threading.enumerate()).difference(before):
        thread.join()

    assert ({type(each) for each in answers}, begun) == ({OutOfTime}, [])
