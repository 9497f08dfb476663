"""Pools that GKE's autoscaler fills: empty ones do not serve; a refusal is known in a sweep."""

from dataclasses import replace
from typing import Any

import pytest

from shared.capacity_lists import UnreadableList, read_policies, read_priorities
from shared.core.decide.cluster_stops import Mode
from shared.core.decide.demands import decide_succeeded
from shared.core.errors import Denied
from shared.core.ports import FillError, Machines
from shared.core.priorities import NodeSource
from shared.core.workloads import NodeView
from tests.builders import CLUSTER, NOW, a_foreign_pool, a_jobset, a_pod
from tests.component.empty_pools import HOSTS, POLICY, TOLD, begin, begin_refused, refuse, run_empty, status
from tests.component.fake_queues import reserve_quota
from tests.component.looks import by_message, by_sweep
from tests.component.world import World, name_of

TWO = "[{}, {location: {zones: [us-east5-b]}}]"


@pytest.fixture(autouse=True)
def _listed(world: World) -> None:
    world.use(capacity_policies=read_policies(POLICY))
    world.cluster.add(a_pod(unschedulable_since=NOW - 20))


def sizes(world: World) -> list[tuple[int, int]]:
    """Return the nodes that each body asks for: at its creation, and from the autoscaler."""
    return [
        (body["initialNodeCount"], body.get("autoscaling", {}).get("maxNodeCount", 0))
        for body in world.pools.bodies
    ]


# --- what makes the nodes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listed", "source", "wanted"),
    [
        (TWO, {}, (0, 4)),
        ("[{}]", {}, (4, 0)),
        ("[{}]", {"on-demand": NodeSource.AUTOSCALER}, (0, 4)),
        (TWO, {"on-demand": NodeSource.CREATION}, (4, 0)),
        (
            "[{nodesFrom: creation}, {location: {zones: [us-east5-b]}}]",
            {"on-demand": NodeSource.AUTOSCALER},
            (4, 0),
        ),
        ("[{nodesFrom: autoscaler}]", {}, (0, 4)),
        ("[{reservations: {specific: [{name: r}]}}, {}]", {}, (4, 0)),
        ("[{reservations: {specific: [{name: r}]}}, {}]", {"reservation": NodeSource.AUTOSCALER}, (0, 4)),
        ("[{flexStart: {enabled: true}}]", {}, (0, 4)),
    ],
)
def test_the_nodes_come_from(
    world: World, listed: str, source: dict[str, NodeSource], wanted: tuple[int, int]
) -> None:
    world.use(capacity_policies=read_policies(f"[{{priorities: {listed}}}]"), nodes_from=source)
    by_message(world)

    assert sizes(world) == [wanted]


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        (
            "[{}, {flexStart: {enabled: true}, nodesFrom: creation}]",
            r"nodesFrom at \[1\] is creation, but GKE fills flex-start pools",
        ),
        ("[{nodesFrom: nowhere}]", "Invalid enum value 'nowhere'"),
    ],
    ids=["flex-start with nodes at creation", "an unknown source"],
)
def test_a_source_that_cannot_be_is_refused_by_name(listed: str, words: str) -> None:
    with pytest.raises(UnreadableList, match=words):
        read_priorities(listed)


@pytest.mark.parametrize(("others", "wanted"), [(1, (0, 4)), (2, (4, 0))])
def test_above_a_number_of_autoscaled_pools_new_ones_come_with_their_nodes(
    world: World, others: int, wanted: tuple[int, int]
) -> None:
    world.use(capacity_policies=read_policies(POLICY), autoscaled_pools_max=2)
    by_message(world)
    for index in range(others):
        world.pools.add(
            CLUSTER, replace(world.pools.pools[CLUSTER, name_of(0)], name=f"theirs-{index}", labels={})
        )
    del world.pools.pools[CLUSTER, name_of(0)]
    world.pools.bodies.clear()
    by_message(world)

    assert sizes(world) == [wanted]


def test_where_the_nodes_come_from_changes_neither_fingerprint_nor_candidate(world: World) -> None:
    messages = []
    for source in NodeSource:
        world.use(capacity_policies=read_policies(POLICY), nodes_from={"on-demand": source})
        by_message(world)
        messages.append(dict(world.pools.bodies[-1]["config"]["labels"]))
        world.pools.pools.clear()

    assert messages[0] == messages[1]


# --- an empty pool does not serve -----------------------------------------------------------------


def test_an_empty_pool_is_waited_for(world: World) -> None:
    begin(world)
    by_sweep(world)

    world.records.expect_in_order({"decision": "wait", "reason": "pool_in_progress", "pool": name_of(0)})
    assert "runs without nodes; GKE's autoscaler adds 4" in str(world.records.found)
    assert status(world, 0) == "RUNNING"


def test_the_end_of_its_creation_does_not_say_that_it_has_nodes(world: World) -> None:
    begin(world)
    told = decide_succeeded(world.pools.pools[CLUSTER, name_of(0)])

    assert told is not None
    assert told.message.endswith("; its autoscaler adds 4 nodes when there is capacity")


def test_an_empty_pool_does_not_go_for_a_name_that_a_pool_of_others_has(world: World) -> None:
    """Seed 7940582: with the record gone, the list began anew without its pause each time."""
    begin_refused(world)
    world.pools.add(CLUSTER, a_foreign_pool(name_of(1)))
    by_sweep(world)

    assert status(world, 0) == "STOPPING"
    assert [body["name"] for body in world.pools.bodies] == [name_of(0), name_of(3)]


@pytest.mark.parametrize(
    ("seconds", "nodes", "mode"),
    [
        (90.0, HOSTS, Mode.ACTIVE),
        (3000.0, HOSTS, Mode.ACTIVE),
        (90.0, [], Mode.NO_CREATE),
        (90.0, [], Mode.REPORT_ONLY),
    ],
    ids=["all nodes are there", "all nodes are there, after long", "no-create", "report-only"],
)
def test_nodes_that_are_there_and_a_mode_that_creates_nothing_keep_the_pool(
    world: World, seconds: float, nodes: list[str], mode: Mode
) -> None:
    begin_refused(world, seconds=seconds)
    world.cluster.nodes[name_of(0)] = nodes
    world.use(capacity_policies=read_policies(POLICY), mode=mode)
    by_sweep(world)

    assert status(world, 0) == "RUNNING"
    assert len(world.pools.bodies) == 1


def test_some_hosts_for_long_are_left_as_those_of_any_pool(world: World) -> None:
    begin(world, seconds=1000)
    world.cluster.nodes[name_of(0)] = HOSTS[:2]
    old = {each: NodeView(name=each, ready=True, created_at=NOW + 10) for each in HOSTS}
    world.cluster.node_views = old
    by_sweep(world)

    assert status(world, 0) == "STOPPING"
    assert "has lost 2 of its 4 nodes" in str(world.cluster.notices)


@pytest.mark.parametrize("state", ["RUNNING", "RUNNING_WITH_ERROR"])
@pytest.mark.parametrize("seconds", [90.0, 3000.0])
@pytest.mark.parametrize(
    "use",
    [
        {"capacity_policies": read_policies("[{priorities: [{nodesFrom: autoscaler}]}]")},
        {"nodes_from": {"on-demand": NodeSource.AUTOSCALER}},
    ],
    ids=["by the list", "by the setting"],
)
def test_with_one_way_alone_an_empty_pool_is_left_to_the_autoscaler_and_the_owner_is_told(
    world: World, use: dict[str, Any], seconds: float, state: str
) -> None:
    world.use(**use)
    begin_refused(world, seconds=seconds)
    world.pools.move(CLUSTER, name_of(0), state)
    by_sweep(world)

    assert status(world, 0) == state
    told = str(world.cluster.notices)
    assert "no capacity in us-east5-a" in told
    assert "GKE's autoscaler continues to try, because no list of capacity has another way" in told


@pytest.mark.parametrize("hosts", [2, 4])
def test_a_pool_with_errors_whose_hosts_are_not_ready_goes_as_degraded(world: World, hosts: int) -> None:
    world.use(capacity_policies=read_policies("[{priorities: [{nodesFrom: autoscaler}]}]"))
    begin(world, seconds=3000)
    world.cluster.nodes[name_of(0)] = HOSTS[:hosts]
    world.cluster.node_views = {each: NodeView(name=each, ready=False, created_at=NOW + 10) for each in HOSTS}
    world.pools.move(CLUSTER, name_of(0), "RUNNING_WITH_ERROR")
    by_sweep(world)

    assert status(world, 0) == "STOPPING"


# --- when it failed -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "state"),
    [(90.0, "RUNNING"), (90.0, "RUNNING_WITH_ERROR"), (3000.0, "RUNNING_WITH_ERROR")],
    ids=["it runs", "it has errors", "it has errors, for long"],
)
def test_a_refusal_of_the_group_brings_the_next_candidate_in_the_same_sweep(
    world: World, seconds: float, state: str
) -> None:
    """A pool with errors is not deleted as degraded: with its record the list would begin anew."""
    begin_refused(world, seconds=seconds)
    world.pools.move(CLUSTER, name_of(0), state)
    by_sweep(world)

    assert (status(world, 0), status(world, 1)) == ("STOPPING", "PROVISIONING")
    assert [body["locations"] for body in world.pools.bodies] == [["us-east5-a"], ["us-east5-b"]]
    head = "attempt 0 (candidate 1 of 2, on-demand in us-east5-a) failed: no capacity in us-east5-a"
    assert head in str(world.cluster.notices)
    world.records.expect_in_order({"decision": "create", "reason": "pool_failed", "failure": "stockout"})


@pytest.mark.parametrize(
    ("message", "after", "left"),
    [
        (TOLD, 70, True),
        (TOLD.replace("us-east5-a", "us-east5-b"), 70, False),
        ("Node scale up failed: GCE quota exceeded", 70, True),
        (TOLD, 30, False),
        (TOLD, -3600, False),
    ],
    ids=["of this zone", "of another zone", "without a zone", "about an earlier pool", "long ago"],
)
def test_what_the_autoscaler_told_the_pod_counts_if_it_is(
    world: World, message: str, after: float, left: bool
) -> None:
    begin(world)
    world.cluster.scale_ups[a_pod().uid] = [FillError(message, NOW + after)]
    by_sweep(world)

    assert status(world, 0) == ("STOPPING" if left else "RUNNING")


@pytest.mark.parametrize("machines", [{"made": 1}, {"coming": 4}])
def test_a_machine_on_its_way_keeps_the_pool(world: World, machines: dict[str, int]) -> None:
    begin(world)
    refuse(world, **machines)
    by_sweep(world)

    assert status(world, 0) == "RUNNING"
    world.records.expect_in_order({"decision": "wait", "reason": "pool_in_progress"})


@pytest.mark.parametrize("method", ["list_pool_nodes", "read_machines"])
def test_a_node_that_comes_between_the_look_and_the_delete_keeps_the_pool(world: World, method: str) -> None:
    begin_refused(world)

    def come() -> None:
        world.cluster.nodes[name_of(0)] = HOSTS
        world.pools.machines[name_of(0)] = Machines(made=4)

    port: Any = world.cluster if method == "list_pool_nodes" else world.pools
    port.before_next(method, lambda: port.before_next(method, come))
    world.sweep()

    assert status(world, 0) == "RUNNING"
    assert len(world.pools.bodies) == 1


@pytest.mark.parametrize(
    ("seconds", "asked", "left"),
    [(1890.0, 1000, False), (1910.0, 1000, True), (3590.0, 0, False), (3610.0, 0, True)],
)
def test_without_an_error_a_time_decides_that_counts_from_the_first_try(
    world: World, seconds: float, asked: int, left: bool
) -> None:
    """With many slices the autoscaler comes late to a pool: it fills one in each loop."""
    begin(world, seconds=seconds)
    text = "pod triggered scale-up: [{https://x/projects/p/zones/us-east5-a/instanceGroups/g-0-grp 0->4 (max: 4)}]"
    world.cluster.scale_ups[a_pod().uid] = [FillError(text, NOW + asked, tries=True)] if asked else []
    by_sweep(world)

    assert status(world, 0) == ("STOPPING" if left else "RUNNING")


@pytest.mark.parametrize("method", ["read_machines", "list_scale_ups"])
def test_without_a_right_the_other_source_or_the_time_decides(world: World, method: str) -> None:
    begin_refused(world)
    world.cluster.scale_ups[a_pod().uid] = [FillError(TOLD, NOW + 70)]
    port: Any = world.pools if method == "read_machines" else world.cluster
    for _ in range(2):  # both looks
        port.fail_next(method, Denied("403"))
    by_sweep(world)

    assert status(world, 0) == "STOPPING"
    assert "what keeps a node pool empty could not be read" in str(world.records.found)


def test_only_the_sweep_reads_what_keeps_a_pool_empty(world: World) -> None:
    begin_refused(world)
    by_message(world)

    assert status(world, 0) == "RUNNING"
    assert world.pools.count("read_machines") == 0


def test_after_a_round_the_last_pool_stays_for_the_pause_and_may_still_be_filled(world: World) -> None:
    begin_refused(world)
    by_sweep(world)
    world.pools.move(CLUSTER, name_of(0), "gone")
    run_empty(world, 1)
    world.clock.advance(90)
    refuse(world, 1)
    by_sweep(world)

    assert status(world, 1) == "RUNNING"
    world.records.expect_in_order({"decision": "wait", "reason": "stockout", "attempt": 1})
    world.clock.advance(80)
    by_sweep(world)
    assert [body["name"] for body in world.pools.bodies] == [name_of(0), name_of(1), name_of(2)]
    assert status(world, 1) == "STOPPING"


def test_nodes_that_went_because_nobody_needed_them_are_no_failure(world: World) -> None:
    """After ten minutes without pods the autoscaler takes the nodes; the next pods get new ones."""
    begin_refused(world)
    world.clock.advance(5000)
    world.cluster.add(a_pod(created_at=NOW, unschedulable_since=world.clock.now() - 20))
    by_sweep(world)
    assert status(world, 0) == "RUNNING"

    refuse(world, at=world.clock.now() - 5)
    by_sweep(world)
    assert status(world, 0) == "STOPPING"


# --- workloads without pods -----------------------------------------------------------------------


def test_kueues_check_makes_pools_with_their_nodes_and_replaces_an_autoscaled_one(world: World) -> None:
    begin(world)
    world.cluster.pods.clear()
    world.use(capacity_policies=read_policies(POLICY), kueue_admission_check=True)
    reserve_quota(world, a_jobset(suspended=True))
    by_sweep(world)
    assert status(world, 0) == "STOPPING"

    world.pools.move(CLUSTER, name_of(0), "gone")
    by_sweep(world)
    assert set(sizes(world)[1:]) == {(4, 0)}
    assert name_of(0) in [body["name"] for body in world.pools.bodies[1:]]
