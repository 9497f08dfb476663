"""The parts of push without a network: the window, the body, the token."""

import json
from typing import Any

import pytest

from standins.pubsub.model.published import Draft
from standins.pubsub.model.terms import DeadLetterPolicy
from standins.pubsub.push.envelope import body_of
from standins.pubsub.push.tokens import TokenSigner
from standins.pubsub.push.window import MAX_SIZE, START_SIZE, PushWindow
from standins.pubsub.tests.pubsub_model_world import DEAD, SUBSCRIPTION, TOPIC, ModelWorld


def _record(
    window: PushWindow, *, acked: bool = True, latency: float = 0.0, times: int = 1, speed: float = 1.0
) -> None:
    for _ in range(times):
        window.record(acked=acked, latency_seconds=latency, now=100.0, pausing=True, speed=speed)


def test_the_window_grows_with_quick_acks_and_shrinks_with_failures_but_never_closes() -> None:
    window = PushWindow()
    assert window.size == START_SIZE < 10
    _record(window, latency=1.0, times=20)
    assert window.size == START_SIZE
    _record(window, times=START_SIZE)
    assert window.size == 2 * START_SIZE
    _record(window, times=2 * MAX_SIZE)
    assert window.size == MAX_SIZE
    _record(window, acked=False)
    assert window.size == MAX_SIZE // 2
    _record(window, acked=False, times=10)
    assert window.size == 1


@pytest.mark.parametrize("speed", [1.0, 30.0])
def test_the_pause_doubles_per_failure_from_100_ms_to_60_s_until_acks_end_it(speed: float) -> None:
    window = PushWindow()
    pauses = []
    for _ in range(12):
        _record(window, acked=False, speed=speed)
        pauses.append((window.resume_at - 100) * speed)
    assert pauses[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert pauses[-1] == pytest.approx(60)
    _record(window, times=12, speed=speed)
    assert window.resume_at == 100


def test_a_retry_policy_leaves_no_pause() -> None:
    window = PushWindow()
    window.record(acked=False, latency_seconds=0, now=100.0, pausing=False)
    assert window.resume_at == 0


def _pushed(draft: Draft, **terms: Any) -> Any:
    world = ModelWorld(**terms)
    world.broker.publish(TOPIC, [draft])
    (delivery,) = world.pull()
    return json.loads(body_of(delivery, world.broker.subscription(SUBSCRIPTION)))


def test_the_wrapped_body_has_what_the_service_documents_and_no_more() -> None:
    assert _pushed(Draft(b"hi", {"a": "1"}, "k"), dead_letter=DeadLetterPolicy(DEAD)) == {
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
        "deliveryAttempt": 1,
    }


def test_data_that_is_empty_is_sent() -> None:
    assert _pushed(Draft(b"", {"a": "1"}))["message"]["data"] == ""


def test_a_token_is_renewed_long_before_it_expires() -> None:
    now = [1_000_000.0]
    signer = TokenSigner(lambda: now[0])
    first = signer.token(email="e", audience="a")
    now[0] += 1_799
    assert signer.token(email="e", audience="a") == first
    now[0] += 1
    assert signer.token(email="e", audience="a") != first
    assert signer.token(email="e", audience="b") != first
