"""The model's leases, retries, dead letters, limits and life cycle, with a clock that the test moves."""

from __future__ import annotations

import pytest
from pubsub_model_world import DEAD, DEAD_SUBSCRIPTION, SUBSCRIPTION, TOPIC, ModelWorld, texts

from local.pubsub.model.errors import BrokerError, Code
from local.pubsub.model.faults import Faults
from local.pubsub.model.messages import Draft
from local.pubsub.model.terms import DeadLetterPolicy, PushTerms, RetryPolicy, SubscriptionTerms, TopicTerms


def test_an_acknowledged_message_never_comes_back():
    world = ModelWorld()
    world.publish("a")
    world.ack(*world.pull())
    world.pass_seconds(3600)
    assert world.pull() == []
    assert world.backlog.unacknowledged == 0


def test_a_message_that_is_handed_out_is_not_handed_out_twice():
    world = ModelWorld()
    world.publish("a", "b")
    assert world.pull_data(1) == ["a"]
    assert world.pull_data() == ["b"]
    assert world.pull_data() == []


def test_a_lease_that_ends_brings_the_message_back():
    world = ModelWorld(ack_deadline_seconds=10)
    world.publish("a")
    world.pull()
    world.pass_seconds(9.9)
    assert world.pull() == []
    world.pass_seconds(0.1)
    assert world.pull_data() == ["a"]


def test_an_extended_lease_ends_later():
    world = ModelWorld()
    world.publish("a")
    (delivery,) = world.pull()
    world.broker.modify_ack_deadline(SUBSCRIPTION, [delivery.ack_id], 60)
    world.pass_seconds(59)
    assert world.pull() == []
    world.pass_seconds(1)
    assert world.pull_data() == ["a"]


def test_speed_divides_the_ack_deadline_and_the_backoff():
    world = ModelWorld(speed=10, retry=RetryPolicy(20, 20))
    world.publish("a")
    world.pull()
    world.pass_seconds(1)
    assert world.pull() == []
    world.pass_seconds(2)
    assert world.pull_data() == ["a"]


def test_without_a_retry_policy_a_nack_redelivers_at_once():
    world = ModelWorld()
    world.publish("a")
    world.nack(*world.pull())
    assert world.pull_data() == ["a"]


def test_the_backoff_doubles_per_message_up_to_its_maximum():
    world = ModelWorld(retry=RetryPolicy(10, 60))
    world.publish("a")
    waits = []
    for _ in range(5):
        world.nack(*world.pull())
        waits.append(world.broker.next_event_at() - world.now)
        world.pass_seconds(waits[-1])
    assert waits == [10, 20, 40, 60, 60]


def test_a_late_acknowledgement_still_counts():
    world = ModelWorld()
    world.publish("a")
    (delivery,) = world.pull()
    world.pass_seconds(11)
    world.ack(delivery)
    assert world.pull() == []


def test_a_late_nack_does_not_take_the_message_from_its_new_holder():
    world = ModelWorld()
    world.publish("a")
    (late,) = world.pull()
    world.pass_seconds(11)
    world.pull()
    world.nack(late)
    assert world.pull() == []


def test_exactly_once_refuses_a_late_acknowledgement_and_names_the_ack_id():
    world = ModelWorld(exactly_once=True)
    world.publish("a")
    (late,) = world.pull()
    world.pass_seconds(11)
    with pytest.raises(BrokerError) as refusal:
        world.ack(late)
    assert refusal.value.code is Code.INVALID_ARGUMENT
    assert refusal.value.ack_failures == {late.ack_id: "PERMANENT_FAILURE_INVALID_ACK_ID"}
    assert world.pull_data() == ["a"]


@pytest.mark.parametrize("ack_id", ["", "x", "1.1", "00000000.1.1"])
def test_an_ack_id_of_nobody_is_refused(ack_id: str):
    with pytest.raises(BrokerError, match="an ack id that this subscription has handed out"):
        ModelWorld().broker.acknowledge(SUBSCRIPTION, [ack_id])


def test_a_message_that_fails_as_often_as_allowed_becomes_a_dead_letter():
    world = ModelWorld(dead_letter=DeadLetterPolicy(DEAD, 5))
    world.publish("bad", colour="red")
    attempts = []
    for _ in range(5):
        (delivery,) = world.pull()
        attempts.append(delivery.attempt)
        world.nack(delivery)
    assert attempts == [1, 2, 3, 4, 5]
    assert world.pull() == []
    assert world.backlog.counters.dead_lettered == 1
    (letter,) = world.pull(name=DEAD_SUBSCRIPTION)
    assert letter.message.data == b"bad"
    assert letter.message.attributes == {
        "colour": "red",
        "CloudPubSubDeadLetterSourceDeliveryCount": "5",
        "CloudPubSubDeadLetterSourceSubscription": "work",
        "CloudPubSubDeadLetterSourceSubscriptionProject": "p",
        "CloudPubSubDeadLetterSourceTopicPublishTime": "1970-01-12T13:46:40Z",
    }


def test_expired_leases_count_as_attempts_too():
    world = ModelWorld(dead_letter=DeadLetterPolicy(DEAD, 5))
    world.publish("slow")
    for _ in range(5):
        assert world.pull_data() == ["slow"]
        world.pass_seconds(10)
    world.broker.settle()
    assert world.pull_data(name=DEAD_SUBSCRIPTION) == ["slow"]


def test_without_its_dead_letter_topic_a_message_keeps_being_delivered():
    world = ModelWorld(dead_letter=DeadLetterPolicy(DEAD, 5))
    world.broker.delete_topic(DEAD)
    world.publish("bad")
    for _ in range(8):
        world.nack(*world.pull())
    assert world.pull_data() == ["bad"]


def test_a_message_older_than_the_retention_is_dropped():
    world = ModelWorld(retention_seconds=600)
    world.publish("old")
    world.pass_seconds(300)
    world.publish("young")
    world.pass_seconds(301)
    assert world.pull_data() == ["young"]
    assert world.backlog.counters.dropped == 1


def test_a_subscription_sees_only_what_is_published_after_it():
    world = ModelWorld()
    world.publish("before")
    world.broker.create_subscription("projects/p/subscriptions/late", SubscriptionTerms(topic=TOPIC))
    world.publish("after")
    assert world.pull_data(name="projects/p/subscriptions/late") == ["after"]


def test_every_subscription_gets_its_own_copy():
    world = ModelWorld()
    world.broker.create_subscription("projects/p/subscriptions/other", SubscriptionTerms(topic=TOPIC))
    world.publish("a")
    world.ack(*world.pull())
    assert world.pull_data(name="projects/p/subscriptions/other") == ["a"]


def test_what_the_filter_refuses_is_never_delivered():
    world = ModelWorld(filter_text='attributes.colour = "red"')
    world.publish("yes", colour="red")
    world.publish("no", colour="blue")
    assert world.pull_data() == ["yes"]
    assert world.broker.subscription(SUBSCRIPTION).filtered == 1


def test_the_byte_limit_of_a_pull_stops_before_it_is_exceeded_but_never_before_the_first():
    world = ModelWorld()
    world.publish("12345678", "12", "34")
    assert texts(world.broker.pull(SUBSCRIPTION, limit=10, max_bytes=4)) == ["12345678"]
    assert texts(world.broker.pull(SUBSCRIPTION, limit=10, max_bytes=3)) == ["12"]
    assert world.pull_data() == ["34"]


def test_a_detached_subscription_delivers_nothing_more():
    world = ModelWorld()
    world.publish("a")
    world.broker.detach_subscription(SUBSCRIPTION)
    world.publish("b")
    with pytest.raises(BrokerError, match="detached"):
        world.pull()


def test_a_deleted_topic_leaves_the_backlog_deliverable():
    world = ModelWorld()
    world.publish("a")
    world.broker.delete_topic(TOPIC)
    assert world.pull_data() == ["a"]
    assert world.broker.subscription(SUBSCRIPTION).topic == "_deleted-topic_"


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
        ({"push": PushTerms("ftp://x")}, "push_endpoint"),
        ({"push": PushTerms("http://x"), "exactly_once": True}, "enable_exactly_once_delivery"),
        ({"filter_text": "bogus("}, "filter"),
    ],
)
def test_terms_outside_their_range_are_refused_by_name(terms: dict[str, object], field: str):
    with pytest.raises(BrokerError, match=field) as refusal:
        ModelWorld(**terms)
    assert refusal.value.code is Code.INVALID_ARGUMENT


def test_a_dead_letter_topic_must_exist():
    with pytest.raises(BrokerError) as refusal:
        ModelWorld(dead_letter=DeadLetterPolicy("projects/p/topics/absent"))
    assert refusal.value.code is Code.NOT_FOUND


@pytest.mark.parametrize(
    ("change", "field"),
    [({"filter_text": "attributes:x"}, "filter"), ({"ordered": True}, "ordering"), ({"topic": DEAD}, "topic")],
)
def test_what_is_immutable_cannot_be_changed(change: dict[str, object], field: str):
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
def test_a_message_beyond_a_limit_is_refused(draft: Draft, words: str):
    with pytest.raises(BrokerError, match=words):
        ModelWorld().broker.publish(TOPIC, [draft])


def test_one_bad_message_refuses_the_whole_request():
    world = ModelWorld()
    with pytest.raises(BrokerError, match=r"messages\[1\]"):
        world.broker.publish(TOPIC, [Draft(b"good"), Draft()])
    assert world.pull() == []


@pytest.mark.parametrize("count", [0, 1001])
def test_a_request_carries_one_to_a_thousand_messages(count: int):
    with pytest.raises(BrokerError, match="1 to 1000"):
        ModelWorld().broker.publish(TOPIC, [Draft(b"x")] * count)


def test_the_clients_own_tracing_attribute_is_let_through():
    world = ModelWorld()
    world.broker.publish(TOPIC, [Draft(b"x", {"googclient_traceparent": "00-1-1-01"})])
    assert world.pull_data() == ["x"]


@pytest.mark.parametrize(
    "name", ["events", "projects/p/topics/ab", "projects/p/topics/google", "projects/p/topics/1ab"]
)
def test_a_name_outside_the_rules_is_refused(name: str):
    with pytest.raises(BrokerError, match="projects/PROJECT/topics/ID"):
        ModelWorld().broker.create_topic(name, TopicTerms())


def test_a_duplicated_message_is_handed_out_twice_with_one_id():
    world = ModelWorld()
    world.broker.faults = Faults(duplicate=1.0)
    world.publish("a")
    first, second = world.pull()
    assert first.message.message_id == second.message.message_id
    assert first.ack_id != second.ack_id


def test_exactly_once_subscriptions_get_no_duplicates():
    world = ModelWorld(exactly_once=True)
    world.broker.faults = Faults(duplicate=1.0)
    world.publish("a")
    assert world.pull_data() == ["a"]


def test_delayed_messages_arrive_late_but_arrive():
    world = ModelWorld()
    world.broker.faults = Faults(delay_seconds=5)
    world.publish("a")
    assert world.pull() == []
    world.pass_seconds(5)
    assert world.pull_data() == ["a"]


def test_reordering_changes_the_order_and_loses_nothing():
    world = ModelWorld()
    world.broker.faults = Faults(reorder=1.0)
    sent = [f"{number:02}" for number in range(30)]
    world.publish(*sent)
    received = world.pull_data()
    assert received != sent
    assert sorted(received) == sent


def test_the_same_seed_misbehaves_in_the_same_way():
    def run() -> list[str]:
        world = ModelWorld()
        world.broker.faults = Faults(duplicate=0.3, reorder=0.5)
        world.publish(*(str(number) for number in range(20)))
        return world.pull_data()

    assert run() == run()


@pytest.mark.parametrize("faults", [{"duplicate": 1.1}, {"reorder": -0.1}, {"delay_seconds": -1}])
def test_faults_outside_their_range_are_refused(faults: dict[str, float]):
    with pytest.raises(BrokerError):
        Faults(**faults)
