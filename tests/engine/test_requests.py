"""What requests are answered, and what is logged: rejected, full, broken, a tick."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from functions_framework import create_app

from shared import deliver as function
from shared.deliver import IDLE, MESSAGE_BYTES_MAX, PUBSUB_TYPE, deliver, deliver_tick
from shared.engine.outside import Role
from shared.model.errors import Denied, Throttled, Unavailable
from shared.model.messages import EventType, Message, format_message
from tests.audit_entries import an_entry, as_message
from tests.builders import CLUSTER, a_demand_event, a_push
from tests.engine.world import World
from tests.log_records import Records

MAIN = Path(__file__).resolve().parents[2] / "functions" / "main.py"


@pytest.fixture
def records() -> Iterator[Records]:
    found, log = Records(), logging.getLogger("functions")
    before = log.level
    log.setLevel(logging.DEBUG)  # which forgets what a logger remembers of its levels
    log.addHandler(found)
    yield found
    log.removeHandler(found)
    log.setLevel(before)


def push(event_type: EventType = EventType.DEMAND, cluster: str = CLUSTER) -> bytes:
    return a_push(a_demand_event(type=event_type, cluster=cluster))


def waiting() -> World:
    """A JobSet of one slice that waits."""
    world = World()
    world.wait(0)
    return world


def test_a_demand_creates_and_is_acknowledged_and_a_tick_counts_what_it_did(records: Records) -> None:
    world, ticked = waiting(), waiting()

    assert [deliver(Role.PROVISION, push(), world.ports).status for _ in range(2)] == [200, 200]
    assert [each.get("reason", each["message"]) for each in records.found] == ["pool_absent", IDLE]
    answer, counts = deliver_tick(Role.PROVISION, CLUSTER, ticked.ports)
    assert (answer.status, counts["create"], counts["errors"]) == (200, 1, 0)
    assert len(world.gke.pools) == len(ticked.gke.pools) == 1
    ticked.fail("list pools", Unavailable("gone"))
    assert deliver_tick(Role.PROVISION, CLUSTER, ticked.ports)[0].status == 503


@pytest.mark.parametrize(
    ("entry", "reasons"),
    [
        ({}, ["pool_created"]),
        ({"cluster": "projects/p/locations/us-east5/clusters/other"}, []),
        ({"last": False}, []),
    ],
    ids=["of ours", "of another cluster", "a create that only begins"],
)
def test_the_end_of_an_operation_is_told_and_any_other_entry_is_acknowledged(
    entry: dict[str, Any], reasons: list[str], records: Records
) -> None:
    world = World()
    (pool,) = world.buy(0)

    answer = deliver(Role.PROVISION, a_push(as_message(an_entry(pool=pool, **entry))), world.ports)

    assert (answer.status, [each["reason"] for each in records.found]) == (200, reasons)


@pytest.mark.parametrize(
    ("role", "body"),
    [
        (Role.PROVISION, b"nonsense"),
        (Role.PROVISION, push(cluster="projects/p/locations/us-east5/clusters/other")),
        (Role.PROVISION, push(EventType.WORKLOAD_OVER)),
        (Role.COLLECT, push()),
    ],
)
def test_what_can_never_succeed_and_what_is_the_other_function_s_is_acknowledged(role: Role, body: bytes) -> None:
    world = waiting()

    assert deliver(role, body, world.ports).status == 200
    assert not world.gke.calls


def test_a_key_under_way_is_looked_at_once_more() -> None:
    world = waiting()
    crew, key = world.ports.crew, world.key
    assert (crew.begin(key), crew.goes_on(key)) == (True, True)

    assert deliver(Role.PROVISION, push(), world.ports).status == 200

    assert not world.gke.pools
    assert (crew.goes_on(key), crew.goes_on(key)) == (True, False)


@pytest.mark.parametrize("attributes", [{}, {"ce-type": "tpuprovisioner.demand.v9", "ce-id": "7"}])
def test_what_is_no_message_and_no_entry_is_acknowledged_with_one_record_of_it(
    attributes: dict[str, str], records: Records
) -> None:
    world, data = World(), b'"' + b"x" * 2 * MESSAGE_BYTES_MAX + b'"'

    answer = deliver(Role.COLLECT, a_push(Message(data, attributes)), world.ports)

    (record,) = records.found
    assert (answer.status, world.gke.calls) == (200, [])
    assert (record["severity"], record["reason"], record["decision"]) == ("WARNING", "event_malformed", "reject")
    assert record["event_id"] == attributes.get("ce-id", "")
    assert record["event_data"] == data[:MESSAGE_BYTES_MAX].decode() + f"… ({len(data)} bytes)"


@pytest.mark.parametrize(
    ("error", "status"),
    [(Unavailable("gone"), 503), (Throttled("slow"), 503), (Denied("no"), 500), (KeyError(), 500)],
)
def test_what_a_retry_may_mend_comes_back_and_what_a_person_must_mend_is_loud(
    error: Exception, status: int, records: Records
) -> None:
    world = waiting()
    world.fail("list pools", error)

    assert deliver(Role.PROVISION, push(), world.ports).status == status
    assert records.found[-1]["severity"] == ("WARNING" if status == 503 else "CRITICAL")


def test_a_full_instance_asks_for_the_message_again_and_an_end_and_a_tick_get_in() -> None:
    world = waiting()
    while world.ports.crew.enter(CLUSTER, clusters=1):
        pass

    assert deliver(Role.PROVISION, push(), world.ports).status == 503
    end = a_push(as_message(an_entry()))
    assert deliver(Role.PROVISION, end, world.ports).status == 200
    assert deliver_tick(Role.PROVISION, CLUSTER, world.ports)[0].status == 200
    assert len(world.gke.pools) == 1


def test_an_instance_takes_so_many_deliveries_and_of_one_of_several_clusters_half_of_them() -> None:
    crew = World().ports.crew
    taken = [cluster for cluster in "aaaaaaaaabbbbbbbbbc" if crew.enter(cluster, clusters=2)]

    assert "".join(taken) == "aaaaaaaabbbbbbbb"
    crew.leave("a")
    assert [crew.enter(cluster, clusters=2) for cluster in "aa"] == [True, False]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch, restored_logging: None) -> tuple[Any, World]:
    world = waiting()
    monkeypatch.setattr(function, "_KEPT", dict.fromkeys(Role, world.ports))
    application: Any = create_app("provision", str(MAIN), "http")  # type: ignore[no-untyped-call]
    return application.test_client(), world


def test_a_tick_names_its_cluster_and_one_of_another_is_told(client: tuple[Any, World]) -> None:
    http, _ = client

    answer = http.post(f"/tick?cluster={CLUSTER}")
    assert (answer.status_code, json.loads(answer.data)["create"]) == (200, 1)
    assert http.post("/tick?cluster=projects/p/locations/l/clusters/other").status_code == 400
    assert http.post("/tick").status_code == 400


@pytest.mark.parametrize(("method", "path"), [("GET", "/"), ("HEAD", "/"), ("GET", "/tick"), ("PUT", "/")])
def test_only_a_post_is_answered_so_that_a_probe_leaves_no_record(
    method: str, path: str, client: tuple[Any, World], records: Records
) -> None:
    http, world = client

    answer = http.open(path, method=method)
    assert (answer.status_code, answer.headers["Allow"], world.gke.calls) == (405, "POST", [])
    assert records.found == []


@pytest.mark.parametrize("binary", [True, False])
def test_a_push_is_read_in_the_binary_form_of_cloud_events_and_wrapped_with_their_headers(
    binary: bool, client: tuple[Any, World]
) -> None:
    http, world = client
    sent = format_message(a_demand_event())
    headers = {name.title(): value for name, value in sent.attributes.items()}
    data = sent.data if binary else push()

    answer = http.post("/", data=data, headers=headers if binary else {"ce-type": PUBSUB_TYPE})
    assert answer.status_code == 200
    assert len(world.gke.pools) == 1


def test_a_cloud_event_of_others_is_acknowledged_with_one_record(
    client: tuple[Any, World], records: Records
) -> None:
    http, world = client
    headers = {"ce-type": "com.example.tick", "ce-id": "7", "ce-specversion": "1.0"}

    assert http.post("/", data=b"{}", headers=headers).status_code == 200
    (record,) = records.found
    assert (record["reason"], record["event_id"], world.gke.calls) == ("event_malformed", "7", [])
