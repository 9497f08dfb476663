"""What we refuse ourselves ends no round, and gives no quota back to Kueue."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from shared.core import labels
from shared.core.errors import NoCapacity, Unavailable
from tests.builders import CLUSTER, NOW, settings
from tests.component.fake_queues import run
from tests.component.test_component_admission import Queued
from tests.component.world import Records


def lose_second(world: Queued) -> None:
    """Let the first of the two pools run, and the second one be gone without a trace."""
    world.sweep()
    first, second = world.pools.names(CLUSTER)
    run(world, first)
    world.pools.move(CLUSTER, second, "gone")
    world.pools.creations.clear()


def use(world: Queued, **overrides: Any) -> None:
    world.ports = dataclasses.replace(world.ports, settings=settings(kueue_admission_check=True, **overrides))


def by_label(world: Queued) -> None:
    world.cluster.namespace_labels["tpu-provisioner"] = {labels.MODE: "no-create"}


def by_namespace(world: Queued) -> None:
    world.cluster.namespace_labels["default"] = {labels.DISABLE_AUTOPROVISIONING: "true"}


def by_errors_of_gke(world: Queued) -> None:
    world.pools.fail_next("create", Unavailable("503"))


@pytest.mark.parametrize(
    "refuse",
    [
        lambda world: use(world, limit_slices=1),
        lambda world: use(world, limit_chips=16),
        lambda world: use(world, allowed_accelerators=("nvidia-l4",)),
        lambda world: use(world, kinds=("Job",)),
        by_label,
        by_namespace,
        by_errors_of_gke,
    ],
    ids=["slices", "chips", "accelerators", "kinds", "label", "namespace", "errors of GKE"],
)
def test_what_we_refuse_ourselves_takes_no_quota_and_no_pools_back(
    records: Records, refuse: Callable[[Queued], None]
) -> None:
    world = Queued(records)
    lose_second(world)
    for _ in range(4):
        refuse(world)
        world.clock.advance(900)
        world.sweep()

    assert world.state.state == "Pending"
    assert (world.statuses(), world.pools.count("create")) == (["RUNNING"], 2 + 4 * (refuse is by_errors_of_gke))
    use(world)
    world.cluster.namespace_labels |= {"default": {}, "tpu-provisioner": {}}
    world.sweep()
    assert world.pools.count("create") == 3 + 4 * (refuse is by_errors_of_gke)


def test_a_round_ends_in_time_if_gke_refuses_a_slice_at_once(records: Records) -> None:
    world = Queued(records)
    lose_second(world)
    world.clock.advance(1799)
    world.pools.fail_next("create", NoCapacity("Insufficient quota"))
    world.sweep()
    assert world.state.state == "Retry"


@pytest.mark.parametrize(("error", "state"), [("internal error", "Pending"), ("GCE_STOCKOUT", "Retry")])
def test_only_a_lack_of_capacity_gives_the_quota_back_before_the_time_is_over(
    records: Records, error: str, state: str
) -> None:
    world = Queued(records)
    world.sweep()
    world.pools.fail(CLUSTER, world.pools.names(CLUSTER)[0], error, ended_at=NOW)
    world.sweep()
    assert world.state.state == state
