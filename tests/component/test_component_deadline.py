"""A delivery ends in time and loses nothing: what is left comes back.

The time is virtual, so nothing waits.
"""

import pytest

from shared.core.errors import Throttled
from shared.core.settings import ClusterSettings
from tests.builders import CLUSTER, NOW, a_jobset, a_pod, a_pool, an_over_event, settings
from tests.component.plans import Plans
from tests.component.world import Records, World

WORK_SECONDS = 25.0
"""Of a function with a time-out of 60 s: no call begins in the last 35."""


@pytest.fixture
def many(world: World) -> World:
    """A workload of 40 slices that has completed, each slice with its pool."""
    world.add_pools(40)
    world.cluster.add(a_jobset(replicas=40, terminal="Completed", terminal_since=NOW))
    return world


def slow_down(world: World, port: Plans, seconds: float) -> list[float]:
    """Let each call take its time; return the list of the moments at which calls began."""
    began, plain = list[float](), port.begin

    def begin(method: str) -> None:
        began.append(world.clock.now())
        world.clock.advance(seconds)
        plain(method)

    port.begin = begin  # type: ignore[method-assign]
    return began


def count_left(world: World) -> int:
    return sum(pool.status == "RUNNING" for pool in world.pools.pools.values())


def test_a_delivery_that_takes_too_long_loses_nothing_and_the_next_ones_finish_it(many: World) -> None:
    began = [slow_down(many, port, 0.7) for port in (many.pools, many.cluster)]
    left, answers = [count_left(many)], list[int]()
    while left[-1] and len(answers) < 20:
        started = many.clock.now()
        answers.append(many.collect(an_over_event()).status)
        left.append(count_left(many))
        assert all(moment < started + WORK_SECONDS for moments in began for moment in moments)

    assert set(answers) == {503}
    assert left == sorted(set(left), reverse=True)  # each delivery deletes some
    many.pools.pools.clear()  # GKE has deleted them
    assert many.collect(an_over_event()).status == 200
    assert next(each["reason"] for each in many.records.found if "reason" in each) == "out_of_time"


def test_a_pause_that_gke_advises_is_kept_or_left_to_pubsub(many: World) -> None:
    many.pools.fail_next("delete", Throttled("429", retry_after_seconds=9))
    assert many.collect(an_over_event()).status == 200
    assert many.clock.now() == NOW + 9

    many.pools.pools.update({key: a_pool(name=key[1]) for key in list(many.pools.pools)[:1]})
    many.pools.fail_next("delete", Throttled("429", retry_after_seconds=60))
    answer = many.collect(an_over_event())
    assert (answer.status, answer.retry_after_seconds) == (503, 60)


@pytest.mark.parametrize(("clusters", "share"), [(8, WORK_SECONDS), (9, WORK_SECONDS / 2), (17, WORK_SECONDS / 3)])
def test_with_more_clusters_than_run_side_by_side_each_has_its_share_of_the_time(
    records: Records, clusters: int, share: float
) -> None:
    names = (CLUSTER, *(f"projects/p/locations/us-east5/clusters/c{number}" for number in range(1, clusters)))
    world = World(records, clusters=names)
    home = ClusterSettings(endpoint="http://127.0.0.1:9", zone="us-east5-b")
    world.use(clusters=settings().clusters | dict.fromkeys(names[1:], home), timeout_seconds=60)
    world.cluster.add(*(a_pod(jobset=f"job-{number}", uid=f"uid-{number}") for number in range(40)))
    for name in names[1:]:
        world.clusters[name].add(a_pod(), a_jobset())
    began = slow_down(world, world.cluster, 1.0)

    status, counts = world.sweep()

    assert status == 503
    assert share - 2 < began[-1] - NOW < share
    assert counts["left"] > 0
    served = [name for name in names[1:] if world.pools.names(name)]
    assert len(served) == (0 if clusters == 8 else clusters - 1)
