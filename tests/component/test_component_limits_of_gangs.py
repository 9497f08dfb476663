"""A gang reserves under a limit as a whole: of two that ask, one gets all and the other nothing."""

import dataclasses
from collections import Counter
from collections.abc import Callable

import pytest

from shared.core.messages import EventType, Observed
from shared.deliver import deliver
from tests.builders import CLUSTER, NOW, a_jobset, a_push, an_over_event
from tests.component.crowd import CHIPS, Crowd
from tests.component.fake_queues import FakeQueues

SLICES = 4


class Gangs(Crowd):
    """Suspended JobSets of four slices each, with quota of Kueue, and a limit of some slices."""

    def __init__(self, seed: int, *, gangs: int = 2, slices_max: int = SLICES) -> None:
        super().__init__(seed, limit_chips=slices_max * CHIPS, kueue_admission_check=True)
        self.cluster.empty()
        self.queues = FakeQueues(self.cluster)
        self.world.ports = dataclasses.replace(self.world.ports, queues={CLUSTER: self.queues})
        for number in range(gangs):
            self.add_gang(f"gang-{number}")

    def add_gang(self, name: str, *, at: float = NOW) -> None:
        found = a_jobset(name=name, uid=f"uid-{name}", replicas=SLICES, suspended=True)
        self.cluster.add(dataclasses.replace(found, suspended_since=NOW - 3600))
        self.queues.reserve(found, at=at)


def message(crowd: Crowd, name: str) -> Callable[[], object]:
    event = an_over_event(Observed.QUOTA_RESERVED, type=EventType.DEMAND, name=name, uid=f"uid-{name}")
    return lambda: deliver("provision", a_push(event), crowd.world.ports)


def count(crowd: Crowd) -> dict[str, int]:
    """Return how many pools each workload has."""
    return dict(Counter(pool.owner.name for pool in crowd.pools.pools.values() if pool.owner))


@pytest.mark.parametrize("seed", range(12))
def test_two_gangs_that_ask_at_once_do_not_split_the_limit(seed: int) -> None:
    crowd = Gangs(seed)
    crowd.turns.run([message(crowd, "gang-0"), message(crowd, "gang-1")])

    assert list(count(crowd).values()) == [SLICES]


def test_the_gang_that_got_its_quota_first_gets_the_room() -> None:
    crowd = Gangs(0, gangs=0)
    for name, at in (("gang-a", NOW - 60), ("gang-b", NOW - 90), ("gang-c", NOW - 90)):
        crowd.add_gang(name, at=at)
    crowd.world.sweep()

    assert count(crowd) == {"gang-b": SLICES}
