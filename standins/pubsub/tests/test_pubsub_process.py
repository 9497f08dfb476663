"""The process as others use it: command line, ports file, REST, admin API, faults, dropped
connections, speed.
"""

import base64
import itertools
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from google.auth import jwt

from standins.processes.stand_ins import running_stand_in
from standins.pubsub.push.tokens import ISSUER
from standins.pubsub.tests.pubsub_world import World

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
