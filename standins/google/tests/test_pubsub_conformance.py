"""Every scenario against the broker, which must do what is documented, and against Google's
emulator.

Where the emulator is known to differ, it must differ in exactly the stated way.
"""

import base64
from collections.abc import Iterator

import httpx
import pytest
from google.auth import jwt

import standins.google.tests.scenarios_pull  # registers its scenarios
import standins.google.tests.scenarios_push  # registers its scenarios
import standins.google.tests.scenarios_resources  # noqa: F401  # registers its scenarios
from standins.google.pubsub.push import ISSUER
from standins.google.tests.emulator_process import DIFFERENCES, running_emulator
from standins.google.tests.pubsub_world import World
from standins.google.tests.scenarios_pull import SCENARIOS
from standins.kit.processes import running_stand_in


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_stand_in(tmp_path_factory.mktemp("broker"), "standins.google", "--pubsub") as stand_in:
        world = World(stand_in.addresses)
        yield world
        world.close()


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_emulator(tmp_path_factory.mktemp("emulator")) as addresses:
        world = World(addresses)
        yield world
        world.close()


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_broker_does_what_is_documented(name: str, broker: World) -> None:
    assert SCENARIOS[name].observe(broker) == SCENARIOS[name].documented


@pytest.mark.tool
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_emulator_does_what_is_documented_or_differs_as_stated(name: str, emulator: World) -> None:
    difference = DIFFERENCES.get(name)
    expected = difference.observed if difference else SCENARIOS[name].documented
    assert SCENARIOS[name].observe(emulator) == expected


def test_every_stated_difference_is_one_and_belongs_to_a_scenario() -> None:
    assert set(DIFFERENCES) <= set(SCENARIOS)
    for name, difference in DIFFERENCES.items():
        assert difference.observed != SCENARIOS[name].documented, name
        assert difference.sentence.endswith("."), name


def test_a_push_token_verifies_with_the_keys_at_certs(broker: World) -> None:
    """Google's own library judges it; the emulator signs none."""
    receiver = broker.receiver()
    push = {"push_endpoint": receiver.url, "oidc_token": {"service_account_email": "invoker@p.iam"}}
    topic, _ = broker.pair(push_config=push)
    broker.publish(topic, "a")
    scheme, token = receiver.wait_for(1)[0].headers["authorization"].split(" ")
    (key,) = httpx.get(f"{broker.rest}/certs", trust_env=False).json()["keys"]
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
