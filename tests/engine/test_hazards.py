"""What must not go wrong when reads, refusals and restarts cross: each was once wrong."""

import dataclasses
from typing import Any

import pytest

from shared.deliver import deliver
from shared.engine.budget import Sent
from shared.engine.reads import list_inventory
from shared.engine.reconcile import Role
from shared.engine.threads import SILENCE_SECONDS, SILENT_MAX
from shared.engine.tick import read_lists
from shared.engine.work import work_on
from shared.model.errors import Denied, KindAbsent, ProvisionerError, Unavailable
from shared.model.messages import EventType
from shared.model.pools import PoolStatus
from tests.builders import CLUSTER, JOBSET_UID
from tests.engine.test_budget import two
from tests.engine.test_deliveries import push
from tests.engine.test_kueue import gang
from tests.engine.world import World, list_reasons


def test_a_cluster_that_rests_is_asked_again_although_deliveries_keep_coming() -> None:
    world = World()
    world.wait(0)

    def fail(_call: str) -> None:
        raise Unavailable("no answer")

    world.gke.before = fail
    for _ in range(SILENT_MAX):
        world.provisioner.work()
    world.gke.before = lambda _call: None  # the cluster is back
    for _ in range(4):
        world.clock.time += SILENCE_SECONDS / 3
        world.provisioner.work()
        world.provisioner.tick()

    assert len(world.gke.pools) == 1


def test_a_pod_that_is_placed_after_its_list_was_read_keeps_its_pool() -> None:
    world = World()
    world.wait(0)
    world.provision()
    (name,) = world.gke.pools
    world.come(name)
    world.set_jobset(replicas=1, suspended=True, suspended_since=world.clock.time - 1000)
    reads: list[str] = []

    def bind(call: str) -> None:
        reads.append(call)
        if reads.count(f"list pods on {name}-0") == 2:  # the last read of the second look
            world.run(0, name)

    world.gke.before = bind
    world.collect()

    assert not world.list_deleted()
