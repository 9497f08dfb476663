"""Every fault switch of the fake GKE, on the model with a clock that the test moves."""

import pytest
from google.cloud import container_v1

from standins.fakegke.errors import LostReply
from standins.fakegke.faults.fault_rules import FaultPlan, parse_fault
from standins.fakegke.model.node_events import Event, NodesDown, NodeUp, PoolState
from standins.fakegke.resource_names import ClusterName
from standins.fakegke.tests.fakegke_worlds import LOCATION, LONG, PROJECT, InProcessWorld, cpu_pool

Pool = container_v1.NodePool.Status
Operation = container_v1.Operation.Status
Kind = container_v1.Operation.Type


def _operations(model: InProcessWorld) -> list[container_v1.Operation]:
    return list(model.client.list_operations(parent=f"projects/{PROJECT}/locations/-").operations)


def test_fail_sync_rejects_so_many_matching_calls_from_the_nth_on(model: InProcessWorld) -> None:
    model.add_fault(switch="fail_sync", pool="a-*", method="Create*", code="INTERNAL", text="boom", nth=2, count=2)
    model.create("a-1")
    assert [model.refusal(lambda: model.create("a-2")).code for _ in range(2)] == ["INTERNAL", "INTERNAL"]
    model.create("a-2")
    model.create("b-1")


def test_fail_sync_for_quota_comes_after_all_other_checks(model: InProcessWorld) -> None:
    reason = "INSUFFICIENT_QUOTA_REGIONAL"
    text = "Insufficient regional quota to satisfy request: resource TPUS_PER_TPU_FAMILY."
    model.add_fault(switch="fail_sync", code="PERMISSION_DENIED", reason=reason, text=text, count=None)
    assert model.refusal(lambda: model.create("Bad_Name")).code == "INVALID_ARGUMENT"
    assert model.refusal(model.create).reason == reason
    assert model.pools() == []


@pytest.mark.parametrize("how", ["drop", "unavailable", "deadline"])
def test_lose_reply_performs_the_call_and_hides_its_answer(model: InProcessWorld, how: str) -> None:
    model.add_fault(switch="lose_reply", how=how, tier="spot", zone="us-east5-b")
    with pytest.raises(LostReply, match=how):
        model.create()
    assert model.pool().status == Pool.PROVISIONING


@pytest.mark.parametrize("switch", ["dup_create_inflight", "create_while_stopping"])
def test_a_create_while_the_pool_comes_or_goes_can_answer_exists(model: InProcessWorld, switch: str) -> None:
    if switch == "create_while_stopping":
        model.created()
        model.delete()
    else:
        model.create()
    assert model.refusal(model.create).code == "FAILED_PRECONDITION"
    model.add_fault(switch=switch, answer="exists")
    assert model.refusal(model.create).code == "ALREADY_EXISTS"


def test_bad_node_count_is_refused_at_once_or_by_the_operation(model: InProcessWorld) -> None:
    refusal = model.refusal(lambda: model.create(initial_node_count=3))
    assert refusal.text == '3 is not a valid size of TPU pod slice with topology "4x4".'
    model.add_fault(switch="bad_node_count", answer="async")
    done = model.created(initial_node_count=3)
    assert done.error.code == 3
    assert "in the gang mode of size '4'" in done.error.message
    assert model.pool().status == Pool.ERROR


def test_max_running_ops_queues_what_is_above_in_order(model: InProcessWorld) -> None:
    model.add_fault(switch="max_running_ops", value=1)
    first, second = model.create("a"), model.create("b")
    model.advance(10)
    assert [model.operation(op).status for op in (first, second)] == [Operation.RUNNING, Operation.PENDING]
    model.advance(700)
    assert [model.operation(op).status for op in (first, second)] == [Operation.DONE, Operation.RUNNING]
    model.advance(700)
    assert model.operation(second).status == Operation.DONE


def test_max_inflight_ops_has_a_default_of_a_hundred(model: InProcessWorld) -> None:
    for number in range(100):
        model.create(f"pool-{number}")
    assert model.refusal(lambda: model.create("one-more")).code == "RESOURCE_EXHAUSTED"


@pytest.mark.parametrize(
    ("kind", "code", "fragment"),
    [
        ("stockout", 8, "Atomic resize failed with [GCE_STOCKOUT]"),
        ("quota", 8, "[GCE_QUOTA_EXCEEDED]"),
        ("ip", 8, "Atomic resize failed with [IP_SPACE_EXHAUSTED_WITH_DETAILS]"),
        ("invalid", 3, "Google Compute Engine: Invalid value for field"),
        ("reservation", 8, "does not have available resources"),
        ("internal", 13, "[INTERNAL_ERROR]"),
        ("permission", 7, "[PERMISSIONS_ERROR]"),
        ("org_policy", 9, "[CONDITION_NOT_MET]"),
    ],
)
def test_outcome_decides_how_an_accepted_create_fails(
    model: InProcessWorld, kind: str, code: int, fragment: str
) -> None:
    model.add_fault(switch="outcome", kind=kind)
    done = model.created()
    assert (done.status, done.error.code) == (Operation.DONE, code)
    assert fragment in done.status_message
    assert (model.pool().status, model.pool().status_message) == (Pool.ERROR, done.status_message)
    assert model.count_nodes() == 0


def test_outcome_can_be_for_one_tier_in_one_zone_only(model: InProcessWorld) -> None:
    model.add_fault(switch="outcome", kind="stockout", tier="spot", zone="us-east5-b", machine_type="ct6e-*")
    assert model.created("spot-pool").error.code == 8
    assert model.created("other-tier", config={"spot": False}).error.code == 0


def test_a_stockout_takes_thirty_five_minutes_also_for_a_slice_unless_the_timings_say_otherwise() -> None:
    for timings, over in ({}, False), ({"stockout_atomic": 120}, True):
        model = InProcessWorld({"timings": timings, "faults": [{"switch": "outcome", "kind": "stockout"}]})
        model.client.create_node_pool(parent=model.parent, node_pool=cpu_pool("cpu"))
        model.create("slice")
        model.advance(140)
        assert (model.pool("slice").status == Pool.ERROR, model.pool("cpu").status) == (over, Pool.PROVISIONING)
        model.advance(1960)
        assert model.pool("cpu").status == Pool.PROVISIONING
        model.advance(20)
        assert (model.pool("slice").status, model.pool("cpu").status) == (Pool.ERROR, Pool.ERROR)
        assert "Not all instances running in IGM after 35m" in model.pool("cpu").status_message


def test_a_partial_outcome_leaves_some_nodes_and_runs_with_error(model: InProcessWorld) -> None:
    model.add_fault(switch="outcome", kind="partial", nodes=3)
    done = model.created()
    assert "Expected 4, running 3, transitioning 1" in done.status_message
    assert (model.pool().status, model.count_nodes()) == (Pool.RUNNING_WITH_ERROR, 3)


def test_read_lag_shows_get_and_list_the_past(model: InProcessWorld) -> None:
    model.add_fault(switch="read_lag", seconds=300)
    model.create()
    assert (model.refusal(model.pool).code, model.pools()) == ("NOT_FOUND", [])
    model.advance(LONG)
    assert model.pool().status == Pool.RUNNING
    model.delete()
    model.advance(280)
    assert [pool.status for pool in model.pools()] == [Pool.RUNNING]
    model.advance(310)
    assert model.pools() == []


def test_stale_list_hides_a_new_pool_from_list_but_not_from_get(model: InProcessWorld) -> None:
    model.add_fault(switch="stale_list", seconds=10)
    model.create()
    model.advance(100)
    assert (model.pool().status, model.pools()) == (Pool.PROVISIONING, [])
    model.advance(600)
    assert [pool.status for pool in model.pools()] == [Pool.RUNNING]


def test_a_list_that_is_only_late_shows_a_pool_before_it_is_created(model: InProcessWorld) -> None:
    model.add_fault(switch="stale_list", seconds=10, created=False)
    model.create()
    assert model.pools() == []
    model.advance(11)
    assert [pool.status for pool in model.pools()] == [Pool.PROVISIONING]


def test_get_404_after_create_is_transient(model: InProcessWorld) -> None:
    model.create()
    model.add_fault(switch="get_404_after_create", count=2)
    assert [model.refusal(model.pool).code for _ in range(2)] == ["NOT_FOUND", "NOT_FOUND"]
    model.pool()


def test_op_gc_forgets_finished_operations(model: InProcessWorld) -> None:
    operation = model.created()
    model.add_fault(switch="op_gc", seconds=60)
    assert model.refusal(lambda: model.operation(operation)).code == "NOT_FOUND"
    assert _operations(model) == []


def test_a_person_can_give_a_pool_other_labels(model: InProcessWorld) -> None:
    model.add_fault(switch="external_actor", seconds=LONG, labels={"by": "hand"})
    model.created(config={"labels": {"mine": "yes"}})
    before = model.pool()
    model.advance(LONG)
    after = model.pool()
    assert (after.etag != before.etag, dict(after.config.labels)) == (True, {"by": "hand"})
    assert _operations(model)[-1].operation_type == Kind.UPGRADE_NODES


def test_byte_limit_refuses_one_pool_too_many(model: InProcessWorld) -> None:
    model.add_fault(switch="byte_limit", value=500)
    model.create("pool-1")
    refusal = model.refusal(lambda: model.create("pool-2"))
    assert refusal.code == "INVALID_ARGUMENT"
    assert "Cluster byte size limit reached" in refusal.text


def test_late_nodes_come_after_the_operation_has_ended(model: InProcessWorld) -> None:
    model.add_fault(switch="late_nodes", nodes=3, seconds=10_000)
    model.created()
    assert (model.pool().status, model.count_nodes()) == (Pool.RUNNING, 1)
    model.advance(10_000)
    assert model.count_nodes() == 4


def test_duration_fixes_how_long_creates_and_deletes_take(model: InProcessWorld) -> None:
    model.add_fault(switch="duration", operation="create", seconds=1000)
    model.add_fault(switch="duration", operation="delete", seconds=2000)
    create = model.create()
    model.advance(990)
    assert model.operation(create).status == Operation.RUNNING
    model.advance(15)
    assert model.operation(create).status == Operation.DONE
    delete = model.delete()
    model.advance(1990)
    assert model.operation(delete).status == Operation.RUNNING


def test_nodes_come_up_one_by_one_before_the_pool_runs_and_go_before_it_is_gone(model: InProcessWorld) -> None:
    told: list[Event] = []
    model.gke.listen(told.append)
    model.created()
    kinds = [type(event) for event in told if isinstance(event, NodeUp | PoolState)]
    assert kinds == [PoolState, NodeUp, NodeUp, NodeUp, NodeUp, PoolState]
    model.delete()
    model.advance(LONG)
    last = [event for event in told if isinstance(event, NodesDown | PoolState)][-2:]
    assert isinstance(last[0], NodesDown)
    assert last[1] == PoolState(ClusterName(PROJECT, LOCATION, model.cluster), "pool-1", "GONE")


def test_the_same_seed_and_calls_give_the_same_ids_and_times() -> None:
    def play() -> list[object]:
        world = InProcessWorld()
        told: list[object] = []
        world.gke.listen(told.append)
        done = world.created()
        world.delete()
        world.advance(LONG)
        return [done, *told, *_operations(world)]

    assert play() == play()


@pytest.mark.parametrize(
    ("fault", "fragment"),
    [
        ({"switch": "stockuot"}, "unknown switch 'stockuot'; valid switches: .*outcome"),
        ({"switch": "outcome", "kindd": "quota"}, "kindd"),
        ({"switch": "outcome", "kind": "nope"}, "nope"),
        ({"switch": "fail_sync", "code": "TEAPOT"}, "TEAPOT"),
        ({"switch": "read_lag", "nth": 0}, "nth"),
        ("outcome", "mapping"),
    ],
)
def test_a_malformed_fault_is_refused_by_name(fault: object, fragment: str) -> None:
    with pytest.raises(ValueError, match=fragment):
        parse_fault(fault)


def test_a_fault_counts_its_matches_and_can_be_cleared(model: InProcessWorld) -> None:
    model.add_fault(switch="fail_sync", count=1)
    model.refusal(model.pools)
    model.pools()
    (row,) = model.gke.faults.listed()
    assert (row["number"], row["matched"], row["fired"]) == (1, 2, 1)
    assert (model.gke.faults.clear(2), model.gke.faults.clear(1)) == (0, 1)
    assert FaultPlan().listed() == []
