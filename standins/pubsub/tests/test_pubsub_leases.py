"""The model's leases, retries, dead letters, limits and life cycle, with a clock that the test
moves.
"""

from typing import Any

import pytest

from standins.pubsub.model.errors import BrokerError
from standins.pubsub.model.published import Draft
from standins.pubsub.model.terms import DeadLetterPolicy, PushTerms, RetryPolicy, SubscriptionTerms, TopicTerms
from standins.pubsub.tests.pubsub_model_world import DEAD, DEAD_SUBSCRIPTION, SUBSCRIPTION, TOPIC, ModelWorld


@pytest.mark.parametrize("seconds", [10, 60], ids=["as it began", "extended"])
def test_a_message_comes_back_when_its_lease_ends_and_not_before(seconds: int) -> None:
    world = ModelWorld(ack_deadline_seconds=10)
    world.publish("a", "b")
    (delivery,) = world.pull(1)
    if seconds > 10:
        world.broker.modify_ack_deadline(SUBSCRIPTION, [delivery.ack_id], seconds)
    world.ack(*world.pull())
    world.pass_seconds(seconds - 0.1)
    assert world.pull() == []
    world.pass_seconds(0.1)
    assert world.pull_data() == ["a"]


def test_a_late_acknowledgement_still_counts_and_a_late_nack_takes_nothing_from_the_new_holder() -> None:
    world = ModelWorld()
    world.publish("acked", "nacked")
    acked, nacked = world.pull()
    world.pass_seconds(11)
    world.ack(acked)
    assert world.pull_data() == ["nacked"]
    world.nack(nacked)
    assert world.pull() == []


def test_speed_divides_the_ack_deadline_and_the_backoff() -> None:
    world = ModelWorld(speed=10, retry=RetryPolicy(20, 20))
    world.publish("a")
    world.pull()
    world.pass_seconds(1)
    assert world.pull() == []
    world.pass_seconds(2)
    assert world.pull_data() == ["a"]


def test_the_backoff_doubles_per_message_up_to_its_maximum() -> None:
    world = ModelWorld(retry=RetryPolicy(10, 60))
    world.publish("a")
    waits = []
    for _ in range(5):
        world.nack(*world.pull())
        waits.append((world.broker.next_event_at() or 0) - world.now)
        world.pass_seconds(waits[-1])
    assert waits == [10, 20, 40, 60, 60]


def test_an_ordering_key_holds_nothing_back() -> None:
    world = ModelWorld()
    world.broker.publish(TOPIC, [Draft(text, {}, "key") for text in (b"a1", b"a2")])
    first, _ = world.pull()
    world.nack(first)
    assert world.pull_data() == ["a1"]


@pytest.mark.parametrize("ack_id", ["", "x", "1.1", "00000000.1.1"])
def test_an_ack_id_of_nobody_is_refused(ack_id: str) -> None:
    with pytest.raises(BrokerError, match="an ack id that this subscription has handed out"):
        ModelWorld().broker.acknowledge(SUBSCRIPTION, [ack_id])


def test_expired_leases_count_as_attempts_too() -> None:
    world = ModelWorld(dead_letter=DeadLetterPolicy(DEAD, 5))
    world.publish("slow")
    for _ in range(5):
        assert world.pull_data() == ["slow"]
        world.pass_seconds(10)
    world.broker.settle()
    assert world.pull_data(name=DEAD_SUBSCRIPTION) == ["slow"]


def test_without_its_dead_letter_topic_a_message_keeps_being_delivered() -> None:
    world = ModelWorld(dead_letter=DeadLetterPolicy(DEAD, 5))
    world.broker.delete_topic(DEAD)
    world.publish("bad")
    for _ in range(8):
        world.nack(*world.pull())
    assert world.pull_data() == ["bad"]


def test_a_message_older_than_the_retention_is_dropped() -> None:
    world = ModelWorld(retention_seconds=600)
    world.publish("old")
    world.pass_seconds(300)
    world.publish("young")
    world.pass_seconds(301)
    assert world.pull_data() == ["young"]
    assert world.backlog.counters.dropped == 1


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        ({"ack_deadline_seconds": 9}, "ack_deadline_seconds"),
        ({"ack_deadline_seconds": 601}, "ack_deadline_seconds"),
        ({"retention_seconds": 599}, "message_retention_duration"),
        ({"retention_seconds": 31 * 86400 + 1}, "message_retention_duration"),
        ({"expiration_seconds": 86399}, "expiration_policy.ttl"),
        ({"retry": RetryPolicy(-1, 10)}, "retry_policy.minimum_backoff"),
        ({"retry": RetryPolicy(1, 601)}, "retry_policy.maximum_backoff"),
        ({"retry": RetryPolicy(11, 10)}, "retry_policy.minimum_backoff"),
        ({"dead_letter": DeadLetterPolicy(DEAD, 4)}, "max_delivery_attempts"),
        ({"dead_letter": DeadLetterPolicy(DEAD, 101)}, "max_delivery_attempts"),
        ({"dead_letter": DeadLetterPolicy("dead")}, "dead_letter_topic"),
        ({"dead_letter": DeadLetterPolicy("projects/p/topics/absent")}, "(resource=absent)"),
        ({"push": PushTerms("ftp://x")}, "push_endpoint"),
        ({"filter_text": "bogus("}, "filter"),
    ],
)
def test_terms_outside_their_range_are_refused_by_name(terms: dict[str, Any], field: str) -> None:
    with pytest.raises(BrokerError, match=field):
        ModelWorld(**terms)


@pytest.mark.parametrize(
    ("change", "field"), [({"filter_text": 'attributes.x = "1"'}, "filter"), ({"topic": DEAD}, "topic")]
)
def test_what_is_immutable_cannot_be_changed(change: dict[str, Any], field: str) -> None:
    world = ModelWorld()
    terms = SubscriptionTerms(**{"topic": TOPIC, **change})
    with pytest.raises(BrokerError, match=field):
        world.broker.change_subscription(SUBSCRIPTION, terms)


@pytest.mark.parametrize(
    ("draft", "words"),
    [
        (Draft(b"", {}), "empty"),
        (Draft(b"x" * 10_000_001), "10000000 bytes"),
        (Draft(b"", {f"k{n}": "v" for n in range(101)}), "100 attributes"),
        (Draft(b"", {"k" * 257: "v"}), "256 bytes"),
        (Draft(b"", {"": "v"}), "256 bytes"),
        (Draft(b"", {"k": "v" * 1025}), "1024 bytes"),
        (Draft(b"", {"google_thing": "v"}), "reserved"),
        (Draft(b"x", {}, "k" * 1025), "1024 bytes"),
    ],
)
def test_a_message_beyond_a_limit_is_refused(draft: Draft, words: str) -> None:
    with pytest.raises(BrokerError, match=words):
        ModelWorld().broker.publish(TOPIC, [draft])


def test_one_bad_message_refuses_the_whole_request() -> None:
    world = ModelWorld()
    with pytest.raises(BrokerError, match=r"messages\[1\]"):
        world.broker.publish(TOPIC, [Draft(b"good"), Draft()])
    assert world.pull() == []


def test_the_clients_own_tracing_attribute_is_let_through() -> None:
    world = ModelWorld()
    world.broker.publish(TOPIC, [Draft(b"x", {"googclient_traceparent": "00-1-1-01"})])
    assert world.pull_data() == ["x"]


@pytest.mark.parametrize(
    "name", ["events", "projects/p/topics/ab", "projects/p/topics/google", "projects/p/topics/1ab"]
)
def test_a_name_outside_the_rules_is_refused(name: str) -> None:
    with pytest.raises(BrokerError, match="projects/PROJECT/topics/ID"):
        ModelWorld().broker.create_topic(name, TopicTerms())
