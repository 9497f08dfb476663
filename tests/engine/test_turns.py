"""What is counted in the process, whose turn a free slot is, and threads that meet."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from math import inf

from msgspec import structs

from shared.engine.budget import Key, open_books
from shared.engine.threads import Crew
from shared.settings import ClusterSettings
from tests.builders import CLUSTER, settings
from tests.engine.world import ERRORS, World, list_reasons


def test_a_refusal_gives_back_no_deletion_that_gke_accepted_before() -> None:
    world = World(deletions_per_minute_max=1)
    books, now = world.collector.ports.books[CLUSTER], world.clock.time
    assert books.take_deletion("first", now)  # GKE accepts it
    assert books.take_deletion("first", now + 2)  # and says of the same one that it is busy with it

    books.give_back_deletion("first", now + 2)

    assert not books.take_deletion("second", now + 3)
    assert books.take_deletion("second", now + 61)


def test_a_deletion_counts_from_its_last_try() -> None:
    world = World(deletions_per_minute_max=1)
    books, now = world.collector.ports.books[CLUSTER], world.clock.time
    assert books.take_deletion("first", now)  # nobody knows what came of it
    assert books.take_deletion("first", now + 50)

    assert not books.take_deletion("second", now + 70)
    assert books.take_deletion("second", now + 111)


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


def full_world() -> World:
    """One create runs, which is all that GKE allows, and two more JobSets wait."""
    world = World()
    for name in ("second", "third"):
        world.set_jobset(name=name, replicas=1)
        world.wait(0, jobset=name, age=60.0 if name == "third" else 40.0)
    world.wait(0)
    world.gke.refusals = [ERRORS["full"]]
    world.provisioner.work()  # GKE names its number
    world.provisioner.work()
    assert len(world.gke.pools) == 1
    for name in ("second", "third"):
        world.clock.time += 3  # so that a list shows what was sent
        assert list_reasons(world.provisioner.work(name)) == ["no_operation_slot"]
    return world


def test_while_gke_names_no_number_one_delivery_creates_all_pools_and_stops_once_it_does() -> None:
    world = World(slices=50)
    world.wait(*range(50))
    world.provisioner.work()
    assert len(world.gke.pools) == 50

    full = World(slices=50)
    full.wait(*range(50))
    full.on(
        "create *", lambda: setattr(full.gke, "refusals", [ERRORS["full"]] * (len(full.gke.pools) > 39)), times=50
    )
    full.provisioner.work()
    assert (len(full.gke.pools), full.take_calls().count("list pools")) == (40, 2)


def test_a_wake_up_that_meets_its_key_lets_the_thread_look_once_more() -> None:
    world = World()
    world.wait(0)

    def wake() -> None:
        assert world.provisioner.work().look is None, "the other wake-up does nothing itself"

    world.on("list pods", wake)
    work = world.provisioner.work()

    assert world.take_calls().count("list pods") == 2
    assert list_reasons(work) == ["pool_absent"]
    world.recover()
    assert world.provisioner.work().look is not None, "the key is free again"


def test_a_gang_that_cannot_use_a_free_slot_leaves_it_to_the_next() -> None:
    world = full_world()
    (first,) = world.gke.pools
    world.come(first)
    stuck = key("default", "stuck")
    world.set_jobset(name="stuck", replicas=1, terminal="Completed")
    world.ports.books[CLUSTER].wait(stuck, 0.0, begun=True)

    work = world.provisioner.end(first, created=True)

    assert list_reasons(work) == ["pool_created", "pool_absent"]
