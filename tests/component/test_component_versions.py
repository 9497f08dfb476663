"""Two versions at once: an upgrade, a rollback, and both side by side make no pool anew."""

import dataclasses

import pytest

from shared.core import labels
from shared.core.demand import demand as demands
from tests.builders import CLUSTER, a_demand, a_demand_event, a_jobset, a_pod, an_over_event
from tests.component.world import World

ROUNDS = 12
OWN = "1-hjla2exd5cfk3"
"""The fingerprint of the plain case."""
VERSIONS = ("1", "2", "1", "3")
"""Of the deciders, in turn. This one has version 1."""


def test_the_plain_case_has_its_fingerprint() -> None:
    assert a_demand().fingerprint == OWN


@pytest.mark.parametrize("made_by", ["1", "2"])
@pytest.mark.parametrize("replace", [False, True])
def test_versions_in_turn_create_each_pool_once_and_delete_none(
    world: World, monkeypatch: pytest.MonkeyPatch, made_by: str, *, replace: bool
) -> None:
    world.use(replace_differing_pools=replace)
    world.cluster.add(a_pod(index=1, uid="of-slice-1"), a_jobset())
    monkeypatch.setattr(demands, "FINGERPRINT_VERSION", made_by)
    world.sweep()
    for name in world.pools.names(CLUSTER):
        world.pools.move(CLUSTER, name, "RUNNING")

    for number in range(ROUNDS):
        monkeypatch.setattr(demands, "FINGERPRINT_VERSION", VERSIONS[number % len(VERSIONS)])
        world.deliver(a_demand_event())
        world.collect(an_over_event("scaled"))
        world.sweep()
        world.clock.advance(60)

    assert (len(world.pools.bodies), world.pools.count("delete")) == (2, 0)


@pytest.mark.parametrize("written", [OWN, "", "2-aaaaaaaaaaaaa", "unknown"])
def test_a_pool_of_another_version_is_kept_after_an_upgrade_and_a_rollback(world: World, written: str) -> None:
    world.use(replace_differing_pools=True)
    world.deliver(a_demand_event())
    name = world.expect_one_pool()
    world.pools.move(CLUSTER, name, "RUNNING")
    pool = world.pools.pools[CLUSTER, name]
    world.pools.add(CLUSTER, dataclasses.replace(pool, labels=pool.labels | {labels.FINGERPRINT: written}))

    for _ in range(ROUNDS):
        world.deliver(a_demand_event())
        world.sweep()
        world.clock.advance(60)

    assert (len(world.pools.bodies), world.pools.count("delete")) == (1, 0)
