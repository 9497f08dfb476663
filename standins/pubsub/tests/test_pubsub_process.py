"""The process as others use it: command line, ports file, REST, admin API, faults, dropped
connections, speed.
"""

import base64
import itertools
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.auth import jwt

from standins.processes.stand_ins import running_stand_in
from standins.pubsub.push.tokens import ISSUER
from standins.pubsub.tests.pubsub_world import PROJECT, World
from standins.pubsub.tests.push_receiver import Receiver

SPEED = 40
QUICK = {"minimum_backoff": {"seconds": 0}, "maximum_backoff": {"seconds": 1}}
SLOW = {"minimum_backoff": {"seconds": 10}, "maximum_backoff": {"seconds": 600}}


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with running_stand_in(tmp_path_factory.mktemp("broker"), "standins.pubsub", "--speed", str(SPEED)) as broker:
        yield broker.addresses


@pytest.fixture
def world(addresses: dict[str, str]) -> Iterator[World]:
    world = World(addresses)
    yield world
    world.close()


@pytest.fixture
def rest(addresses: dict[str, str]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=addresses["rest"], trust_env=False, timeout=30) as client:
        yield client


def _counters(rest: httpx.Client, subscription: str) -> dict[str, Any]:
    records = rest.get("/admin/subscriptions").json()["subscriptions"]
    return next(record for record in records if record["name"] == subscription)


def test_a_day_in_the_life_of_a_topic_over_rest(rest: httpx.Client) -> None:
    topic, subscription = f"{PROJECT}/topics/rest", f"{PROJECT}/subscriptions/rest"
    assert rest.put(f"/v1/{topic}", json={"labels": {"a": "b"}}).json()["labels"] == {"a": "b"}
    created = rest.put(f"/v1/{subscription}", json={"topic": topic, "ackDeadlineSeconds": 20}).json()
    assert (created["name"], created["ackDeadlineSeconds"]) == (subscription, 20)
    message = {"data": base64.b64encode(b"hi").decode(), "attributes": {"a": "1"}}
    (message_id,) = rest.post(f"/v1/{topic}:publish", json={"messages": [message]}).json()["messageIds"]
    (received,) = rest.post(f"/v1/{subscription}:pull", json={"maxMessages": 5}).json()["receivedMessages"]
    assert received["message"]["messageId"] == message_id
    assert base64.b64decode(received["message"]["data"]) == b"hi"
    ack = {"ackIds": [received["ackId"]]}
    assert rest.post(f"/v1/{subscription}:modifyAckDeadline", json={**ack, "ackDeadlineSeconds": 60}).json() == {}
    assert rest.post(f"/v1/{subscription}:acknowledge", json=ack).json() == {}
    patch = {"subscription": {"ackDeadlineSeconds": 30}, "updateMask": "ackDeadlineSeconds"}
    assert rest.patch(f"/v1/{subscription}", json=patch).json()["ackDeadlineSeconds"] == 30
    listed = rest.get(f"/v1/{topic}/subscriptions").json()["subscriptions"]
    assert listed == [subscription]
    assert subscription in [
        found["name"] for found in rest.get(f"/v1/{PROJECT}/subscriptions").json()["subscriptions"]
    ]
    assert rest.delete(f"/v1/{subscription}").json() == {}
    assert rest.delete(f"/v1/{topic}").json() == {}
    assert rest.get(f"/v1/{topic}").status_code == 404


def test_snapshots_and_seek_over_rest(rest: httpx.Client) -> None:
    topic, subscription, snapshot = (
        f"{PROJECT}/{kind}/replayed" for kind in ("topics", "subscriptions", "snapshots")
    )
    rest.put(f"/v1/{topic}", json={})
    rest.put(f"/v1/{subscription}", json={"topic": topic})
    rest.put(f"/v1/{snapshot}", json={"subscription": subscription, "labels": {"a": "b"}}).raise_for_status()
    assert rest.get(f"/v1/{snapshot}").json()["labels"] == {"a": "b"}
    listed = rest.get(f"/v1/{PROJECT}/snapshots").json()["snapshots"]
    assert [found["name"] for found in listed] == [snapshot]
    rest.post(f"/v1/{topic}:publish", json={"messages": [{"attributes": {"n": "1"}}]})
    assert rest.post(f"/v1/{subscription}:seek", json={"time": "2100-01-01T00:00:00Z"}).json() == {}
    assert rest.post(f"/v1/{subscription}:pull", json={"maxMessages": 1, "returnImmediately": True}).json() == {}
    assert rest.post(f"/v1/{subscription}:seek", json={"snapshot": snapshot}).json() == {}
    assert "receivedMessages" in rest.post(f"/v1/{subscription}:pull", json={"maxMessages": 1}).json()
    assert rest.delete(f"/v1/{snapshot}").json() == {}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("PUT", "topics/x", "{}", 400, "3 to 255 characters"),
        ("PUT", "topics/unreadable", "{", 400, "a JSON object"),
        ("PUT", "topics/unreadable", "[]", 400, "a JSON object"),
        ("PUT", "topics/unreadable", '{"colour": 1}', 400, "colour"),
        ("PUT", "topics/schemed", '{"schemaSettings": {"schema": "s"}}', 501, "schema_settings"),
        ("PUT", "subscriptions/bigquery", '{"bigqueryConfig": {"table": "t"}}', 501, "bigquery_config"),
        ("PUT", "subscriptions/ordered", '{"enableMessageOrdering": true}', 501, "enable_message_ordering"),
        ("PUT", "subscriptions/once", '{"enableExactlyOnceDelivery": true}', 501, "enable_exactly_once_delivery"),
        ("PUT", "subscriptions/bare", '{"pushConfig": {"noWrapper": {}}}', 501, "no_wrapper"),
        ("POST", "topics/absent:publish", '{"messages": [{"data": "aGk="}]}', 404, "(resource=absent)"),
        ("GET", "subscriptions/absent", "", 404, "(resource=absent)"),
        ("POST", "subscriptions/absent:acknowledge", '{"ackIds": []}', 400, "ack_ids"),
    ],
)
def test_a_refusal_over_rest_says_what_was_wrong(
    method: str, path: str, body: str, status: int, words: str, rest: httpx.Client
) -> None:
    answer = rest.request(method, f"/v1/{PROJECT}/{path}", content=body)
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]
    assert answer.json()["error"]["code"] == status


def test_every_message_that_was_ever_published_can_be_listed(world: World, rest: httpx.Client) -> None:
    topic, subscription = world.pair()
    ids = world.publish(topic, "one", "two", key="k", a="1")
    world.ack(subscription, world.pull_count(subscription, 2))
    listed = rest.get("/admin/messages", params={"topic": topic}).json()["messages"]
    assert [base64.b64decode(message["data"]) for message in listed] == [b"one", b"two"]
    assert [message["messageId"] for message in listed] == ids
    assert (listed[0]["attributes"], listed[0]["orderingKey"]) == ({"a": "1"}, "k")
    assert listed[0]["publishTime"].endswith("Z")
    assert rest.get("/admin/messages", params={"topic": "nope"}).status_code == 404


def test_the_counters_tell_what_became_of_the_messages(world: World, rest: httpx.Client) -> None:
    topic, subscription = world.pair(filter='hasPrefix(attributes.wanted, "")', ack_deadline_seconds=600)
    world.publish(topic, "filtered out")
    world.publish(topic, "acked", "nacked", "held", wanted="yes")
    received = world.pull_count(subscription, 3)
    world.ack(subscription, received[:1])
    world.lease(subscription, received[1:2], 0)
    world.lease(subscription, received[2:], 600)
    record = _counters(rest, subscription)
    names = ("delivered", "acked", "nacked", "deadLettered", "filtered", "outstanding", "backlog")
    assert {name: record[name] for name in names} == {
        "delivered": 3,
        "acked": 1,
        "nacked": 1,
        "deadLettered": 0,
        "filtered": 1,
        "outstanding": 1,
        "backlog": 2,
    }


def test_a_push_token_verifies_with_the_keys_at_certs(world: World, rest: httpx.Client) -> None:
    receiver = world.receiver()
    push = {"push_endpoint": receiver.url, "oidc_token": {"service_account_email": "invoker@p.iam"}}
    topic, _ = world.pair(push_config=push)
    world.publish(topic, "a")
    scheme, token = receiver.wait_for(1)[0].headers["authorization"].split(" ")
    (key,) = rest.get("/certs").json()["keys"]
    claims = jwt.decode(token, {key["kid"]: _pem(key)}, audience=receiver.url)  # type: ignore[no-untyped-call]
    assert (scheme, claims["iss"], claims["email"]) == ("Bearer", ISSUER, "invoker@p.iam")
    assert (claims["email_verified"], claims["exp"] - claims["iat"]) == (True, 3600)
    assert claims["sub"] == claims["azp"]


def _pem(key: dict[str, str]) -> str:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  # only this test needs it
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415  # only this test needs it

    exponent, modulus = (int.from_bytes(base64.urlsafe_b64decode(key[name] + "==="), "big") for name in ("e", "n"))
    public = rsa.RSAPublicNumbers(exponent, modulus).public_key()
    return public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    ).decode()


def test_a_push_without_an_answer_by_the_ack_deadline_is_sent_again(world: World) -> None:
    receiver: Receiver = world.receiver(delay_for=lambda push: 60.0 if push is receiver.pushes[0] else 0.0)
    push = {"push_endpoint": receiver.url}
    topic, _ = world.pair(push_config=push, ack_deadline_seconds=60, retry_policy=QUICK)
    world.publish(topic, "slow")
    first, second = receiver.wait_for(2)
    # The deadline runs from the sending; a busy machine may start the first answer a little later.
    assert 60 / SPEED - 1 <= second.started - first.started < 60 / SPEED + 15


def test_pushes_back_off_per_message_and_dead_letter_in_the_end(world: World, rest: httpx.Client) -> None:
    receiver = world.receiver(status_for=lambda _: 503)
    dead = world.topic()
    letters = world.subscription(dead)
    policy = {"dead_letter_topic": dead, "max_delivery_attempts": 5}
    push = {"push_endpoint": receiver.url}
    # A deadline that no answer misses: 10 s are a quarter of one here.
    settings = {"dead_letter_policy": policy, "retry_policy": SLOW, "ack_deadline_seconds": 600}
    topic, subscription = world.pair(push_config=push, **settings)
    world.publish(topic, "bad")
    world.pull_count(letters, 1)
    starts = [push.started for push in receiver.pushes]
    gaps = [later - earlier for earlier, later in itertools.pairwise(starts)]
    expected = [10 / SPEED, 20 / SPEED, 40 / SPEED, 80 / SPEED]
    assert len(gaps) == 4
    for gap, wanted in zip(gaps, expected, strict=True):
        assert wanted * 0.95 <= gap < wanted + 5
    assert _counters(rest, subscription)["deadLettered"] == 1


def test_an_endpoint_without_a_retry_policy_is_not_hammered(world: World) -> None:
    receiver = world.receiver(status_for=lambda _: 500)
    topic, _ = world.pair(push_config={"push_endpoint": receiver.url})
    world.publish(topic, "a")
    receiver.wait_for(6)
    starts = [push.started for push in receiver.pushes]
    assert starts[5] - starts[0] >= (0.1 + 0.2 + 0.4 + 0.8 + 1.6) / SPEED * 0.9


def test_dropped_connections_abort_pushes_which_are_sent_again(world: World, rest: httpx.Client) -> None:
    receiver: Receiver = world.receiver(delay_for=lambda push: 60.0 if push is receiver.pushes[0] else 0.0)
    push = {"push_endpoint": receiver.url}
    topic, _ = world.pair(push_config=push, ack_deadline_seconds=600, retry_policy=QUICK)
    world.publish(topic, "a")
    receiver.wait_for(1)
    # One of an earlier test's, which nobody answers any more, may be under way too.
    assert rest.post("/admin/disconnect").json()["abortedPushes"] >= 1
    assert [push.text for push in receiver.wait_for(2)] == ["a", "a"]


def test_the_official_clients_survive_dropped_connections(world: World, rest: httpx.Client) -> None:
    topic, subscription = world.pair()
    for text in ("before", "after", "again"):
        world.publisher.publish(topic, text.encode()).result(timeout=60)
        assert text in world.drain(subscription)
        rest.post("/admin/disconnect").raise_for_status()


def test_the_process_ends_cleanly_and_quickly_and_logs_json_lines(tmp_path: Path) -> None:
    with running_stand_in(tmp_path, "standins.pubsub") as broker:
        world = World(broker.addresses)
        receiver: Receiver = world.receiver(delay_for=lambda _: 60.0)
        topic, _ = world.pair(push_config={"push_endpoint": receiver.url})
        world.publish(topic, "under way")
        receiver.wait_for(1)
        # Two seconds on a machine that does nothing else; the push that is under way takes a
        # minute.
        assert broker.child.end(15)
        world.close()
    assert broker.child.exit_code == 0
    lines = [json.loads(line) for line in broker.log.read_text().splitlines()]
    assert all({"severity", "message", "time"} <= set(line) for line in lines)
    assert {"listening", "stopped"} <= {line["message"] for line in lines}
    assert sorted(path.name for path in tmp_path.iterdir()) == [broker.ports_file.name, broker.log.name]


@pytest.mark.parametrize("option", ["--grpc-port", "--rest-port"])
def test_a_taken_port_stops_the_start(option: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "standins.pubsub", "serve", option, port]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    text = f"error: port {port} on 127.0.0.1 cannot be used (Address already in use); valid: a free port, or 0\n"
    assert (result.returncode, result.stderr) == (2, text)
