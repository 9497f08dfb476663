"""What can never succeed is acknowledged, and its log record has the reason and the message."""

import json

import pytest

from shared.core.errors import Broken, Rejected
from shared.core.messages import Message, format_message
from tests.builders import CLUSTER, a_demand_event, a_push, an_over_event
from tests.component.world import World

GOOD = format_message(a_demand_event())


def changed(data: bytes | None = None, **attributes: str) -> Message:
    fields = GOOD.attributes | {key.replace("_", "-"): value for key, value in attributes.items()}
    return Message(GOOD.data if data is None else data, fields)


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        pytest.param(changed(b"not json"), "data", id="data is not JSON"),
        pytest.param(changed(b""), "data", id="attributes only"),
        pytest.param(changed(GOOD.data.replace(b'"version":1', b'"version":2')), "data.version", id="version 2"),
        pytest.param(changed(ce_type="tpuprovisioner.demand.v9"), "ce-type", id="unknown type"),
        pytest.param(changed(ce_source="//x"), "ce-source", id="no cluster"),
        pytest.param(Message(GOOD.data, {}), "ce-specversion", id="data only"),
    ],
)
@pytest.mark.parametrize("function", ["provision", "collect"])
def test_a_malformed_message_is_acknowledged_and_logged_with_its_reason(
    world: World, sent: Message, field: str, function: str
) -> None:
    assert world.deliver(sent, function).status == 200
    (record,) = world.records.found
    assert (record["severity"], record["decision"]) == ("WARNING", "reject")
    assert (record["reason"], record["field"]) == ("event_malformed", field)
    assert record["message"].startswith(f"{field}: ")
    assert record["event_data"] == sent.data.decode()
    assert record["event_id"] == sent.attributes.get("ce-id", "")
    assert (record["function"], record["message_id"]) == (function, "1001")
    assert world.pools.calls == []


@pytest.mark.parametrize(
    ("body", "error"),
    [
        *((body, "") for body in (b"", b"not json", b"[1]", b'{"message": null}', b'{"subscription": "s"}')),
        pytest.param(b'{"message": {"data": "%%%"}}', "body.message.data", id="bad base64"),
    ],
)
def test_a_body_that_is_no_push_is_logged_whole(world: World, body: bytes, error: str) -> None:
    assert world.deliver(body).status == 200

    (record,) = world.records.found
    assert record["event_data"] == body.decode()
    assert record["reason"] == "event_malformed"
    assert error in record["message"]
    assert "message_id" not in record


def test_what_is_refused_is_logged_with_field_and_valid_values(world: World) -> None:
    world.deliver(changed(ce_type="nonsense"))

    world.records.expect_in_order(
        {
            "severity": "WARNING",
            "decision": "reject",
            "reason": "event_malformed",
            "field": "ce-type",
            "event_type": "nonsense",
            "message_id": "1001",
        }
    )
    assert "tpuprovisioner.demand.v1" in world.last["valid"]


def test_an_event_of_another_cluster_is_logged_with_the_clusters_that_there_are(world: World) -> None:
    elsewhere = "projects/p/locations/us-east5/clusters/elsewhere"

    assert world.deliver(a_demand_event(cluster=elsewhere)).status == 200
    assert world.last["reason"] == "cluster_unknown"
    assert elsewhere in world.last["message"]
    assert CLUSTER in world.last["message"]
    assert world.pools.calls == []


@pytest.mark.parametrize("function", ["provision", "settle"])
def test_a_long_message_is_cut_in_its_record_with_a_mark(world: World, function: str) -> None:
    world.deliver(Message(b"x" * 8192, {}), function)
    assert world.last["event_data"] == "x" * 8192

    world.deliver(Message(b"x" * 8193, {}), function)
    assert world.last["event_data"] == "x" * 8192 + "… (8193 bytes)"


def test_a_huge_body_is_cut_in_its_record(world: World) -> None:
    world.deliver(b" " * 14_000_001)

    assert world.last["event_data"] == " " * 8192 + "… (14000001 bytes)"


def test_a_message_that_is_no_text_is_logged_too(world: World) -> None:
    world.deliver(Message(b"\x00\xff", {}))

    assert world.last["event_data"] == "\x00\ufffd"


def test_an_event_for_the_other_function_is_answered_by_its_type(world: World) -> None:
    """A subscription's filter that was forgotten must not lose messages."""
    assert world.deliver(a_demand_event(), "collect").status == 200
    assert world.says() == ("create", "pool_absent")
    assert world.last["function"] == "collect"
    assert world.deliver(an_over_event(), "provision").status == 200


def test_an_old_message_without_delivery_attempt_is_read(world: World) -> None:
    assert world.deliver(a_push(a_demand_event(), delivery_attempt=None)).status == 200
    assert world.last["delivery_attempt"] == 0


def test_a_forged_message_can_do_nothing_but_make_us_look(world: World) -> None:
    forged = json.loads(GOOD.data) | {"name": "no-such-pod", "uid": "x"}
    world.deliver(changed(json.dumps(forged).encode()))

    assert world.says() == ("nothing", "demand_gone")
    assert world.pools.calls == []


def test_a_bug_of_ours_is_never_acknowledged(world: World) -> None:
    world.cluster.fail_next("get_pod", Broken("an invariant is false"))

    assert world.deliver(a_demand_event()).status == 500
    assert world.last["severity"] == "CRITICAL"
    assert "event_data" not in world.last


def test_a_rejection_from_deep_within_is_acknowledged_too(world: World) -> None:
    world.cluster.fail_next("get_pod", Rejected("wrong", field="f", value="v", valid="w"))

    assert world.deliver(a_demand_event()).status == 200
    assert world.last["message"] == "f: wrong (got 'v'); valid: w"
    assert world.last["event_data"] == GOOD.data.decode()


def test_a_message_of_percent_signs_is_data_and_no_format(world: World) -> None:
    assert world.deliver(a_demand_event(incarnation="%s %d %(name)s")).status == 200
    assert world.deliver(changed(ce_type="%s%n%(x)d")).status == 200
    assert "%s%n%(x)d" in world.last["message"]
