"""Whose turn a free operation slot is, and that one thread works on a key."""

import pytest

from shared.engine.budget import Key, open_books
from shared.engine.threads import SILENCE_SECONDS, SILENT_MAX
from shared.model.errors import Throttled, Unavailable
from shared.model.pools import PoolStatus
from shared.settings import ClusterSettings
from tests.builders import CLUSTER, settings
from tests.engine.test_budget import FULL
from tests.engine.world import World, list_reasons


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
    world.gke.refusals = [FULL]
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
    full.on("create *", lambda: setattr(full.gke, "refusals", [FULL] * (len(full.gke.pools) > 39)), times=50)
    full.provisioner.work()
    assert (len(full.gke.pools), full.take_calls().count("list pools")) == (40, 2)


def test_the_ends_of_creates_share_a_list_and_the_end_of_what_changes_it_does_not() -> None:
    world = World(slices=3)
    first, second, third = world.buy(0, 1, 2)
    world.clock.time += 1
    world.provisioner.work()
    world.clock.time += 1
    world.take_calls()
    lists = []
    for pool, created in ((first, True), (second, True), (third, False)):
        world.provisioner.end(pool, created=created, problem="" if created else "a stockout")
        lists.append(world.take_calls().count("list pools"))
    assert lists == [0, 0, 1]


@pytest.mark.parametrize("created", [True, False])
def test_the_end_of_a_create_or_delete_goes_to_the_next_in_turn(created: bool) -> None:
    world = full_world()
    (first,) = world.gke.pools
    if created:
        world.come(first)
    else:
        del world.gke.pools[first]

    work = world.provisioner.end(first, created=created, deleted=not created)

    assert list_reasons(work) == ["pool_created"] * created + ["pool_absent"]
    assert work.outcomes[-1].subject == "JobSet default/third", "it has waited the longest"


def test_an_end_is_for_its_own_workload_first() -> None:
    world = full_world()
    (first,) = world.gke.pools
    world.change(first, status=PoolStatus.ERROR, error="GCE_STOCKOUT: no capacity")
    world.clock.time += 61  # with one way a pause comes first

    work = world.provisioner.end(first, problem="GCE_STOCKOUT: no capacity")

    assert list_reasons(work)[0] == "stockout"
    assert work.outcomes[-1].subject == "JobSet default/train"


def test_the_end_of_a_slow_create_is_left_to_deletions_until_the_next_tick() -> None:
    world = full_world()
    (first,) = world.gke.pools
    world.clock.time += 601
    world.come(first)

    assert list_reasons(world.provisioner.end(first, created=True)) == ["pool_created"]
    assert len(world.gke.pools) == 1
    world.provisioner.tick()
    assert len(world.gke.pools) == 2


def test_collect_looks_at_failed_creates_and_at_deletes_only() -> None:
    world = World()
    (name,) = world.run_all()
    world.take_calls()

    world.collector.end(name, created=True)
    assert not world.take_calls()
    world.collector.end(name, problem="it failed")
    assert f"get {name}" in world.take_calls()


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


def test_a_cluster_that_gave_no_answer_three_times_rests_and_is_asked_again() -> None:
    world = World()
    world.wait(0)

    world.fail("*", Unavailable("no answer"))
    for _ in range(SILENT_MAX + 1):
        world.provisioner.work()
    count = len(world.take_calls())
    world.provisioner.work()
    assert not world.take_calls(), count

    world.recover()
    for _ in range(4):  # although deliveries keep coming
        world.clock.time += SILENCE_SECONDS / 3
        world.provisioner.work()
        world.provisioner.tick()
    assert len(world.gke.pools) == 1


def test_an_error_leaves_the_key() -> None:
    world = World()
    world.wait(0)
    world.gke.refusals = [Throttled("Too many requests")]

    assert world.provisioner.work().errors
    assert world.provisioner.work().look is not None


def test_a_gang_that_cannot_use_a_free_slot_leaves_it_to_the_next() -> None:
    world = full_world()
    (first,) = world.gke.pools
    world.come(first)
    stuck = key("default", "stuck")
    world.set_jobset(name="stuck", replicas=1, terminal="Completed")
    world.ports.books[CLUSTER].wait(stuck, 0.0, begun=True)

    work = world.provisioner.end(first, created=True)

    assert list_reasons(work) == ["pool_created", "pool_absent"]
