"""Faults of the fake GKE, on the model with a clock that the test moves."""

import pytest
from google.cloud import container_v1

from standins.fakegke.errors import LostReply
from standins.fakegke.faults.fault_rules import parse_fault
from standins.fakegke.model.node_events import Event, NodesDown, NodeUp, PoolState
from standins.fakegke.resource_names import ClusterName
from standins.fakegke.tests.fakegke_worlds import LOCATION, LONG, PROJECT, InProcessWorld, cpu_pool

Pool = container_v1.NodePool.Status
Operation = container_v1.Operation.Status
Kind = container_v1.Operation.Type


def _operations(model: InProcessWorld) -> list[container_v1.Operation]:
    return list(model.client.list_operations(parent=f"projects/{PROJECT}/locations/-").operations)


@pytest.mark.parametrize("how", ["drop", "unavailable", "deadline"])
def test_lose_reply_performs_the_call_and_hides_its_answer(model: InProcessWorld, how: str) -> None:
    model.add_fault(switch="lose_reply", how=how, tier="spot", zone="us-east5-b")
    with pytest.raises(LostReply, match=how):
        model.create()
    assert model.pool().status == Pool.PROVISIONING


def test_max_running_ops_queues_what_is_above_in_order(model: InProcessWorld) -> None:
    model.add_fault(switch="max_running_ops", value=1)
    first, second = model.create("a"), model.create("b")
    model.advance(10)
    assert [model.operation(op).status for op in (first, second)] == [Operation.RUNNING, Operation.PENDING]
    model.advance(700)
    assert [model.operation(op).status for op in (first, second)] == [Operation.DONE, Operation.RUNNING]
    model.advance(700)
    assert model.operation(second).status == Operation.DONE


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


def test_op_gc_forgets_finished_operations(model: InProcessWorld) -> None:
    operation = model.created()
    model.add_fault(switch="op_gc", seconds=60)
    assert model.refusal(lambda: model.operation(operation)).code == "NOT_FOUND"
    assert _operations(model) == []


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
