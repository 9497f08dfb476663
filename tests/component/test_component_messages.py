"""What can never succeed is kept with its reason and acknowledged; nothing that arrives is lost."""

import json

import pytest

from shared.core.errors import Broken, Rejected
from shared.core.messages import Message, format_message
from shared.traces import LOG_FIELD, TRACE_ATTRIBUTE, add_trace, build_log_field
from tests.builders import CLUSTER, a_demand_event, a_push, an_over_event
from tests.component.world import TRACE, World

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
def test_a_malformed_message_is_kept_as_it_came_with_its_reason(
    world: World, sent: Message, field: str, function: str
) -> None:
    assert world.deliver(sent, function).status == 200
    (kept,) = world.dead_letters.kept
    assert kept.data == sent.data
    assert sent.attributes.items() <= kept.attributes.items()
    assert kept.attributes["tpu-provisioner-reason"] == "event_malformed"
    assert kept.attributes["tpu-provisioner-error"].startswith(f"{field}: ")
    assert kept.attributes["tpu-provisioner-function"] == function
    assert kept.attributes["tpu-provisioner-message-id"] == "1001"
    assert world.pools.calls == []


@pytest.mark.parametrize(
    ("body", "error"),
    [
        *((body, "") for body in (b"", b"not json", b"[1]", b'{"message": null}', b'{"subscription": "s"}')),
        pytest.param(b'{"message": {"data": "%%%"}}', "body.message.data", id="bad base64"),
    ],
)
def test_a_body_that_is_no_push_is_kept_whole(world: World, body: bytes, error: str) -> None:
    assert world.deliver(body).status == 200

    (kept,) = world.dead_letters.kept
    assert kept.data == body
    assert kept.attributes["tpu-provisioner-reason"] == "event_malformed"
    assert error in kept.attributes["tpu-provisioner-error"]
    assert "tpu-provisioner-message-id" not in kept.attributes


def test_what_is_kept_is_logged_with_field_and_valid_values(world: World) -> None:
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


def test_an_event_of_another_cluster_is_kept_with_the_clusters_that_there_are(world: World) -> None:
    elsewhere = "projects/p/locations/us-east5/clusters/elsewhere"

    assert world.deliver(a_demand_event(cluster=elsewhere)).status == 200
    (kept,) = world.dead_letters.kept
    assert kept.attributes["tpu-provisioner-reason"] == "cluster_unknown"
    assert elsewhere in kept.attributes["tpu-provisioner-error"]
    assert CLUSTER in kept.attributes["tpu-provisioner-error"]
    assert world.pools.calls == []


def test_a_message_that_cannot_be_kept_is_handed_back(world: World) -> None:
    world.dead_letters.down = True

    assert world.deliver(changed(b"not json")).status == 503
    assert "topic unreachable" in world.last["not_kept"]


def test_without_a_dead_letter_topic_pubsub_s_own_policy_keeps_it(world: World) -> None:
    world.use(keep_dead_letters=False)

    assert world.deliver(changed(b"not json")).status == 500


def test_long_texts_are_cut_to_what_pubsub_takes(world: World) -> None:
    many = {f"key-{number}": "v" for number in range(100)}
    world.deliver(Message(b"x", many | {"ce-specversion": "ü" * 2000}))
    (kept,) = world.dead_letters.kept

    assert len(kept.attributes) <= 100
    assert all(len(value.encode()) <= 1024 for key, value in kept.attributes.items() if key.startswith("tpu-"))


def test_a_huge_body_is_kept_within_what_pubsub_takes(world: World) -> None:
    world.deliver(b" " * 14_000_001)

    assert len(world.dead_letters.kept[0].data) == 1_000_000


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
    forged = json.loads(GOOD.data) | {"name": "no-such-pod", "uid": "x", "workload": None}
    world.deliver(changed(json.dumps(forged).encode()))

    assert world.says() == ("nothing", "demand_gone")
    assert world.pools.calls == []


def test_a_bug_of_ours_is_never_acknowledged(world: World) -> None:
    world.cluster.fail_next("get_pod", Broken("an invariant is false"))

    assert world.deliver(a_demand_event()).status == 500
    assert world.last["severity"] == "CRITICAL"
    assert world.dead_letters.kept == []


def test_a_rejection_from_deep_within_is_kept_too(world: World) -> None:
    world.cluster.fail_next("get_pod", Rejected("wrong", field="f", value="v", valid="w"))

    assert world.deliver(a_demand_event()).status == 200
    assert world.dead_letters.kept[0].attributes["tpu-provisioner-error"] == "f: wrong (got 'v'); valid: w"


def test_a_message_of_percent_signs_is_data_and_no_format(world: World) -> None:
    assert world.deliver(a_demand_event(incarnation="%s %d %(name)s")).status == 200
    assert world.deliver(changed(ce_type="%s%n%(x)d")).status == 200
    assert "%s%n%(x)d" in world.last["message"]


def test_the_records_of_a_delivery_join_the_trace_that_began_at_the_exporter(world: World) -> None:
    event = a_demand_event()
    for _ in range(2):
        world.deliver(add_trace(format_message(event), event))

    created, repeated = world.records.expect_in_order({"decision": "create"}, {"decision": "wait"})
    trace = build_log_field(CLUSTER, event.id)[LOG_FIELD]
    assert created[LOG_FIELD] == repeated[LOG_FIELD] == trace
    assert created["request_trace"] == TRACE[LOG_FIELD]


def test_a_malformed_trace_leaves_the_requests_own(world: World) -> None:
    message = format_message(a_demand_event())
    world.deliver(Message(message.data, {**message.attributes, TRACE_ATTRIBUTE: "00-evil-01"}))

    assert world.last[LOG_FIELD] == TRACE[LOG_FIELD]
    assert "request_trace" not in world.last
