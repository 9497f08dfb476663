"""Wire messages read back as written; malformed ones are refused by field and valid values."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.deliver import BODY_BYTES_MAX, parse_push
from shared.model.decisions import Reason
from shared.model.errors import MalformedEvent, Rejected
from shared.model.messages import DATA_BYTES_MAX, Event, EventType, format_message, parse_message
from shared.model.names import ObjectName
from tests.builders import CLUSTER, a_demand_event, a_push, a_workload_demand, an_over_event
from tests.refusals import refuses

NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,60}[a-z0-9])?", fullmatch=True)
OBJECTS = st.builds(
    ObjectName, kind=st.sampled_from(["Pod", "JobSet"]), namespace=NAMES, name=NAMES, uid=st.uuids().map(str)
)
EVENTS = st.builds(
    Event,
    type=st.sampled_from(EventType),
    cluster=st.from_regex(
        r"projects/[a-z0-9.:-]{1,9}/locations/[a-z0-9-]{1,9}/clusters/[a-z0-9-]{1,9}", fullmatch=True
    ),
    subject=OBJECTS,
    time=st.sampled_from(["", "2027-01-15T08:00:00Z"]),
    cause=st.text(max_size=128),
)


TRAIN = {"kind": "JobSet", "namespace": "default", "name": "train", "uid": "5e7d3a52-4f0c-4b7e-9a52-0d9f0f0c1a01"}


def a_demand_of_a_pod() -> Event:
    return a_demand_event(subject=ObjectName(kind="Pod", namespace="default", name="alone", uid="u"))


@given(event=EVENTS)
def test_what_is_written_reads_back_as_it_was(event: Event) -> None:
    message = format_message(event)

    assert parse_message(message.data, message.attributes) == event
    pushed = parse_push(a_push(event)).message
    assert (pushed.data, pushed.attributes) == (message.data, message.attributes)


def test_a_demand_of_a_workload_is_exactly_this_on_the_wire() -> None:
    message = format_message(a_workload_demand())

    assert json.loads(message.data) == TRAIN | {"version": 1, "cause": "9b1f4c62-7a54-4e0b-8a44-4d2b1c9e7f02"}
    assert message.attributes["ce-type"] == "tpuprovisioner.demand.v1"
    assert message.attributes["ce-subject"] == "namespaces/default/jobsets/train"


@pytest.mark.parametrize("given", [{"uid": ""}, {}])
def test_a_demand_of_a_workload_may_lack_its_uid(given: dict[str, str]) -> None:
    event = a_workload_demand(uid="")
    message = format_message(event)
    found = json.loads(message.data)
    del found["uid"]

    assert parse_message(json.dumps(found | given).encode(), message.attributes) == event


@pytest.mark.parametrize("event", [an_over_event(), a_demand_of_a_pod()])
def test_no_other_message_may_lack_the_uid(event: Event) -> None:
    message = format_message(event)
    found = json.loads(message.data)
    del found["uid"]

    for body in (found, found | {"uid": ""}):
        assert refusal(json.dumps(body).encode(), message.attributes).field == "data.uid"


def test_a_workload_s_end_names_the_jobset() -> None:
    found = format_message(an_over_event("Suspended")).attributes

    assert found["ce-type"] == "tpuprovisioner.workload-over.v1"
    assert found["ce-subject"] == "namespaces/default/jobsets/train"


def test_an_observation_has_one_id_whoever_reports_it_and_another_one_has_another() -> None:
    over, demand = an_over_event(time="a"), a_workload_demand()
    others = [
        an_over_event(cluster="projects/p/locations/l/clusters/other"),
        an_over_event(cause="Failed"),
        an_over_event(uid="another"),
        an_over_event(type=EventType.DEMAND),
    ]

    assert over.id == an_over_event(time="b").id
    assert over.id not in {each.id for each in others}
    assert demand.id != a_workload_demand(cause="another").id


def attributes(**change: str | None) -> dict[str, str]:
    found: dict[str, str | None] = {**format_message(a_demand_event()).attributes}
    found |= {key.replace("_", "-"): value for key, value in change.items()}
    return {key: value for key, value in found.items() if value is not None}


def body(**change: Any) -> bytes:
    found = json.loads(format_message(a_demand_event()).data) | change
    return json.dumps({key: value for key, value in found.items() if value != "left out"}).encode()


def refusal(data: bytes, given: dict[str, str]) -> Rejected:
    with refuses(MalformedEvent) as refused:
        parse_message(data, given)
    assert refused.value.reason == Reason.EVENT_MALFORMED
    return refused.value


SOURCE, OF_GKE = "ce-source", "//container.googleapis.com/"


@pytest.mark.parametrize(
    ("name", "value", "valid"),
    [
        ("ce-specversion", None, "missing"),
        ("ce-specversion", "0.3", "0.3"),
        ("ce-type", None, "missing"),
        ("ce-type", "tpuprovisioner.demand.v2", "tpuprovisioner.demand.v2"),
        (SOURCE, None, "missing"),
        (SOURCE, CLUSTER, OF_GKE),
        (SOURCE, f"{OF_GKE}{CLUSTER}/x", "clusters"),
        (SOURCE, f"{OF_GKE}{CLUSTER}\n", "clusters"),
        (SOURCE, f"{OF_GKE}projects/p/zones/z/clusters/c", "locations"),
    ],
)
def test_a_malformed_attribute_is_named_with_what_would_be_valid(name: str, value: str | None, valid: str) -> None:
    error = refusal(body(), attributes(**{name: value}))

    assert error.field == "attributes"
    assert name in str(error)
    assert valid in str(error)


WRONG: dict[str, list[Any]] = {
    "version": [2, 3, "1", True, "left out"],
    "kind": ["Node", ["Pod"], "left out"],
    "namespace": ["", "../kube-system"],
    "name": ["Train", "a/b", "a" * 254, "für", "a\n", 7, None],
    "uid": ["u" * 129, "a b"],
    "cause": ["x" * 129, 3],
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in WRONG.items() for value in values]
)
def test_a_malformed_field_is_named(field: str, value: Any) -> None:
    error = refusal(body(**{field: value}), attributes())

    assert error.field == "data"
    assert field in str(error)


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"nonsense", b"\xff\xfe\xfa", b"[" * 60_000, b'{"a":1}{"b":2}'),
        *(b"[]", b"null", b"1", b'"text"', b"NaN"),
    ],
)
def test_data_that_is_no_json_or_no_object_is_refused(data: bytes) -> None:
    error = refusal(data, attributes())

    assert error.field == "data"


def test_data_at_its_bound_is_read_and_beyond_it_is_refused_unread() -> None:
    error = refusal(b" " * (DATA_BYTES_MAX + 1), attributes())

    assert (error.field, error.value) == ("data", "65537 bytes")
    assert parse_message(body().ljust(DATA_BYTES_MAX), attributes()).subject.name == "train"


def test_a_long_value_is_shortened_in_the_text() -> None:
    assert len(str(refusal(body(name="A" * 60_000), attributes()))) < 300


def test_nesting_of_any_depth_is_refused_and_never_crashes() -> None:
    for depth in range(1, 1100, 7):
        refusal(b'{"version":1,"kind":' + b"[" * depth + b"]" * depth + b"}", attributes())
        refusal(b"[" * depth + b"]" * depth, attributes())


def test_fields_that_a_later_version_adds_are_let_through() -> None:
    assert parse_message(body(priority="high"), attributes(ce_dataschema="x")) == a_demand_event()


@given(data=st.binary(max_size=200), given=st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=5))
def test_garbage_is_refused_and_nothing_else_happens(data: bytes, given: dict[str, str]) -> None:
    refusal(data, given)
    refusal(data, attributes() | given)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(change=st.dictionaries(st.sampled_from(["version", "kind", "name", "uid", "cause"]), JSON))
def test_any_json_in_any_field_is_read_or_refused(change: dict[str, Any]) -> None:
    refused: Rejected | None = None
    try:
        parse_message(body(**change), attributes())
    except Rejected as error:
        refused = error
    assert refused is None or refused.field == "data"


# --- the envelope ---


NO_BASE64 = "Invalid base64 encoded string - at `$.message.data`"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", ""),
        (b"not json", ""),
        (b"{", "Input data was truncated (got '{')"),
        (b"a=b", "JSON is malformed: invalid character (byte 0) (got 'a=b')"),
        (b"[]", "Expected `object`, got `array` (got '[]')"),
        (b"{}", "Object missing required field `message` (got '{}')"),
        (b'{"message": null}', ""),
        (b'{"message": {"attributes": {"a": 1}}}', "Expected `str`, got `int` - at `$.message.attributes[...]`"),
        (b'{"message": {"attributes": null}}', ""),
        (b'{"message": {"data": 7}}', ""),
        (b'{"message": {"data": "%%%"}}', NO_BASE64),
        (b'{"message": {"data": "YQ"}}', NO_BASE64),
        ('{"message": {"data": "ü"}}'.encode(), NO_BASE64),
        (b'{"message": {"data": "\xff"}}', ""),
    ],
)
def test_what_is_no_push_is_refused_with_the_place(raw: bytes, message: str) -> None:
    with refuses(MalformedEvent) as refused:
        parse_push(raw)
    assert refused.value.field == "body"
    assert message in str(refused.value)


def test_a_push_is_read_with_its_delivery_attempt_and_may_have_no_data() -> None:
    push = parse_push(a_push(a_demand_event(), delivery_attempt=3))
    empty = parse_push(b'{"message": {"attributes": {"a": "b"}}}')

    assert (push.message.message_id, push.delivery_attempt) == ("1001", 3)
    assert parse_push(a_push(a_demand_event(), delivery_attempt=None)).delivery_attempt == 0
    assert (empty.message.data, empty.message.attributes) == (b"", {"a": "b"})


def test_a_body_beyond_what_pubsub_can_send_is_refused_unread() -> None:
    with refuses(MalformedEvent, match="too long"):
        parse_push(b" " * (BODY_BYTES_MAX + 1))


@given(raw=st.binary(max_size=300))
def test_a_garbage_body_is_refused_and_nothing_else_happens(raw: bytes) -> None:
    with refuses(MalformedEvent):
        parse_push(raw)
