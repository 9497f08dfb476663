"""A gang reserves under a limit as a whole: of two that ask, one gets all and the other nothing."""

import dataclasses
import threading
from collections import Counter
from collections.abc import Callable

import pytest

from shared.core import labels
from shared.core.decide.capacity_first import write_round
from shared.core.errors import Denied, InvalidRequest, NoCapacity, ProvisionerError, Throttled
from shared.core.messages import EventType, Observed
from shared.core.workloads import WorkloadView
from shared.deliver import deliver
from shared.edges.threads import Threads
from tests.builders import CLUSTER, NOW, a_jobset, a_push, an_over_event
from tests.component.crowd import CHIPS, Crowd
from tests.component.fake_queues import FakeQueues

ASKS = {labels.CAPACITY_FIRST: "true"}
SLICES = 4


def make_crowd(
    seed: int, *, gangs: int = 2, slices_max: int = SLICES, marks: dict[str, str] | None = None
) -> Crowd:
    """Return a crowd of suspended JobSets of four slices each, and a limit of some slices."""
    crowd = Crowd(seed, limit_chips=slices_max * CHIPS, capacity_first=True)
    crowd.cluster.empty()
    for number in range(gangs):
        add(crowd, f"gang-{number}", **(marks or ASKS))
    return crowd


def add(crowd: Crowd, name: str, **marks: str) -> WorkloadView:
    found = a_jobset(name=name, uid=f"uid-{name}", replicas=SLICES, suspended=True, marks=marks, version="1")
    found = dataclasses.replace(found, suspended_since=NOW - 3600)
    crowd.cluster.add(found)
    return found


def message(crowd: Crowd, name: str) -> Callable[[], object]:
    event = an_over_event(Observed.CAPACITY_FIRST, type=EventType.DEMAND, name=name, uid=f"uid-{name}")
    return lambda: deliver("provision", a_push(event), crowd.world.ports)


def count(crowd: Crowd) -> dict[str, int]:
    """Return how many pools each workload has."""
    return dict(Counter(pool.owner.name for pool in crowd.pools.pools.values() if pool.owner))


@pytest.mark.parametrize("seed", range(12))
def test_two_gangs_that_ask_at_once_do_not_split_the_limit(seed: int) -> None:
    crowd = make_crowd(seed)
    crowd.turns.run([message(crowd, "gang-0"), message(crowd, "gang-1")])

    assert list(count(crowd).values()) == [SLICES]


@pytest.mark.parametrize("seed", range(8))
def test_of_five_gangs_and_two_sweeps_at_once_two_get_all_and_three_nothing(seed: int) -> None:
    crowd = make_crowd(seed, gangs=5, slices_max=2 * SLICES + 3)
    sends = [message(crowd, f"gang-{number}") for number in range(5)]
    crowd.turns.run([*sends, crowd.world.sweep, crowd.world.sweep])

    assert list(count(crowd).values()) == [SLICES, SLICES]


def test_gangs_of_one_sweep_side_by_side_do_not_split_the_limit() -> None:
    crowd = make_crowd(0, gangs=6, slices_max=2 * SLICES + 3)
    pause, plain = threading.Event(), crowd.pools.list
    crowd.pools.list = lambda cluster: (plain(cluster), pause.wait(0.001))[0]  # type: ignore[method-assign]
    crowd.world.sweep(threads=Threads(crowd.world.clock))

    assert list(count(crowd).values()) == [SLICES, SLICES]


def test_the_gang_whose_round_began_first_gets_the_room() -> None:
    crowd = make_crowd(0, gangs=1)
    for name, begins_at in (("gang-b", NOW - 60), ("gang-c", NOW - 120), ("gang-d", NOW - 60)):
        begun = {key: value for key, value in write_round(0, begins_at).items() if value}
        add(crowd, name, **ASKS, **begun)
    crowd.world.sweep()

    assert count(crowd) == {"gang-c": SLICES}


def test_the_gang_that_got_its_quota_first_gets_the_room() -> None:
    crowd = make_crowd(0, gangs=0)
    crowd.world.use(limit_chips=SLICES * CHIPS, kueue_admission_check=True)
    queues = FakeQueues(crowd.cluster)
    for name, at in (("gang-a", NOW - 60), ("gang-b", NOW - 90), ("gang-c", NOW - 90)):
        queues.reserve(add(crowd, name), at=at)
    crowd.world.ports = dataclasses.replace(crowd.world.ports, queues={CLUSTER: queues})
    crowd.world.sweep()

    assert count(crowd) == {"gang-b": SLICES}


def test_a_gang_is_not_another_process_for_its_own_slices() -> None:
    crowd = make_crowd(0, gangs=1)
    message(crowd, "gang-0")()
    entries = crowd.cluster.ledgers["tpu-provisioner"].entries

    assert [each.again for each in entries.values()] == [False] * SLICES


@pytest.mark.parametrize("error", [NoCapacity("quota"), InvalidRequest("no"), Denied("no")])
def test_what_gke_refuses_to_a_gang_is_given_back(error: ProvisionerError) -> None:
    crowd = make_crowd(0, gangs=1)
    for _ in range(SLICES):
        crowd.pools.fail_next("create", error)
    message(crowd, "gang-0")()
    assert count(crowd) == {}
    add(crowd, "gang-1", **ASKS)
    message(crowd, "gang-1")()

    assert count(crowd) == {"gang-1": SLICES}


def test_a_gang_keeps_the_room_of_a_slice_that_gke_asks_to_submit_later() -> None:
    crowd = make_crowd(0, gangs=1, slices_max=2 * SLICES - 1)
    crowd.pools.fail_next("create", Throttled("429"))
    add(crowd, "gang-1", **ASKS)

    for asking, made in (("gang-0", SLICES - 1), ("gang-1", SLICES - 1), ("gang-0", SLICES)):
        message(crowd, asking)()
        assert count(crowd) == {"gang-0": made}
