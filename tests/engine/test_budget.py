"""Limits, operation slots, refusals and deletions are counted in the process, before each call."""

import threading
from concurrent.futures import ThreadPoolExecutor
from math import inf

import msgspec
import pytest
from msgspec import structs

from shared.capacity_texts import CapacityPolicy
from shared.engine.threads import Crew
from shared.model.errors import Busy, InvalidRequest, NoCapacity, Throttled, Unavailable
from shared.model.needs import Tier, Way
from shared.model.pools import Operation
from tests.builders import CLUSTER, JOBSET_UID
from tests.engine.world import World, list_reasons

QUOTA = NoCapacity("Insufficient regional quota to satisfy request")
FULL = Throttled("Operation was rejected: it hits the concurrent operations quota 1 (HTTP 429)")
ZONES = ("us-east5-b", "us-east5-a")
LIST = (CapacityPolicy(ways=tuple(Way(Tier.ON_DEMAND, zone) for zone in ZONES)),)


def two(**options: object) -> World:
    """Two JobSets of one slice each that wait."""
    world = World(**options)  # type: ignore[arg-type]
    world.add("train", "second")
    return world


def test_what_was_sent_counts_before_any_list_shows_it() -> None:
    world = two(limit_chips=16)
    world.provisioner.work()
    world.gke.hidden = set(world.gke.pools)

    work = world.provisioner.work("second")

    assert list_reasons(work) == ["limit_reached"]
    world.clock.time += 1201
    assert list_reasons(world.provisioner.work("second")) == ["pool_absent"], "after 20 minutes it counts no more"


@pytest.mark.parametrize(
    ("refusal", "second"),
    [
        (Busy("Cluster is running incompatible operation"), "pool_absent"),
        (Unavailable("no answer"), "limit_reached"),
    ],
)
def test_a_create_that_gke_refused_counts_no_more_and_one_without_an_answer_as_sent(
    refusal: Exception, second: str
) -> None:
    world = two(limit_chips=16)
    world.gke.refusals = [refusal]
    assert world.provisioner.work().errors

    assert list_reasons(world.provisioner.work("second")) == [second]


@pytest.mark.parametrize("limit", [0, 64])
def test_a_process_with_a_limit_counts_what_ran_before_it_began(limit: int) -> None:
    world = two(limit_chips=limit)
    world.provisioner.work()
    (name,) = world.gke.pools
    world.gke.hidden = {name}
    running = Operation(pool=name, creates=True, ended=False, began_at=world.clock.time)
    world.gke.operations = [running]
    world.restart()

    told = list_reasons(world.provisioner.work("second"))
    assert told == (["limit_reached"] if limit else ["pool_absent"])
    if limit:
        world.gke.hidden.clear()
        world.clock.time += 3
        assert list_reasons(world.provisioner.work("second")) == ["pool_absent"]


def test_the_limit_of_a_namespace_is_its_own() -> None:
    world = two(limit_chips_per_namespace=16)
    world.provisioner.work()

    assert list_reasons(world.provisioner.work("second")) == ["limit_reached"]


def test_a_number_with_a_429_bounds_the_creates_under_way() -> None:
    world = two()
    world.add("third")
    world.gke.refusals = [FULL]
    first = world.provisioner.work()
    assert (list_reasons(first), len(world.gke.pools)) == (["no_operation_slot"], 0)

    assert list_reasons(world.provisioner.work("second")) == ["pool_absent"]
    assert list_reasons(world.provisioner.work("third")) == ["no_operation_slot"], "one runs already"


def test_a_429_without_a_number_lets_the_cluster_rest_for_a_minute() -> None:
    world = two()
    world.gke.refusals = [Throttled("Too many requests")]
    world.provisioner.work()

    assert list_reasons(world.provisioner.work("second")) == ["no_operation_slot"]
    world.clock.time += 61
    assert list_reasons(world.provisioner.work("second")) == ["pool_absent"]


def test_after_a_refusal_at_once_the_next_way_is_sent_under_the_same_name() -> None:
    world = two(capacity_policies=LIST)
    world.gke.refusals = [QUOTA]

    work = world.provisioner.work()

    creates = [call for call in world.take_calls() if call.startswith("create ")]
    assert list_reasons(work) == ["quota_exceeded", "pool_absent"]
    assert len(creates) == 2
    assert len(set(creates)) == 1
    (pool,) = world.gke.pools.values()
    assert pool.zones == ("us-east5-a",)


def test_one_refusal_answers_all_needs_of_its_kind_and_the_pause_doubles() -> None:
    world = two()
    world.gke.refusals = [QUOTA]
    assert list_reasons(world.provisioner.work()) == ["quota_exceeded", "paused"]
    world.take_calls()

    second = world.provisioner.work("second")
    assert list_reasons(second) == ["paused"]
    assert "Insufficient regional quota" in second.outcomes[0].decision.message
    assert not [call for call in world.take_calls() if call.startswith("create ")]

    world.clock.time += 61
    world.gke.refusals = [QUOTA]
    world.provisioner.work("second")
    world.clock.time += 61
    assert list_reasons(world.provisioner.work()) == ["paused"], "now it is two minutes"
    world.clock.time += 60
    assert list_reasons(world.provisioner.work()) == ["pool_absent"]


def test_a_request_that_gke_does_not_accept_is_told_with_its_words() -> None:
    world = two()
    world.gke.refusals = [InvalidRequest("Invalid value for field X")]
    assert "Invalid value for field X" in world.provisioner.work().outcomes[0].decision.message


def orphans(count: int, **options: object) -> World:
    """Pools of JobSets that are gone."""
    world = World(**options)  # type: ignore[arg-type]
    for number in range(count):
        world.add(f"gone-{number}")
        world.provisioner.work(f"gone-{number}")
        world.come(list(world.gke.pools)[-1])
        world.clock.time += 2
    world.cluster.workloads.clear()
    world.cluster.pods.clear()
    return world


def test_absent_owners_lose_so_many_pools_a_minute_the_oldest_first() -> None:
    world = orphans(3, deletions_per_minute_max=2)
    names = list(world.gke.pools)

    done = world.collector.tick()

    assert world.list_deleted() == names[:2]
    assert sorted(list_reasons(done)) == ["deletions_over_cap", "owner_gone", "owner_gone"]
    world.clock.time += 61
    world.collector.tick()
    assert world.list_deleted() == names


def test_only_deletions_that_gke_accepted_are_counted() -> None:
    world = orphans(2, deletions_per_minute_max=1)
    world.gke.delete_refusals = [Busy("Cluster is running incompatible operation")]

    world.collector.tick()

    assert world.list_deleted() == list(world.gke.pools)[1:]


def test_a_refusal_gives_back_no_deletion_that_gke_accepted_before() -> None:
    world = World(deletions_per_minute_max=1)
    books, now = world.collector.ports.books[CLUSTER], world.clock.time
    assert books.take_deletion("first", now)  # GKE accepts it
    assert books.take_deletion("first", now + 2)  # and says of the same one that it is busy with it

    books.give_back_deletion("first", now + 2)

    assert not books.take_deletion("second", now + 3)
    assert books.take_deletion("second", now + 61)


def test_what_an_owner_says_itself_is_not_limited() -> None:
    world = World(slices=3, deletions_per_minute_max=1)
    world.run_all(slices=3)
    world.finish(replicas=3)

    world.collector.work(uid=JOBSET_UID)

    assert len(world.list_deleted()) == 3


def test_a_limit_that_is_passed_is_reported_once_and_nothing_is_deleted_for_it() -> None:
    world = World(slices=2)
    world.run_all(slices=2)
    limited = msgspec.structs.replace(world.provisioner.ports.settings, limit_chips=16)
    world.provisioner.ports = structs.replace(world.provisioner.ports, settings=limited)

    first, second = world.provisioner.tick(), world.provisioner.tick()

    assert (list_reasons(first), list_reasons(second)) == (["limit_passed"], [])
    assert first.outcomes[0].subject == f"cluster {CLUSTER}"
    world.collector.tick()
    world.collector.tick()
    assert not world.list_deleted()


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
