"""Provisioning under the operator's limits and stops, in an unwilling cluster, and in replay."""

from typing import Any

import pytest

from shared.core import labels
from shared.core.errors import Denied
from shared.core.kinds import jobset as jobset_keys
from shared.core.messages import Event
from tests.builders import CLUSTER, a_claim, a_demand_event, a_jobset, a_pod, a_pool
from tests.component.world import NAME, World

STOCKOUT = "Atomic resize failed with [GCE_STOCKOUT]"
BOTH = {jobset_keys.EXCLUSIVE_TOPOLOGY: labels.NODE_POOL, jobset_keys.NODE_SELECTOR_STRATEGY: "true"}


@pytest.mark.parametrize(
    ("mode", "value", "says"),
    [
        ("no-create", "false", ("refuse", "mode_no_create")),
        ("report-only", "false", ("refuse", "mode_report_only")),
        ("active", "false", ("create", "pool_absent")),
        ("active", "gpu", ("create", "pool_absent")),
        ("active", "true", ("nothing", "demand_opted_out")),
        ("active", "yes", ("refuse", "request_not_allowed")),
    ],
)
def test_a_quiet_mode_and_a_label_of_the_namespace_leave_its_pods_to_others(
    world: World, mode: Any, value: str, says: tuple[str, str]
) -> None:
    world.cluster.namespace_labels["default"] = {labels.MODE: mode, labels.DISABLE_AUTOPROVISIONING: value}
    world.deliver(a_demand_event())

    assert world.says() == says
    assert [method for method, _ in world.pools.calls if method != "list"] == ["create"] * (says[0] == "create")


def test_an_unknown_value_of_the_namespace_label_is_named_with_the_valid_ones(world: World) -> None:
    world.cluster.namespace_labels["default"] = {labels.DISABLE_AUTOPROVISIONING: "gpus"}
    world.deliver(a_demand_event())

    (on_job, on_pod) = world.cluster.notices
    assert on_job.message == on_pod.message
    assert f"{labels.DISABLE_AUTOPROVISIONING}=gpus of namespace default" in on_job.message
    assert "valid: true, gpu, false" in on_job.message


def test_with_a_limit_the_pools_are_counted_first(world: World) -> None:
    world.pools.add(CLUSTER, a_pool(name="other", claim=a_claim(slice_key="default/other-0")))
    world.use(limit_chips=16)
    world.deliver(a_demand_event())
    assert world.says() == ("refuse", "limit_reached")
    assert world.pools.calls == [("list", "")]

    world.use(limit_chips=32)
    world.deliver(a_demand_event())
    assert world.says() == ("create", "pool_absent")


def add_other(world: World) -> Event:
    """Add another workload of the namespace, whose slice needs as many chips."""
    pod = a_pod(jobset="serve", uid="of-serve")
    world.cluster.add(pod, a_jobset(name="serve"))
    return a_demand_event(pod)


ONE_SLICE: list[dict[str, Any]] = [{"limit_chips": 16}, {"limit_chips_per_namespace": 16}, {"limit_slices": 1}]


@pytest.mark.parametrize("limit", ONE_SLICE, ids=str)
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (STOCKOUT, "limit_reached"),
        ("Atomic resize failed with [QUOTA_EXCEEDED]", "limit_reached"),
        ("Required 'compute.instances.create'", "permission_denied"),
    ],
)
def test_a_failed_pool_without_machines_leaves_the_room_to_others(
    world: World, error: str, reason: str, limit: dict[str, Any]
) -> None:
    """It stays as the record of the failure, and its hold is still in the ledger."""
    world.use(**limit)
    world.deliver(a_demand_event())
    world.pools.fail(CLUSTER, NAME, error)
    world.deliver(add_other(world))
    assert world.says() == ("create", "pool_absent")

    world.clock.advance(90)
    world.deliver(a_demand_event())
    assert world.says() == ("refuse", reason)


def test_a_pinned_slice_s_pool_carries_label_and_taint(world: World) -> None:
    world.cluster.add(a_jobset(annotations=BOTH))
    world.deliver(a_demand_event())
    (body,) = world.pools.bodies

    assert body["config"]["labels"][jobset_keys.NAMESPACED_JOB] == "default_train-workers-0"
    assert jobset_keys.NO_SCHEDULE_TAINT in str(body["config"]["taints"])


def test_an_explanation_that_cannot_be_written_undoes_nothing(world: World) -> None:
    for _ in range(2):
        world.cluster.fail_next("write_notice", Denied("events is forbidden"))

    assert world.deliver(a_demand_event()).status == 200
    assert world.expect_one_pool() == NAME
    world.records.expect_in_order(
        {"severity": "WARNING", "object": "JobSet default/train", "error": "events is forbidden"},
        {"severity": "WARNING", "object": "Pod default/train-workers-0-0-abcde"},
        {"decision": "create"},
    )


@pytest.mark.parametrize("limit", ONE_SLICE, ids=str)
@pytest.mark.parametrize(
    ("error", "overrides"),
    [
        ("[INTERNAL_ERROR]", {}),
        ("", {}),
        ("Expected 4, running 3, transitioning 1. Current errors: [GCE_STOCKOUT]", {}),
        (STOCKOUT, {"gpus_per_node": 4}),
    ],
    ids=["an error inside of GKE", "no words", "three hosts run", "GPUs, which GKE makes one by one"],
)
def test_a_failed_pool_that_may_have_machines_counts_in_full(
    world: World, error: str, overrides: dict[str, Any], limit: dict[str, Any]
) -> None:
    world.use(**limit)
    world.pools.add(CLUSTER, a_pool("ERROR", error=error, **overrides))
    world.deliver(add_other(world))

    assert world.says() == ("refuse", "limit_reached")
