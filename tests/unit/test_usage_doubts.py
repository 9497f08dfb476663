"""A pool that seems to be used may not have been: later records take that back."""

import pytest

from cli.usage.folding import FILLING_DOUBT_SECONDS, SURPLUS_DOUBT_SECONDS
from cli.usage.lives import DOUBTED_MAX
from tests.unit.test_usage_fold import Told, hours

NONE_EXISTS = (
    "node pool p-0 runs, but this pod cannot run on it: 0 of 4 nodes exist; GKE adds those that are missing"
)
ONE_EXISTS = NONE_EXISTS.replace("0 of", "1 of")
NO_PLACE = "node pool p-0 runs, but the scheduler finds no place for this pod: it has not said why"


@pytest.fixture
def told() -> Told:
    return Told()


def test_a_pool_that_its_workload_soon_does_not_need_was_never_used(told: Told) -> None:
    told.begin()
    told.sweeps(600)
    told.pool(700, "delete", "pool_surplus", function="sweep")

    assert hours(told.total(800)) == {"wasted": 700}


def test_a_pool_that_its_workload_does_not_need_after_long_use_was_used(told: Told) -> None:
    told.begin()
    told.sweeps(100 + SURPLUS_DOUBT_SECONDS)
    told.pool(200 + SURPLUS_DOUBT_SECONDS, "delete", "pool_surplus", function="collect")

    assert hours(told.total(7200)) == {"starting": 100, "used": 100 + SURPLUS_DOUBT_SECONDS}


def test_a_pod_that_is_absent_for_a_while_does_not_run_on_an_empty_pool(told: Told) -> None:
    told.begin()
    told.sweeps(180)  # no sweep names the leader: its pod is being replaced
    told.leader(200, "wait", "pool_in_progress")
    told.leader(900, "create", "pool_failed", pool="p-1", attempt=1, failure="stockout")

    assert hours(told.total(900)) == {"wasted": 900}


def test_a_pool_that_was_used_and_is_repaired_stays_used(told: Told) -> None:
    told.begin()
    told.sweeps(100 + FILLING_DOUBT_SECONDS)
    told.leader(200 + FILLING_DOUBT_SECONDS, "wait", "pool_in_progress")
    told.pool(900, "delete", "workload_over", function="collect")

    assert hours(told.total(900)) == {"starting": 500, "used": 100 + FILLING_DOUBT_SECONDS}


def test_an_empty_pool_is_there_until_the_next_candidate_is_created(told: Told) -> None:
    told.leader(0, "create", "pool_absent")
    told.pool(30, "keep", "pool_created")
    told.leader(60, "wait", "pool_in_progress", function="sweep")
    told.sweeps(60)
    told.leader(120, "create", "pool_failed", function="sweep", pool="p-1", attempt=1, failure="stockout")

    assert hours(told.total(120)) == {"wasted": 120}


@pytest.mark.parametrize("reason", ["pool_warm", "grace_not_over"])
def test_a_pool_whose_workload_ends_before_it_is_made_is_wasted(told: Told, reason: str) -> None:
    told.begin()
    told.pool(110, "keep", reason, function="collect")
    told.sweeps(300, **{reason: 1})
    told.pool(400, "delete", "workload_over", function="collect")

    assert hours(told.total(400)) == {"wasted": 400}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (NONE_EXISTS, {"starting": 100 + 500, "used": 900}),
        (ONE_EXISTS, {"starting": 100, "used": 1400}),
        (NO_PLACE, {"starting": 100, "used": 1400}),
    ],
)
def test_a_leader_beside_a_running_pool_does_not_mean_that_no_other_pod_runs(
    told: Told, message: str, expected: dict[str, float]
) -> None:
    told.begin()
    told.sweeps(960)
    told.leader(1000, "keep", "pool_serves")
    told.leader(1300, "wait", "pod_unplaced", message=message)

    assert hours(told.total(1500)) == expected


def test_a_leader_beside_a_pool_of_one_node_means_that_it_is_not_used(told: Told) -> None:
    told.leader(0, "create", "pool_absent", node_count=1)
    told.pool(100, "keep", "pool_created")
    told.sweeps(960)
    told.leader(1000, "keep", "pool_serves", node_count=1)

    assert hours(told.total(1500)) == {"starting": 600, "used": 900}


def test_a_pool_with_many_restarts_needs_no_more_space(told: Told) -> None:
    told.begin()
    told.sweeps(600)
    for restart in range(2 * DOUBTED_MAX):
        told.leader(1000 + 20 * restart, "wait", "pool_in_progress")
        told.leader(1010 + 20 * restart, "nothing", "demand_scheduled")
    (pool,) = told.fold._lives.pools.values()

    assert len(pool.doubted) <= DOUBTED_MAX + 1
    assert sum(hours(told.total(4000)).values()) == 4000


def test_a_pool_on_which_a_record_named_pods_was_used(told: Told) -> None:
    told.begin()
    told.sweeps(600)
    told.pool(650, "wait", "pods_still_bound", function="collect")
    told.pool(700, "delete", "pool_surplus", function="sweep")

    account = hours(told.total(800))
    assert account["starting"] == 100
    assert account["used"] + account["idle"] == 600


@pytest.mark.parametrize(("stays", "expected"), [(400, {"wasted": 900}), (1000, {"starting": 500, "used": 1000})])
def test_a_slice_that_stopped_to_wait_long_before_its_pool_was_made_runs_elsewhere(
    told: Told, stays: int, expected: dict[str, float]
) -> None:
    told.leader(0, "create", "pool_absent")
    told.leader(60, "wait", "pool_in_progress", function="sweep")
    for at in range(60, 500, 60):
        told.pool(at, "wait", "pool_in_progress", function="sweep")
        told.sweeps(at)
    told.pool(500, "keep", "pool_created")
    told.sweeps(500 + stays, owner_live=1)
    told.pool(500 + stays, "delete", "owner_gone", function="collect")

    assert hours(told.total(500 + stays)) == expected


def test_a_pod_that_waits_beside_a_pool_with_some_nodes_means_that_others_run_there(told: Told) -> None:
    told.leader(0, "create", "pool_absent")
    told.leader(60, "wait", "pool_in_progress", function="sweep")
    told.sweeps(60)
    told.leader(200, "wait", "pod_unplaced", message=ONE_EXISTS)

    assert hours(told.total(500)) == {"starting": 200, "used": 300}
