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


def read_attributes(line: str) -> dict[str, str]:
    return dict(each.split("=", 1) for each in line.split(","))


def test_the_event_is_what_the_exporter_would_send() -> None:
    name, attributes, data = list_lines(CLUSTER, UID)
    event = parse_message(data.encode(), read_attributes(attributes))
    message = format_message(event)

    assert (event.type, event.cluster, event.subject.uid) == (EventType.DEMAND, CLUSTER, UID)
    assert read_attributes(attributes) | {"ce-id": ""} == message.attributes | {"ce-id": ""}
    assert read_attributes(attributes)["ce-id"] == name == UID


def test_the_function_writes_the_record_that_the_smoke_test_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    name, attributes, data = list_lines(CLUSTER, UID)
    push = a_push(Message(data.encode(), read_attributes(attributes)))
    with caplog.at_level(logging.INFO, "functions"):
        deliver(Role.PROVISION, push, World().ports)

    (record,) = caplog.records
    assert (record.message, vars(record)["event_id"]) == (IDLE, name)
    assert f'jsonPayload.message=\\"{IDLE}\\"' in (BUILD / "smoke.sh").read_text()
