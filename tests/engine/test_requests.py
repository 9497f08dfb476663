"""What requests are answered, and what is logged: rejected, full, broken, a tick."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from functions_framework import create_app

from shared import wiring
from shared.deliver import MESSAGE_BYTES_MAX, PUBSUB_TYPE, deliver, deliver_tick
from shared.engine.outside import Role
from shared.model.errors import Denied, Throttled, Unavailable
from shared.model.messages import Message, format_message
from tests.audit_entries import an_entry, as_message
from tests.builders import CLUSTER, a_demand_event, a_push
from tests.engine.world import World
from tests.log_records import Records

MAIN = Path(__file__).resolve().parents[2] / "functions" / "main.py"


@pytest.fixture
def records() -> Iterator[Records]:
    found, log = Records(), logging.getLogger("functions")
    before, log.level = log.level, logging.DEBUG
    log.addHandler(found)
    yield found
    log.removeHandler(found)
    log.setLevel(before)


def deliver_demand(world: World) -> int:
    return deliver(Role.PROVISION, a_push(a_demand_event()), world.ports).status


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
    error: Exception, status: int, monkeypatch: pytest.MonkeyPatch, records: Records
) -> None:
    def fail(_cluster: str) -> None:
        raise error

    world = World()
    world.wait(0)
    monkeypatch.setattr(world.gke, "list", fail)

    assert deliver_demand(world) == status
    assert records.found[-1]["severity"] == ("WARNING" if status == 503 else "CRITICAL")


def test_an_end_and_a_tick_get_into_a_full_instance() -> None:
    world = World()
    world.wait(0)
    while world.ports.crew.enter(CLUSTER, clusters=1):
        pass

    assert deliver_demand(world) == 503
    end = a_push(as_message(an_entry()))
    assert deliver(Role.PROVISION, end, world.ports).status == 200
    assert deliver_tick(Role.PROVISION, CLUSTER, world.ports)[0].status == 200
    assert len(world.gke.pools) == 1


def test_one_of_several_clusters_has_half_of_the_deliveries() -> None:
    world = World()
    taken = 0
    while world.ports.crew.enter(CLUSTER, clusters=2):
        taken += 1

    assert taken == 8
    assert world.ports.crew.enter("projects/p/locations/us-east5/clusters/other", clusters=2)


def test_an_instance_takes_so_many_deliveries_whatever_their_clusters() -> None:
    crew = World().ports.crew
    taken = [cluster for cluster in "aaaaaaaabbbbbbbbc" if crew.enter(cluster, clusters=3)]

    assert "".join(taken) == "aaaaaaaabbbbbbbb"


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch, restored_logging: None) -> tuple[Any, World]:
    world = World()
    monkeypatch.setattr(wiring, "_KEPT", dict.fromkeys(Role, world.ports))
    application: Any = create_app("provision", str(MAIN), "http")  # type: ignore[no-untyped-call]
    return application.test_client(), world


def test_a_tick_names_its_cluster_and_one_of_another_is_told(client: tuple[Any, World]) -> None:
    http, world = client
    world.wait(0)

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


def test_a_push_in_the_binary_form_of_cloud_events_is_read(client: tuple[Any, World]) -> None:
    http, world = client
    world.wait(0)
    sent = format_message(a_demand_event())
    headers = {name.title(): value for name, value in sent.attributes.items()}

    assert http.post("/", data=sent.data, headers=headers).status_code == 200
    assert len(world.gke.pools) == 1


def test_a_wrapped_push_with_the_headers_of_a_cloud_event_is_read(client: tuple[Any, World]) -> None:
    http, world = client
    world.wait(0)

    assert http.post("/", data=a_push(a_demand_event()), headers={"ce-type": PUBSUB_TYPE}).status_code == 200
    assert len(world.gke.pools) == 1


def test_a_cloud_event_of_others_is_acknowledged_with_one_record(
    client: tuple[Any, World], records: Records
) -> None:
    http, world = client
    headers = {"ce-type": "com.example.tick", "ce-id": "7", "ce-specversion": "1.0"}

    assert http.post("/", data=b"{}", headers=headers).status_code == 200
    (record,) = records.found
    assert (record["reason"], record["event_id"], world.gke.calls) == ("event_malformed", "7", [])
