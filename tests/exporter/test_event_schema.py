"""Do the published schema and the code agree on what a message is?"""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from exporter.observed_objects import ObservedPods, ObservedQueues, ObservedWorkloads
from shared.edges.kueue import read_queued
from shared.kinds.jobset import JOBSET
from shared.kinds.table import get_kind
from shared.model.errors import MalformedEvent
from shared.model.messages import KINDS_PLURAL, Event, EventType, format_message, parse_message
from shared.model.names import ObjectName
from tests.exporter.exporter_builders import (
    CLUSTER,
    SINCE,
    a_leader,
    completed,
    read_jobset,
    read_leader,
    suspended,
)
from tests.refusals import refuses
from tests.rules.test_kueue import a_workload

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "events.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
BARE = get_kind("Pod")


def as_document(event: Event) -> dict[str, Any]:
    message = format_message(event)
    return {"attributes": message.attributes, "data": json.loads(message.data)}


def every_event() -> list[Event]:
    """Everything that the exporter can come to say, through its own observations."""
    pods, jobsets = ObservedPods(CLUSTER, JOBSET), ObservedWorkloads(CLUSTER, JOBSET)
    failed = ("Failed", "True", SINCE)

    return [
        *pods.see(read_leader()),
        *pods.see(read_leader("old", labels=old_labels())),
        *ObservedPods(CLUSTER, BARE).see(read_leader("bare", labels={})),
        *jobsets.see(read_jobset("a", conditions=(completed(),))),
        *jobsets.see(read_jobset("b", conditions=(failed,))),
        *jobsets.see(read_jobset("c", conditions=(suspended(),))),
        *jobsets.see(read_jobset("c", deleting=SINCE)),
        *jobsets.lose(read_jobset("c")),
        *jobsets.see(read_jobset("d", replicas=2)),
        *jobsets.see(read_jobset("d", replicas=1)),
        *ObservedQueues(CLUSTER).see(read_queued(a_workload())),
    ]


def old_labels() -> dict[str, str]:
    return {k: v for k, v in a_leader()["metadata"]["labels"].items() if not k.endswith("jobset-uid")}


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("event", every_event(), ids=lambda event: f"{event.subject.kind} {event.cause}")
def test_what_the_exporter_says_is_valid_and_can_be_read_back(event: Event) -> None:
    VALIDATOR.validate(as_document(event))
    message = format_message(event)
    assert parse_message(message.data, message.attributes) == event


def test_the_schema_lists_exactly_the_words_that_the_code_knows() -> None:
    definitions = SCHEMA["$defs"]
    assert definitions["attributes"]["properties"]["ce-type"]["enum"] == [str(each) for each in EventType]
    assert set(definitions["kind"]["enum"]) == set(KINDS_PLURAL)


GOOD = as_document(
    Event(
        type=EventType.DEMAND,
        cluster=CLUSTER,
        subject=ObjectName(kind="Pod", namespace="team-a", name="train-0", uid="u"),
        time=SINCE,
    )
)
WRONG: dict[str, tuple[str, str, Any]] = {
    "another specversion": ("attributes", "ce-specversion", "0.3"),
    "an unknown type": ("attributes", "ce-type", "tpuprovisioner.demand.v2"),
    "no cluster": ("attributes", "ce-source", "//container.googleapis.com/projects/p"),
    "an unknown version": ("data", "version", 2),
    "no uid": ("data", "uid", ""),
    "an unknown kind": ("data", "kind", "DaemonSet"),
    "an illegal name": ("data", "name", "Train_0"),
    "an illegal namespace": ("data", "namespace", ""),
    "an illegal uid": ("data", "uid", "a b"),
    "a cause that is no text": ("data", "cause", 7),
}


@pytest.mark.parametrize(("part", "field", "value"), WRONG.values(), ids=WRONG)
def test_schema_and_parser_refuse_the_same(part: str, field: str, value: Any) -> None:
    VALIDATOR.validate(GOOD)
    wrong = {**GOOD, part: GOOD[part] | {field: value}}
    assert not VALIDATOR.is_valid(wrong)
    with refuses(MalformedEvent):
        parse_message(json.dumps(wrong["data"]).encode(), wrong["attributes"])
