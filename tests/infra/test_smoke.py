"""The test event of a deployment is one that the function reads, answers and logs."""

import logging

import pytest

from infra.build.smoke_event import list_lines
from shared.deliver import IDLE, deliver
from shared.engine.outside import Role
from shared.model.messages import EventType, Message, format_message, parse_message
from tests.builders import CLUSTER, a_push
from tests.engine.world import World
from tests.infra.bench import BUILD

UID = "7b9cf4de-0000-4000-8000-000000000000"


def read_message() -> Message:
    """The message as the smoke test publishes it."""
    _, attributes, data = list_lines(CLUSTER, UID)
    return Message(data.encode(), dict(each.split("=", 1) for each in attributes.split(",")))


def test_the_event_is_what_the_exporter_would_send() -> None:
    message = read_message()
    event = parse_message(message.data, message.attributes)

    assert (event.type, event.cluster, event.subject.uid) == (EventType.DEMAND, CLUSTER, UID)
    assert message.attributes == format_message(event).attributes | {"ce-id": UID}


def test_the_function_writes_the_record_that_the_smoke_test_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "functions"):
        deliver(Role.PROVISION, a_push(read_message()), World().ports)

    (record,) = caplog.records
    assert (record.message, vars(record)["event_id"]) == (IDLE, UID)
    assert f'jsonPayload.message=\\"{IDLE}\\"' in (BUILD / "smoke.sh").read_text()
