"""Faults that the simulator has shown with pools that GKE's autoscaler fills."""

from dataclasses import replace
from unittest.mock import Mock

import pytest

from shared.capacity_lists import read_policies
from shared.core import labels
from shared.core.errors import Throttled, Unavailable
from shared.core.identity.names import build_owner_labels
from shared.engine.places import REMEMBERED_SECONDS, Places
from tests.builders import CLUSTER, NOW, a_claim, a_pod, a_pool
from tests.component.empty_pools import POLICY, begin, begin_refused, status
from tests.component.looks import by_message, by_sweep
from tests.component.world import World, name_of


@pytest.fixture(autouse=True)
def _listed(world: World) -> None:
    world.use(capacity_policies=read_policies(POLICY))
    world.cluster.add(a_pod(unschedulable_since=NOW - 20))


def test_a_limit_that_refuses_the_next_way_keeps_the_empty_pool(world: World) -> None:
    """Seed 305 of the simulator: it was deleted, and the list began with the same way again."""
    begin_refused(world)
    other = build_owner_labels(replace(a_claim(), name="other"), attempt=0, created_at=0, fingerprint="")
    world.pools.add(CLUSTER, replace(world.pools.pools[CLUSTER, name_of(0)], name="other", labels=other))
    world.use(capacity_policies=read_policies(POLICY), limit_chips=16)
    by_sweep(world)

    assert status(world, 0) == "RUNNING"
    assert "limit_chips" in str(world.cluster.notices)


FULL = "hits the concurrent operations quota 4"


@pytest.mark.parametrize(
    ("refusal", "under_way", "seconds", "mode"),
    [
        pytest.param(FULL, 3, REMEMBERED_SECONDS + 1, "", id="its deletion takes the last place"),
        pytest.param("too many requests", 0, 1, "", id="another create was refused a moment ago"),
        pytest.param("", 0, 0, "no-create", id="an operator stops creates"),
    ],
)
def test_the_record_of_a_failure_stays_where_no_create_may_follow(
    world: World, refusal: str, under_way: int, seconds: float, mode: str
) -> None:
    """The list would begin anew without a pause (seed 8733873 with five operations at one time)."""
    begin_refused(world)
    places, refuse = Places(), Mock(side_effect=Throttled(refusal))
    if refusal:
        with pytest.raises(Throttled):
            places.send(refuse, CLUSTER, "other", [], now=world.clock.now() - seconds)
    world.pools.add(CLUSTER, *(a_pool("PROVISIONING", name=f"other-{at}") for at in range(under_way)))
    world.cluster.namespace_labels["tpu-provisioner"] = {labels.MODE: mode}
    world.ports = replace(world.ports, places=places)
    world.sweep()

    assert status(world, 0) == "RUNNING"
    assert len(world.pools.bodies) == 1


def test_nodes_that_could_not_be_read_do_not_serve(world: World) -> None:
    """Seed 1156 of the simulator: an Event said that an empty pool serves."""
    begin(world, seconds=30)
    world.cluster.fail_next("list_pool_nodes", Unavailable("lost"))
    by_message(world)

    world.records.expect_in_order({"decision": "wait", "reason": "pool_in_progress", "pool": name_of(0)})
    assert "pool_serves" not in str(world.cluster.notices)
