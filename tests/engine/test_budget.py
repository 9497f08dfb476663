"""Limits, operation slots, refusals and deletions are counted in the process, before each call."""

import threading
from concurrent.futures import ThreadPoolExecutor
from math import inf

from msgspec import structs

from shared.capacity_texts import CapacityPolicy
from shared.engine.threads import Crew
from shared.model.errors import NoCapacity, Throttled
from shared.model.needs import Tier, Way
from tests.builders import CLUSTER
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


def test_a_refusal_gives_back_no_deletion_that_gke_accepted_before() -> None:
    world = World(deletions_per_minute_max=1)
    books, now = world.collector.ports.books[CLUSTER], world.clock.time
    assert books.take_deletion("first", now)  # GKE accepts it
    assert books.take_deletion("first", now + 2)  # and says of the same one that it is busy with it

    books.give_back_deletion("first", now + 2)

    assert not books.take_deletion("second", now + 3)
    assert books.take_deletion("second", now + 61)


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
