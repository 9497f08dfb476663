"""Messages and audit entries read back as written; malformed ones are refused by their field."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.deliver import BODY_BYTES_MAX, parse_push
from shared.model.decisions import Reason
from shared.model.errors import Rejected
from shared.model.messages import (
    DATA_BYTES_MAX,
    ENTRY_BYTES_MAX,
    EndedOperation,
    Event,
    EventType,
    format_message,
    parse_entry,
    parse_message,
)
from shared.model.names import ObjectName, build_name
from tests.audit_entries import STOCKOUT, an_entry
from tests.builders import CLUSTER, a_claim, a_demand_event, a_push, an_over_event
from tests.demands import refuses

NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,60}[a-z0-9])?", fullmatch=True)
OBJECTS = st.builds(
    ObjectName, kind=st.sampled_from(["Pod", "JobSet"]), namespace=NAMES, name=NAMES, uid=st.uuids().map(str)
)
PROJECTS = r"projects/[a-z0-9.:-]{1,9}/locations/[a-z0-9-]{1,9}/clusters/[a-z0-9-]{1,9}"
EVENTS = st.builds(
    Event,
    type=st.sampled_from(EventType),
    cluster=st.from_regex(PROJECTS, fullmatch=True),
    subject=OBJECTS,
    cause=st.text(max_size=128),
)
TRAIN = {"kind": "JobSet", "namespace": "default", "name": "train", "uid": "5e7d3a52-4f0c-4b7e-9a52-0d9f0f0c1a01"}


@given(event=EVENTS)
def test_what_is_written_reads_back_as_it_was(event: Event) -> None:
    message = format_message(event)

    assert parse_message(message.data, message.attributes) == event
    pushed = parse_push(a_push(event)).message
    assert (pushed.data, pushed.attributes) == (message.data, message.attributes)


def test_a_demand_of_a_workload_is_exactly_this_on_the_wire_and_an_end_has_its_own_type() -> None:
    message, over = format_message(a_demand_event()), format_message(an_over_event("Suspended")).attributes

    assert json.loads(message.data) == TRAIN | {"version": 1, "cause": "9b1f4c62-7a54-4e0b-8a44-4d2b1c9e7f02"}
    assert message.attributes["ce-type"] == "tpuprovisioner.demand.v1"
    assert over["ce-type"] == "tpuprovisioner.workload-over.v1"
    assert message.attributes["ce-subject"] == over["ce-subject"] == "namespaces/default/jobsets/train"


A_POD = a_demand_event(subject=ObjectName(kind="Pod", namespace="default", name="alone", uid="u"))


@pytest.mark.parametrize("uid", [{"uid": ""}, {}])
@pytest.mark.parametrize(
    ("event", "may_lack"), [(a_demand_event(uid=""), True), (an_over_event(), False), (A_POD, False)]
)
def test_only_a_demand_of_a_workload_may_lack_its_uid(event: Event, may_lack: bool, uid: dict[str, str]) -> None:
    message = format_message(event)
    fields = {key: value for key, value in json.loads(message.data).items() if key != "uid"}
    data = json.dumps(fields | uid).encode()

    if may_lack:
        assert parse_message(data, message.attributes) == event
    else:
        assert "uid" in str(refusal(data, message.attributes))


def test_an_observation_has_one_id_whoever_reports_it_and_another_one_has_another() -> None:
    over, demand = an_over_event(), a_demand_event()
    others = [
        an_over_event(cluster="projects/p/locations/l/clusters/other"),
        an_over_event(cause="Failed"),
        an_over_event(uid="another"),
        an_over_event(type=EventType.DEMAND),
    ]

    assert (over.id, len(over.id)) == (an_over_event().id, 32)
    assert over.id not in {each.id for each in others}
    assert demand.id != a_demand_event(cause="another").id


def attributes(**change: str | None) -> dict[str, str]:
    found: dict[str, str | None] = {**format_message(a_demand_event()).attributes}
    found |= {key.replace("_", "-"): value for key, value in change.items()}
    return {key: value for key, value in found.items() if value is not None}


def body(**change: Any) -> bytes:
    found = json.loads(format_message(a_demand_event()).data) | change
    return json.dumps({key: value for key, value in found.items() if value != "left out"}).encode()


def refusal(data: bytes, given: dict[str, str]) -> Rejected:
    with refuses(Reason.EVENT_MALFORMED) as refused:
        parse_message(data, given)
    assert refused.value.reason == Reason.EVENT_MALFORMED
    return refused.value


SOURCE, OF_GKE = "ce-source", "//container.googleapis.com/"


@pytest.mark.parametrize(
    ("name", "value", "words"),
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
def test_a_malformed_attribute_is_named(name: str, value: str | None, words: str) -> None:
    error = refusal(body(), attributes(**{name: value}))

    assert error.field == "attributes"
    assert [each for each in (name, words) if each not in str(error)] == []


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


NO_OBJECTS = (b"", b"{", b"nonsense", b"\xff\xfe\xfa", b"[" * 60_000, b'{"a":1}{"b":2}')


@pytest.mark.parametrize("data", [*NO_OBJECTS, b"[]", b"null", b"1", b'"text"', b"NaN"])
def test_data_that_is_no_json_or_no_object_is_refused(data: bytes) -> None:
    assert refusal(data, attributes()).field == "data"


def test_data_at_its_bound_is_read_and_beyond_it_is_refused_unread() -> None:
    error = refusal(b" " * (DATA_BYTES_MAX + 1), attributes())

    assert (error.field, error.value) == ("data", "65537 bytes")
    assert parse_message(body().ljust(DATA_BYTES_MAX), attributes()).subject.name == "train"
    assert len(str(refusal(body(name="A" * 60_000), attributes()))) < 300
    for depth in range(1, 1100, 7):
        refusal(b'{"version":1,"kind":' + b"[" * depth + b"]" * depth + b"}", attributes())


def test_fields_that_a_later_version_adds_are_let_through() -> None:
    assert parse_message(body(priority="high"), attributes(ce_dataschema="x")) == a_demand_event()


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
        (b" " * (BODY_BYTES_MAX + 1), "too long"),
    ],
    ids=range(15),
)
def test_what_is_no_push_is_refused_with_the_place(raw: bytes, message: str) -> None:
    with refuses(Reason.EVENT_MALFORMED) as refused:
        parse_push(raw)
    assert refused.value.field == "body"
    assert message in str(refused.value)


def test_a_push_is_read_with_its_delivery_attempt_and_may_have_no_data() -> None:
    push = parse_push(a_push(a_demand_event(), delivery_attempt=3))
    empty = parse_push(b'{"message": {"attributes": {"a": "b"}}}')

    assert (push.message.message_id, push.delivery_attempt) == ("1001", 3)
    assert parse_push(a_push(a_demand_event(), delivery_attempt=None)).delivery_attempt == 0
    assert (empty.message.data, empty.message.attributes) == (b"", {"a": "b"})


# --- of the audit log's entries only the ends of creates and deletes are read ---


METHOD = "protoPayload.methodName"
POOL, ZONAL = build_name(a_claim(), 0), CLUSTER.replace("us-east5", "us-east5-b")


def parse(entry: object) -> EndedOperation | None:
    return parse_entry(json.dumps(entry).encode())


def changed(path: str, value: Any) -> dict[str, Any]:
    """The plain entry with one field changed, or left out for the value None."""
    entry: dict[str, Any] = copy.deepcopy(an_entry())
    *parents, field = path.split(".")
    parent = entry
    for each in parents:
        parent = parent[each]
    if value is None:
        del parent[field]
    else:
        parent[field] = value
    return entry


@pytest.mark.parametrize(
    ("entry", "ended"),
    [
        (an_entry(), {"created": True}),
        (changed(METHOD, "google.container.v1beta1.ClusterManager.CreateNodePool"), {"created": True}),
        (changed(METHOD, "google.container.v1alpha1.ClusterManager.CreateNodePool"), {"created": True}),
        (an_entry(status={"code": 0}), {"created": True}),
        (changed("protoPayload.status", None), {"created": True}),
        (an_entry(cluster=ZONAL), {"created": True, "cluster": ZONAL}),
        (an_entry(status=STOCKOUT), {"problem": STOCKOUT["message"]}),
        (an_entry("Delete"), {"deleted": True}),
        (an_entry("Delete", status=STOCKOUT), {"deleted": True, "problem": STOCKOUT["message"]}),
        (an_entry("Delete", status={"code": 13}), {"deleted": True, "problem": "code 13"}),
    ],
)
def test_the_end_of_a_create_or_delete_names_cluster_pool_and_success(entry: Any, ended: dict[str, Any]) -> None:
    plain: dict[str, Any] = {"cluster": CLUSTER, "pool": POOL, "created": False, "deleted": False, "problem": ""}

    assert parse(entry) == EndedOperation(**plain | ended)


@pytest.mark.parametrize(
    "entry",
    [
        an_entry(last=False),
        an_entry("Update"),
        changed("operation", None),  # a call that GKE refused at once
        changed("operation.last", False),
        changed("operation.last", "true"),
        changed("resource.type", "gke_cluster"),
        changed(METHOD, "google.container.internal.ClusterManagerInternal.UpdateCluster"),
        changed(METHOD, "google.container.v1.ClusterManager.CreateNodePool.Evil"),
        changed("protoPayload", None),  # of another log
    ],
)
def test_an_entry_about_anything_else_is_none(entry: dict[str, Any]) -> None:
    assert parse(entry) is None


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *(("resource", None), ("resource", []), ("resource.type", 1)),
        *(("resource.labels", None), ("resource.labels", "x"), ("resource.labels.nodepool_name", {"a": 1})),
        *(("protoPayload", "text"), (METHOD, 5), ("protoPayload.status", "ok")),
        ("operation", "last"),
    ],
)
def test_a_field_of_another_form_is_refused_by_name(path: str, value: Any) -> None:
    with refuses(Reason.EVENT_MALFORMED) as refused:
        parse(changed(path, value))

    assert path.rpartition(".")[0] in str(refused.value)


@pytest.mark.parametrize(
    "data", [b"", b"?", b"\xff", b"[]", b"null", b"7", b"[" * 100_000, b'{"a":"' + b"x" * ENTRY_BYTES_MAX + b'"}']
)
def test_data_that_is_no_entry_is_refused(data: bytes) -> None:
    with refuses(Reason.EVENT_MALFORMED):
        parse_entry(data)
