"""The sweep alone, without any message, brings every pool and every waiting leader to rest."""

import pytest

from shared.core.errors import ClusterNotFound, ProvisionerError, Throttled, Unavailable
from shared.deliver import CHARTED
from tests.builders import CLUSTER, NOW, a_jobset, a_pod, a_pool
from tests.component.looks import by_sweep
from tests.component.world import OTHER, Records, World, orphan, slice_name, two_clusters


@pytest.mark.parametrize("count", [1, 5])
def test_each_waiting_leader_gets_its_pool_without_any_message_from_one_list(world: World, count: int) -> None:
    world.add_slices(count)

    assert world.sweep() == (200, {"create": count, "errors": 0})
    creates = [("create", slice_name(index)) for index in range(count)]
    assert world.pools.calls[:2] == [("list", ""), ("list_creations", "")]
    assert sorted(world.pools.calls[2:]) == creates


@pytest.mark.parametrize(
    ("waiting_seconds", "later", "calls"),
    [
        *((1.0, 0, 0), (4.9, 0, 0), (5.0, 0, 1), (600.0, 0, 1)),
        *((-61.0, 0, 1), (-3600.0, 0, 1), (-86_400.0, 0, 1)),  # the clock of its cluster is ahead
        # A long sweep has an old list: before it comes to the leader, a message has made its pool.
        pytest.param(-1.0, 60, 0, id="it began to wait after the pools were listed"),
    ],
)
def test_a_leader_that_has_just_become_unschedulable_is_left_to_its_message(
    world: World, waiting_seconds: float, later: float, calls: int
) -> None:
    world.cluster.add(a_pod(unschedulable_since=NOW - waiting_seconds))
    world.cluster.before_next("list_waiting_leaders", lambda: world.clock.advance(later))

    world.sweep()

    assert world.pools.count("create") == calls


def test_each_sweep_says_what_it_saw_in_one_record_and_sweeping_again_changes_nothing(world: World) -> None:
    world.pools.add(CLUSTER, orphan("gone-1"))
    world.sweep()
    world.records.expect_in_order(
        {"function": "sweep", "decision": "create", "reason": "pool_absent"},
        {"function": "sweep", "decision": "delete", "reason": "owner_gone", "severity": "NOTICE"},
        {
            "message": "swept",
            "counts": {"delete": 1, "create": 1, "errors": 0},
            "reasons": {**CHARTED, "owner_gone": 1, "pool_absent": 1},
        },
    )

    before, told = dict(world.pools.pools), dict(world.cluster.notices)
    for _ in range(3):
        by_sweep(world)
    assert world.pools.pools == before
    assert world.cluster.notices == told, "a leader that waits is not told again every minute"
    assert (world.pools.count("create"), world.pools.count("delete")) == (1, 1)


def test_a_sweep_of_an_empty_world_is_at_rest_and_counts_zero_for_each_chart(world: World) -> None:
    world.cluster.pods.clear()

    assert world.sweep()[1] == {"errors": 0}
    world.records.expect_in_order({"message": "swept", "reasons": dict(CHARTED)})
    assert set(CHARTED.values()) == {0}


def test_a_live_pool_is_kept_silently(world: World) -> None:
    world.pools.add(CLUSTER, a_pool())
    world.cluster.pods.clear()
    world.sweep()

    assert [record["message"] for record in world.records.found] == ["measured", "swept"]
    assert world.notices() == []


def test_more_absent_owners_than_the_cap_are_deleted_by_the_next_sweeps_oldest_first(world: World) -> None:
    world.use(sweep_deletions_max=3)
    world.cluster.pods.clear()
    old = [orphan(f"gone-{number}", age_seconds=100.0 - number) for number in range(4)]
    world.pools.add(CLUSTER, *reversed(old))
    assert world.sweep() == (200, {"delete": 3, "keep": 1, "errors": 0})
    deleted = [name for verb, name in world.pools.calls if verb == "delete"]
    assert deleted[:2] == [pool.name for pool in old[:2]]  # the last one of the cap may be any other
    world.records.expect_in_order({"severity": "CRITICAL", "reason": "sweep_over_cap"})

    assert world.sweep()[1] == {"delete": 1, "wait": 3, "errors": 0}


@pytest.mark.parametrize(("error", "status"), [(Unavailable("503"), 503), (ClusterNotFound("clusters/c"), 500)])
def test_a_cluster_that_is_away_or_unknown_does_not_stop_the_others(
    records: Records, error: ProvisionerError, status: int
) -> None:
    world = two_clusters(records)
    world.pools.down_clusters[CLUSTER] = error
    world.pools.add(OTHER, orphan("gone-1"))
    world.clusters[OTHER].add(a_pod(), a_jobset())
    assert world.sweep() == (status, {"delete": 1, "create": 1, "errors": 1})
    assert (world.pools.names(CLUSTER), world.pools.count("create")) == ([], 1)


@pytest.mark.parametrize(
    ("method", "error", "counts"),
    [
        ("list_waiting_leaders", Throttled("429"), {"delete": 2, "errors": 1, "left": 1}),
        ("create", Unavailable("503"), {"create": 1, "delete": 2, "errors": 1}),
        ("delete", Unavailable("503"), {"create": 2, "delete": 1, "errors": 1}),
    ],
)
def test_an_error_about_leaders_or_pools_does_not_stop_the_others(
    world: World, method: str, error: ProvisionerError, counts: dict[str, int]
) -> None:
    world.cluster.add(a_pod(index=1, uid="second"))
    world.pools.add(CLUSTER, orphan("gone-1"), orphan("gone-2"))
    (world.cluster if method == "list_waiting_leaders" else world.pools).fail_next(method, error)

    assert world.sweep() == (503, counts)


# --- its order ------------------------------------------------------------------------------------


@pytest.mark.parametrize("refused", [False, True])
def test_leaders_are_answered_before_pools_are_deleted_and_a_429_on_a_create_keeps_no_pool(
    world: World, *, refused: bool
) -> None:
    world.pools.add(CLUSTER, *(orphan(f"gone-{number}") for number in range(20)))
    if refused:
        world.pools.fail_next("create", Throttled("too many creates"))
    world.sweep()

    changes = [method for method, _ in world.pools.calls if method in ("create", "delete")]
    assert changes == ["create", *["delete"] * 20]


def test_each_sweep_has_another_order(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = set()
    for number in range(8):
        world.cluster.add(a_jobset(name=f"job-{number}"), a_pod(jobset=f"job-{number}", uid=f"of-{number}"))
    for _ in range(4):
        world.pools.pools.clear()
        world.pools.bodies.clear()
        world.pools.creations.clear()
        world.sweep()
        orders.add(tuple(each["name"] for each in world.pools.bodies))
        world.clock.advance(60)

    assert len(orders) > 1
    assert {frozenset(each) for each in orders} == {frozenset(next(iter(orders)))}
