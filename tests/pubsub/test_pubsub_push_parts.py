"""The parts of push without a network: the window, the envelope, the token."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from pubsub_model_world import DEAD, SUBSCRIPTION, TOPIC, ModelWorld

from local.pubsub.model.messages import Draft
from local.pubsub.model.terms import DeadLetterPolicy, PushTerms
from local.pubsub.push.envelope import Envelope, envelope_of
from local.pubsub.push.tokens import ISSUER, TokenSigner
from local.pubsub.push.window import MAX_SIZE, START_SIZE, PushWindow


def _record(
    window: PushWindow, *, acked: bool = True, latency: float = 0.0, times: int = 1, speed: float = 1.0
) -> None:
    for _ in range(times):
        window.record(acked=acked, latency_seconds=latency, now=100.0, pausing=True, speed=speed)


def test_the_window_starts_small_and_doubles_with_a_windows_worth_of_acks():
    window = PushWindow()
    assert window.size == START_SIZE < 10
    _record(window, times=START_SIZE)
    assert window.size == 2 * START_SIZE


def test_the_window_has_a_ceiling():
    window = PushWindow()
    _record(window, times=2 * MAX_SIZE)
    assert window.size == MAX_SIZE


def test_a_failure_halves_the_window_and_never_closes_it():
    window = PushWindow()
    _record(window, acked=False)
    assert window.size == START_SIZE // 2
    _record(window, acked=False, times=10)
    assert window.size == 1


def test_the_window_does_not_grow_while_answers_are_slow():
    window = PushWindow()
    _record(window, latency=1.0, times=20)
    assert window.size == START_SIZE


def test_the_pause_doubles_per_failure_from_100_ms_to_60_s():
    window = PushWindow()
    pauses = []
    for _ in range(12):
        _record(window, acked=False)
        pauses.append(round(window.resume_at - 100, 1))
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert pauses[-1] == 60


def test_acks_end_the_pause_again():
    window = PushWindow()
    _record(window, acked=False, times=3)
    _record(window, times=4)
    assert window.resume_at == 100


def test_speed_divides_the_pause():
    window = PushWindow()
    _record(window, acked=False, times=12, speed=30)
    assert window.resume_at == pytest.approx(102)


def test_a_retry_policy_leaves_no_pause():
    window = PushWindow()
    window.record(acked=False, latency_seconds=0, now=100.0, pausing=False)
    assert window.resume_at == 0


def _envelope(draft: Draft, *, omit_empty_data: bool = False, **terms: Any) -> Envelope:
    world = ModelWorld(**terms)
    world.broker.publish(TOPIC, [draft])
    (delivery,) = world.pull()
    return envelope_of(delivery, world.broker.subscription(SUBSCRIPTION), omit_empty_data=omit_empty_data)


def test_the_wrapped_body_has_what_the_service_documents_and_no_more():
    body = json.loads(_envelope(Draft(b"hi", {"a": "1"}, "k")).body)
    assert body == {
        "message": {
            "data": "aGk=",
            "attributes": {"a": "1"},
            "messageId": "1",
            "message_id": "1",
            "publishTime": "1970-01-12T13:46:40Z",
            "publish_time": "1970-01-12T13:46:40Z",
            "orderingKey": "k",
        },
        "subscription": SUBSCRIPTION,
    }


def test_the_attempt_stands_beside_the_message_under_a_dead_letter_policy():
    body = json.loads(_envelope(Draft(b"hi"), dead_letter=DeadLetterPolicy(DEAD)).body)
    assert body["deliveryAttempt"] == 1
    assert "deliveryAttempt" not in body["message"]


@pytest.mark.parametrize("omit", [True, False])
def test_data_that_is_empty_is_sent_or_left_out_as_asked(*, omit: bool):
    message = json.loads(_envelope(Draft(b"", {"a": "1"}), omit_empty_data=omit).body)["message"]
    assert message.get("data", "absent") == ("absent" if omit else "")


def test_an_unwrapped_push_is_the_bare_data():
    push = PushTerms("http://x", unwrapped=True)
    assert _envelope(Draft(b"\x00raw", {"a": "1"}), push=push) == Envelope(b"\x00raw", {})


def test_metadata_travels_as_headers_and_cannot_forge_the_request():
    push = PushTerms("http://x", unwrapped=True, write_metadata=True)
    attributes = {
        "Ce-Type": "t",
        "authorization": "Bearer forged",
        "bad name": "x",
        "line": "a\nb",
        "host": "evil",
    }
    headers = _envelope(Draft(b"x", attributes, "k"), push=push, dead_letter=DeadLetterPolicy(DEAD)).headers
    assert headers == {
        "ce-type": "t",
        "x-goog-pubsub-subscription-name": SUBSCRIPTION,
        "x-goog-pubsub-message-id": "1",
        "x-goog-pubsub-publish-time": "1970-01-12T13:46:40Z",
        "x-goog-pubsub-ordering-key": "k",
        "x-goog-pubsub-delivery-attempt": "1",
    }


def _part(token: str, index: int) -> bytes:
    text = token.split(".")[index]
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_a_token_verifies_with_the_published_key_and_claims_what_the_service_does():
    signer = TokenSigner(lambda: 1_000_000.0)
    token = signer.token(email="invoker@p.iam", audience="https://service")
    (key,) = signer.jwks()["keys"]
    numbers = rsa.RSAPublicNumbers(
        *(int.from_bytes(base64.urlsafe_b64decode(key[name] + "==="), "big") for name in ("e", "n"))
    )
    signed = token.rpartition(".")[0].encode()
    numbers.public_key().verify(_part(token, 2), signed, padding.PKCS1v15(), SHA256())
    assert json.loads(_part(token, 0)) == {"typ": "JWT", "alg": "RS256", "kid": key["kid"]}
    claims = json.loads(_part(token, 1))
    assert claims["sub"] == claims["azp"]
    assert {name: claims[name] for name in ("iss", "aud", "email", "email_verified", "iat", "exp")} == {
        "iss": ISSUER,
        "aud": "https://service",
        "email": "invoker@p.iam",
        "email_verified": True,
        "iat": 1_000_000,
        "exp": 1_003_600,
    }


def test_a_token_is_renewed_long_before_it_expires():
    now = [1_000_000.0]
    signer = TokenSigner(lambda: now[0])
    first = signer.token(email="e", audience="a")
    now[0] += 1_799
    assert signer.token(email="e", audience="a") == first
    now[0] += 1
    assert signer.token(email="e", audience="a") != first
    assert signer.token(email="e", audience="b") != first
