"""The sweep alone, without any message, brings every pool and every waiting leader to rest."""

import random
from typing import Any

import pytest

from shared.core.errors import ClusterNotFound, Denied, ProvisionerError, Throttled, Unavailable
from shared.deliver import CHARTED
from tests.builders import (
    CLUSTER,
    NOW,
    a_claim,
    a_demand_event,
    a_foreign_pool,
    a_go_pool,
    a_jobset,
    a_pod,
    a_pool,
    an_over_event,
)
from tests.component.looks import by_sweep
from tests.component.world import NAME, OTHER, Records, World, orphan, slice_name, two_clusters


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


def test_an_orphan_is_deleted_and_what_is_not_ours_is_not_looked_at(world: World) -> None:
    world.cluster.pods.clear()
    world.pools.add(CLUSTER, orphan("gone-1"), a_foreign_pool(), a_go_pool(jobset="gone-too"))
    world.cluster.nodes["train-12345"] = ["n"]
    assert world.sweep() == (200, {"delete": 2, "errors": 0})
    assert world.pools.pools[CLUSTER, "default-pool"].status == "RUNNING"


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


def test_pools_that_stay_do_not_count_and_block_no_orphan(world: World) -> None:
    world.use(sweep_deletions_max=2)
    world.cluster.pods.clear()
    used = [orphan(f"gone-{number}", age_seconds=1000) for number in range(5)]
    world.pools.add(CLUSTER, *used, orphan("gone-9"))
    for pool in used:
        world.cluster.bind(pool.name, workload="another")
    assert world.sweep() == (200, {"keep": 5, "delete": 1, "errors": 0})
    assert "sweep_over_cap" not in {record.get("reason") for record in world.records.found}


def test_what_an_owner_says_itself_needs_no_cap(world: World) -> None:
    world.use(sweep_deletions_max=1)
    world.cluster.pods.clear()
    world.cluster.add(a_jobset(replicas=64, terminal="Completed", terminal_since=NOW))
    world.add_pools(64)

    assert world.sweep()[1] == {"delete": 64, "errors": 0}


def test_pools_that_are_replaced_for_waiting_leaders_count(world: World) -> None:
    world.use(sweep_deletions_max=2, replace_differing_pools=True)
    world.add_slices(5)
    world.add_pools(5, fingerprint="1-other")
    _, counts = world.sweep()

    assert world.pools.count("delete") == 2
    assert counts == {"keep": 5 + 3, "delete": 2, "errors": 0}
    world.records.expect_in_order({"severity": "CRITICAL", "reason": "sweep_over_cap"})


def test_an_owner_that_cannot_be_read_keeps_its_pools(world: World) -> None:
    world.cluster.pods.clear()
    world.pools.add(CLUSTER, orphan("gone-1"), orphan("gone-2"))
    world.cluster.fail_next("get_workload", Unavailable("connection refused"))
    assert world.sweep() == (503, {"keep": 1, "delete": 1, "errors": 1})
    world.records.expect_in_order({"severity": "WARNING", "reason": "unavailable", "decision": "none"})


def test_an_owner_of_several_pools_is_read_once_and_a_failure_keeps_them_all(world: World) -> None:
    world.cluster.empty()
    world.add_pools(2)
    world.cluster.fail_next("get_workload", Denied("forbidden"))
    assert world.sweep() == (500, {"keep": 2, "errors": 1})
    assert world.pools.count("delete") == 0


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


def test_before_a_delete_the_sweep_looks_again(world: World) -> None:
    world.cluster.pods.clear()
    world.cluster.add(a_jobset(terminal="Completed", terminal_since=NOW))
    world.pools.add(CLUSTER, a_pool())
    world.pools.before_next("get", lambda: world.cluster.add(a_jobset()))
    assert world.sweep() == (200, {"keep": 1, "errors": 0})
    assert world.pools.count("delete") == 0


@pytest.mark.parametrize("goes", [False, True])
def test_a_failed_pool_with_a_waiting_leader_is_deleted_once_or_made_anew_if_it_went_meanwhile(
    world: World, *, goes: bool
) -> None:
    world.pools.add(CLUSTER, a_pool("ERROR", error="[INTERNAL_ERROR]", reserved=True))
    if goes:
        world.cluster.before_next("list_waiting_leaders", lambda: world.pools.move(CLUSTER, NAME, "gone"))

    done = "create" if goes else "delete"
    assert world.sweep() == (200, {done: 1, "wait": 1, "errors": 0})
    assert [method for method, _ in world.pools.calls if method in ("create", "delete")] == [done]


def test_a_stuck_create_is_given_up_after_its_bound(world: World) -> None:
    world.pools.add(CLUSTER, a_pool("PROVISIONING", age_seconds=3599))
    assert world.sweep()[1] == {"wait": 2, "errors": 0}

    world.clock.advance(1)
    _, counts = world.sweep()
    world.records.expect_in_order({"decision": "wait", "reason": "gke_busy"})
    assert counts["errors"] == 0


@pytest.mark.parametrize(
    ("limit", "created"),
    [({"limit_chips": 32}, 2), ({"limit_slices": 3}, 3), ({"limit_chips_per_namespace": 47}, 2)],
)
def test_one_sweep_s_creates_count_against_the_limits_of_the_next_leader(
    world: World, limit: dict[str, Any], created: int
) -> None:
    world.add_slices(5)
    world.use(**limit)
    assert world.sweep() == (200, {"create": created, "refuse": 5 - created, "errors": 0})
    assert len(world.pools.bodies) == created


@pytest.mark.parametrize("seed", range(15))
def test_messages_and_sweeps_in_any_order_come_to_the_same_rest(world: World, seed: int) -> None:
    """Two slices come up, their workload completes: one pool each, and in the end none."""
    order = random.Random(seed)
    pods = world.add_slices(2)
    steps = [*((a_demand_event(pod), "provision") for pod in pods)] * 3 + [(None, "sweep")] * 2
    order.shuffle(steps)
    for event, function in steps:
        status = world.sweep()[0] if event is None else world.deliver(event, function).status
        assert status == 200
    assert len(world.pools.bodies) == len(world.pools.names(CLUSTER)) == 2

    for name in world.pools.names(CLUSTER):
        world.pools.move(CLUSTER, name, "RUNNING")
    world.cluster.pods.clear()
    world.cluster.add(a_jobset(terminal="Completed", terminal_since=world.clock.now()))
    for _ in range(4):
        status = order.choice((lambda: world.collect(an_over_event()).status, lambda: world.sweep()[0]))()
        assert status == 200
    assert {pool.status for pool in world.pools.pools.values()} == {"STOPPING"}
    assert world.pools.count("delete") == 2


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


def test_workloads_without_a_pool_come_first(world: World) -> None:
    """A leader whose pool serves costs reads of nodes and pods, and a sweep has little time."""
    for number in range(12):
        name = f"runs-{number}"
        claim = a_claim(name=name, owner_uid=f"uid-{number}", slice_key=f"default/{name}-workers-0")
        world.pools.add(CLUSTER, a_pool("PROVISIONING", claim=claim))
        world.cluster.add(a_jobset(name=name, uid=f"uid-{number}"), a_pod(jobset=name, uid=f"pod-{number}"))
    world.sweep()

    answered = [each["subject"] for each in world.records.found if "subject" in each]
    assert answered[0] == "Pod default/train-workers-0-0-abcde"


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
