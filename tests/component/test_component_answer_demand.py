"""A delivered demand leads to the right calls, the right answer, and words on the job."""

from typing import Any

import pytest

from shared.core.errors import (
    Broken,
    ClusterNotFound,
    Denied,
    InvalidRequest,
    NoCapacity,
    NotFound,
    Throttled,
    Unavailable,
)
from shared.core.identity.pools import PoolSnapshot
from shared.core.workloads import PodView
from tests.builders import CLUSTER, JOBSET_UID, a_demand_event, a_foreign_pool, a_jobset, a_pod, a_pool
from tests.component.world import NAME, World

STARTED = [("JobSet", "NodePoolCreationStarted", False), ("Pod", "NodePoolCreationStarted", False)]
REFUSED = [("JobSet", "NodePoolRefused", True), ("Pod", "NodePoolRefused", True)]
OF_ANOTHER_SHAPE, REPLACES = a_pool(fingerprint="1-other"), {"replace_differing_pools": True}


def test_a_pool_has_upgrades_off_where_gke_says_that_no_channel_upgrades_the_cluster(world: World) -> None:
    world.pools.without_channel.add(CLUSTER)
    world.deliver(a_demand_event())

    (body,) = world.pools.bodies
    assert body["management"]["autoUpgrade"] is False
    assert "maintenancePolicy" not in body


def test_a_demand_becomes_one_pool_by_one_list_and_one_create(world: World) -> None:
    """What is logged of it is what operators rely on."""
    event = a_demand_event()

    assert world.deliver(event).status == 200
    assert world.pools.calls == [("list", ""), ("create", NAME)]
    assert world.expect_one_pool() == NAME
    assert world.notices() == STARTED
    (record,) = world.records.expect_in_order({"severity": "NOTICE", "decision": "create"})
    known = ("time", "service", "version", "logger", "message", "subject", "zone")
    stamps = {key: record.pop(key) for key in known}
    assert stamps["message"] == f"creating 4 x ct6e-standard-4t, 4x4, on-demand: node pool {NAME}"
    assert stamps["subject"] == "Pod default/train-workers-0-0-abcde"
    assert record == {
        "severity": "NOTICE",
        "function": "provision",
        "event_id": event.id,
        "event_type": "tpuprovisioner.demand.v1",
        "message_id": "1001",
        "delivery_attempt": 1,
        "decision": "create",
        "reason": "pool_absent",
        "pool": NAME,
        "cluster": CLUSTER,
        "claim": {
            "cluster": CLUSTER,
            "kind": "JobSet",
            "namespace": "default",
            "name": "train",
            "owner_uid": JOBSET_UID,
            "slice": "train-workers-0",
        },
        "tier": "on-demand",
        "accelerator": "tpu-v6e-slice",
        "chips": 16,
        "labels": {},
        "elastic": False,
        "machine_type": "ct6e-standard-4t",
        "node_count": 4,
        "topology": "4x4",
        "placement": "COMPACT 4x4",
        "reservation": "",
        "attempt": 0,
    }


@pytest.mark.parametrize(
    ("pool", "overrides", "used", "says"),
    [
        pytest.param(a_pool("ERROR"), {}, True, ("keep", "pool_degraded"), id="its chips are in use"),
        pytest.param(a_foreign_pool(NAME), {}, False, ("refuse", "foreign_labels"), id="of others"),
        pytest.param(OF_ANOTHER_SHAPE, {}, False, ("refuse", "pool_differs"), id="of another shape"),
        pytest.param(OF_ANOTHER_SHAPE, REPLACES, False, ("delete", "pool_differs"), id="replaced as set"),
    ],
)
def test_a_pool_of_the_name_that_does_not_serve_is_left_alone_or_replaced_as_set(
    world: World, pool: PoolSnapshot, overrides: dict[str, Any], used: bool, says: tuple[str, str]
) -> None:
    world.use(**overrides)
    world.pools.add(CLUSTER, pool)
    if used:
        world.cluster.bind(NAME, workload="other")

    assert world.deliver(a_demand_event()).status == 200
    assert world.says() == says
    assert world.pools.count("delete") == (says[0] == "delete")
    refusals = [each for each in world.notices() if each[1] == "NodePoolRefused"]
    assert refusals == (REFUSED if says[0] == "refuse" else [])


@pytest.mark.parametrize(
    ("error", "status", "severity", "says", "told"),
    [
        (NoCapacity("quota"), 200, "WARNING", ("refuse", "quota_exceeded"), "NodePoolCreationFailed"),
        (InvalidRequest("size"), 200, "WARNING", ("refuse", "request_invalid"), "NodePoolCreationFailed"),
        (Denied("right"), 500, "CRITICAL", ("none", "permission_denied"), "NodePoolRefused"),
        (ClusterNotFound("cluster"), 500, "CRITICAL", ("none", "cluster_not_found"), None),
        (Broken("a bug"), 500, "CRITICAL", ("none", "internal_error"), None),
        (Unavailable("503"), 503, "WARNING", ("none", "unavailable"), None),
        (Throttled("429"), 503, "WARNING", ("none", "throttled"), "NodePoolPending"),
        (NotFound("404"), 503, "ERROR", ("none", "view_stale"), None),
    ],
    ids=["no quota", "no such size", "no right", "no such cluster", "a bug", "503", "429", "404"],
)
def test_an_error_of_a_create_is_answered_by_the_table_and_told_if_it_lasts(
    world: World, error: Exception, status: int, severity: str, says: tuple[str, str], told: str | None
) -> None:
    world.pools.fail_next("create", error)

    assert world.deliver(a_demand_event()).status == status
    assert (world.says(), world.last["severity"]) == (says, severity)
    warning = told != "NodePoolPending"
    assert world.notices() == ([("JobSet", told, warning), ("Pod", told, warning)] if told else [])
    assert all(str(error) in each.message and f"[{says[1]}]" in each.message for each in world.cluster.notices)


def test_an_advised_pause_is_passed_on(world: World) -> None:
    world.pools.fail_next("create", Throttled("429", retry_after_seconds=30))

    assert world.deliver(a_demand_event()).retry_after_seconds == 30


@pytest.mark.parametrize(
    ("pods", "reason"),
    [
        ([a_pod(uid="another")], "demand_gone"),
        ([a_pod(node_name="n")], "demand_scheduled"),
        ([a_pod(nominated_node="n")], "demand_nominated"),
        ([a_pod(gates=("example.com/hold",))], "demand_not_unschedulable"),
        ([], "demand_gone"),
    ],
)
def test_a_pod_that_is_no_demand_any_more_costs_no_call(world: World, pods: list[PodView], reason: str) -> None:
    world.cluster.pods.clear()
    world.cluster.add(*pods)
    assert world.deliver(a_demand_event()).status == 200
    assert world.says() == ("nothing", reason)
    assert world.pools.calls == []
    assert world.notices() == []


def test_a_pod_whose_workload_vanished_is_told_so(world: World) -> None:
    world.cluster.workloads.clear()
    world.deliver(a_demand_event())

    assert world.says() == ("refuse", "owner_gone")
    assert world.notices() == [("Pod", "NodePoolRefused", True)]
    assert world.pools.calls == []


def test_a_refused_demand_is_told_to_its_owner_and_costs_no_call(world: World) -> None:
    pod = a_pod(shape={"topology": "3x3"})
    world.cluster.add(pod, a_jobset(template=pod.template))
    assert world.deliver(a_demand_event()).status == 200
    assert world.says() == ("refuse", "shape_unsupported")
    assert world.pools.calls == []
    assert world.notices() == REFUSED
    assert world.last["claim"]["slice"] == "train-workers-0"
    (first, *_) = world.cluster.notices
    assert "3x3" in first.message
    assert "2x4" in first.message


def test_labels_over_the_budget_are_refused_before_the_create(world: World) -> None:
    selectors = {f"example.com/{'k' * 40}-{n}": "v" * 60 for n in range(6)}
    world.cluster.add(a_pod(shape={"selectors": selectors}))
    world.deliver(a_demand_event())

    assert world.says() == ("refuse", "labels_over_budget")
    assert world.pools.calls == [("list", "")]
