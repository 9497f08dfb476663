"""Kueue has more workloads with quota than one sweep answers."""

import pytest

from shared.engine.steps import admit_workloads
from tests.builders import NOW, a_jobset
from tests.component.test_component_admission import Queued
from tests.component.world import Records


def test_of_more_than_one_sweep_answers_each_sweep_takes_others(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Queued(records)
    monkeypatch.setattr(admit_workloads, "QUEUED_MAX", 2)
    for number in range(9):
        owner = a_jobset(name=f"w{number}", uid=f"w{number}", replicas=1, suspended=True)
        world.cluster.add(owner)
        world.queues.reserve(owner, at=NOW)
    for _ in range(40):
        world.clock.advance(1)
        world.sweep()

    assert all(world.queues.state(name).message for name in world.queues.workloads)
