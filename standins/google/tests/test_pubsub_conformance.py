"""Scenarios of Pub/Sub on the broker, which must do what is documented, and on Google's emulator.

Where the emulator is known to differ, it must differ in exactly the stated way.
"""

import contextlib
import datetime as dt
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from standins.google.tests.emulator_process import DIFFERENCES, running_emulator
from standins.google.tests.pubsub_world import DAY, PROJECT, Push, Receiver, World, refusal, texts
from standins.kit.processes import NotReady, running_stand_in, wait_until

SCENARIOS: dict[str, tuple[object, Callable[[World], object]]] = {}
"""By name: what the documentation promises, and how to observe it."""


def scenario(documented: object) -> Callable[[Callable[[World], object]], Callable[[World], object]]:
    """Register a function as a scenario under its own name."""

    def register(observe: Callable[[World], object]) -> Callable[[World], object]:
        SCENARIOS[observe.__name__] = (documented, observe)
        return observe

    return register


def _dead_letters(world: World, **settings: Any) -> tuple[str, str, str]:
    """Return a topic, a subscription with a dead-letter policy of five attempts, and the dead
    letters' own.
    """
    dead, topic = world.topic(), world.topic()
    letters = world.subscription(dead)
    policy = {"dead_letter_topic": dead, "max_delivery_attempts": 5}
    return topic, world.subscription(topic, dead_letter_policy=policy, **settings), letters


@scenario(documented=("hello", {"a": "1"}, "k", True, True))
def a_message_arrives_as_it_was_published(world: World) -> object:
    topic, subscription = world.pair()
    (message_id,) = world.publish(topic, "hello", key="k", a="1")
    (received,) = world.pull_count(subscription, 1)
    message = received.message
    recent = abs(message.publish_time.timestamp() - time.time()) < 60
    same_id = message.message_id == message_id
    return message.data.decode(), dict(message.attributes), message.ordering_key, same_id, recent


@scenario(documented=([], ["a"]))
def a_message_comes_back_when_its_lease_ends_and_not_before(world: World) -> object:
    topic, subscription = world.pair()
    world.publish(topic, "a")
    world.lease(subscription, world.pull_count(subscription, 1), 2)
    before = texts(world.pull(subscription, seconds=0.5))
    return before, texts(world.pull_count(subscription, 1))


def _attempts(world: World, subscription: str, count: int) -> list[int]:
    attempts = []
    for _ in range(count):
        (received,) = world.pull_count(subscription, 1)
        attempts.append(received.delivery_attempt)
        world.lease(subscription, [received], 0)
    return attempts


@scenario(
    documented=(
        "bad",
        "red",
        {"DeliveryCount": "5", "Subscription": True, "SubscriptionProject": "conformance"},
        True,
        [1, 2, 3, 4, 5],
    )
)
def after_five_attempts_a_message_is_a_dead_letter_that_says_where_from(world: World) -> object:
    topic, subscription, letters = _dead_letters(world)
    world.publish(topic, "bad", colour="red")
    attempts = _attempts(world, subscription, 5)
    world.pull(subscription, seconds=0.3)
    (letter,) = world.pull_count(letters, 1)
    prefix = "CloudPubSubDeadLetterSource"
    source = {
        name.removeprefix(prefix): value
        for name, value in letter.message.attributes.items()
        if name.startswith(prefix)
    }
    has_time = bool(source.pop("TopicPublishTime", ""))
    source["Subscription"] = source.get("Subscription", "").split("/")[-1] == subscription.split("/")[-1]
    return letter.message.data.decode(), letter.message.attributes["colour"], source, has_time, attempts


@scenario(documented=["bad"])
def a_dead_letter_is_forwarded_without_another_pull(world: World) -> object:
    topic, subscription, letters = _dead_letters(world)
    world.publish(topic, "bad")
    _attempts(world, subscription, 5)
    return texts(world.pull(letters, seconds=20))  # Google's emulator never does it


@scenario(documented=("OK", ["a"]))
def a_late_acknowledgement_is_no_error(world: World) -> object:
    topic, subscription = world.pair()
    world.publish(topic, "a")
    (late,) = world.pull_count(subscription, 1)
    world.lease(subscription, [late], 0)
    again = texts(world.pull_count(subscription, 1))
    return refusal(lambda: world.ack(subscription, [late])), again


@scenario(documented=True)
def a_retry_policy_delays_the_redelivery(world: World) -> object:
    policy = {"minimum_backoff": {"seconds": 2}, "maximum_backoff": {"seconds": 4}}
    topic, subscription = world.pair(retry_policy=policy)
    world.publish(topic, "a")
    received = world.pull_count(subscription, 1)
    started = time.monotonic()
    world.lease(subscription, received, 0)
    world.pull_count(subscription, 1)
    # Two seconds at least from the refusal; how late beyond that is the machine's affair.
    return 1.5 <= time.monotonic() - started <= 15


@scenario(documented=["later"])
def a_subscription_sees_only_what_is_published_after_it(world: World) -> object:
    topic = world.topic()
    world.publish(topic, "earlier")
    subscription = world.subscription(topic)
    world.publish(topic, "later")
    return world.drain(subscription)


QUICK = {"minimum_backoff": {"seconds": 0}, "maximum_backoff": {"seconds": 1}}


def _pushed(world: World, receiver: Receiver, **settings: Any) -> tuple[str, str]:
    """Return a topic and a subscription that pushes to the receiver."""
    return world.pair(push_config={"push_endpoint": receiver.url}, retry_policy=QUICK, **settings)


@scenario(documented=("hello", {"a": "1"}, True, True, True, "application/json"))
def a_push_wraps_the_message(world: World) -> object:
    receiver = world.receiver()
    topic, _ = _pushed(world, receiver)
    world.publish(topic, "hello", a="1")
    push = receiver.wait_for(1)[0]
    message = push.document["message"]
    return (
        push.text,
        message["attributes"],
        message["messageId"] == message["message_id"],
        message["publishTime"] == message["publish_time"],
        push.document["subscription"].startswith("projects/conformance/subscriptions/"),
        push.headers["content-type"].split(";")[0],
    )


@scenario(documented=[1, 2, 3])
def a_push_states_the_attempt_under_a_dead_letter_policy(world: World) -> object:
    receiver: Receiver = world.receiver(status_for=lambda push: 200 if len(receiver.pushes) > 2 else 500)
    policy = {"dead_letter_topic": world.topic(), "max_delivery_attempts": 10}
    topic, _ = _pushed(world, receiver, dead_letter_policy=policy)
    world.publish(topic, "a")
    return [push.document.get("deliveryAttempt", "absent") for push in receiver.wait_for(3)]


@scenario(
    documented={200: "ack", 201: "ack", 202: "ack", 203: "nack", 204: "ack", 301: "nack", 404: "nack", 500: "nack"}
)
def only_the_documented_statuses_acknowledge(world: World) -> object:
    statuses = (200, 201, 202, 203, 204, 301, 404, 500)
    receiver: Receiver = world.receiver(
        status_for=lambda push: 200 if _seen_before(receiver, push) else int(push.text)
    )
    topic, _ = _pushed(world, receiver)
    world.publish(topic, *(str(status) for status in statuses))
    nacked = (203, 301, 404, 500)
    for status in nacked:
        with contextlib.suppress(NotReady):  # three seconds for a redelivery to come
            wait_until(lambda text=str(status): _count(receiver, text) > 1, seconds=3)  # type: ignore[misc]
    return {status: "nack" if _count(receiver, str(status)) > 1 else "ack" for status in statuses}


def _count(receiver: Receiver, text: str) -> int:
    return sum(push.text == text for push in list(receiver.pushes))


def _seen_before(receiver: Receiver, push: Push) -> bool:
    return any(other.text == push.text for other in receiver.pushes if other is not push)


@scenario(documented=(["bad"], 5))
def a_push_that_fails_five_times_is_a_dead_letter(world: World) -> object:
    receiver: Receiver = world.receiver(status_for=lambda _: 500)
    dead = world.topic()
    letters = world.subscription(dead)
    policy = {"dead_letter_topic": dead, "max_delivery_attempts": 5}
    topic, _ = _pushed(world, receiver, dead_letter_policy=policy)
    world.publish(topic, "bad")
    received = texts(world.pull_count(letters, 1))
    return received, len(receiver.pushes)


@scenario(documented=True)
def a_subscription_pushes_more_than_two_at_a_time(world: World) -> object:
    receiver = world.receiver(seconds=0.5)
    topic, _ = _pushed(world, receiver)
    world.publish(topic, *(str(number) for number in range(12)))
    pushes = receiver.wait_for(12)
    wait_until(lambda: all(push.ended for push in pushes))
    at_once = max(sum(other.started <= push.started < other.ended for other in pushes) for push in pushes)
    return at_once > 2


@scenario(documented=(["first"], ["second"]))
def a_push_config_can_be_taken_away_and_given_back(world: World) -> object:
    receiver = world.receiver()
    topic, subscription = _pushed(world, receiver)
    world.subscriber.modify_push_config(request={"subscription": subscription, "push_config": {}})
    world.publish(topic, "first")
    pulled = world.drain(subscription)
    config = {"push_endpoint": receiver.url}
    world.subscriber.modify_push_config(request={"subscription": subscription, "push_config": config})
    world.publish(topic, "second")
    return pulled, [push.text for push in receiver.wait_for(1)]


@scenario(documented=(["a"], "a"))
def a_seek_pushes_again(world: World) -> object:
    receiver = world.receiver()
    topic = world.topic(message_retention_duration=DAY)
    subscription = world.subscription(topic, push_config={"push_endpoint": receiver.url}, retry_policy=QUICK)
    world.publish(topic, "a")
    first = [push.text for push in receiver.wait_for(1)]
    world.subscriber.seek(request={"subscription": subscription, "time": "2020-01-01T00:00:00Z"})
    return first, receiver.wait_for(2)[1].text


DEMAND = 'hasPrefix(attributes.ce-type, "tpuprovisioner.demand.")'
INVALID = "INVALID_ARGUMENT"
_NOTHING_CAME_SECONDS = 4.0  # after which a seek is believed to bring nothing back


def _filtered(world: World, text: str) -> list[str]:
    """Return which of four messages a filter lets through."""
    topic, subscription = world.pair(filter=text)
    world.publish(topic, "demand", **{"ce-type": "tpuprovisioner.demand.v1"})
    world.publish(topic, "over", **{"ce-type": "tpuprovisioner.workload-over.v1"})
    world.publish(topic, "bare")
    world.publish(topic, "red", colour="red")
    return sorted(world.drain(subscription))


@scenario(documented=["demand"])
def a_filter_lets_through_what_matches(world: World) -> object:
    return _filtered(world, DEMAND)


@scenario(documented=["bare", "over", "red"])
def a_negated_filter_lets_through_the_rest(world: World) -> object:
    return _filtered(world, f"NOT {DEMAND}")


@scenario(documented=[INVALID, INVALID, INVALID])
def a_filter_outside_the_grammar_is_refused(world: World) -> object:
    topic = world.topic()
    wrong = ("bogus(", 'data = "x"', 'attributes.a = "' + "x" * 256 + '"')
    return [refusal(partial(world.subscription, topic, filter=text)) for text in wrong]


@scenario(documented=(INVALID, INVALID, INVALID, INVALID, INVALID))
def messages_beyond_the_limits_are_refused(world: World) -> object:
    topic = world.topic()
    return (
        refusal(lambda: world.publish(topic, "")),
        refusal(lambda: world.publish(topic, "x", a="v" * 1100)),
        refusal(lambda: world.publish(topic, "x", **{f"a{number}": "v" for number in range(101)})),
        refusal(lambda: world.publish(topic, "x", googlething="v")),
        refusal(lambda: world.publish(topic, "x", **{"k" * 257: "v"})),
    )


@scenario(documented=("NOT_FOUND", "NOT_FOUND", "NOT_FOUND", "ALREADY_EXISTS", "ALREADY_EXISTS"))
def missing_and_existing_resources_are_told_apart(world: World) -> object:
    topic, subscription = world.pair()
    again = {"name": subscription, "topic": topic}
    return (
        refusal(lambda: world.publish(f"{PROJECT}/topics/absent", "x")),
        refusal(lambda: world.subscriber.get_subscription(subscription=f"{PROJECT}/subscriptions/absent")),
        refusal(lambda: world.subscription(f"{PROJECT}/topics/absent")),
        refusal(lambda: world.publisher.create_topic(name=topic)),
        refusal(lambda: world.subscriber.create_subscription(request=again)),
    )


def _published_and_acked(world: World, topic: str, subscription: str, text: str) -> dt.datetime:
    """Publish and acknowledge one message; return a moment after it."""
    world.publish(topic, text)
    world.ack(subscription, world.pull_count(subscription, 1))
    return _moment()


def _moment() -> dt.datetime:
    """Return a moment that is clearly after all that was published so far and before all that will
    be.

    Google's emulator cuts publish times down to milliseconds: what is published in the same one as
    the moment would count as before it.
    """
    time.sleep(0.05)
    moment = dt.datetime.now(dt.UTC)
    time.sleep(0.05)
    return moment


def _seek(world: World, subscription: str, moment: dt.datetime, **patience: float) -> list[str]:
    world.subscriber.seek(request={"subscription": subscription, "time": moment})
    return sorted(world.drain(subscription, **patience))


@scenario(documented=(["late"], ["early", "late"]))
def a_seek_to_a_time_brings_back_retained_messages(world: World) -> object:
    topic = world.topic(message_retention_duration=DAY)
    subscription = world.subscription(topic)
    start = _moment()
    moment = _published_and_acked(world, topic, subscription, "early")
    _published_and_acked(world, topic, subscription, "late")
    return _seek(world, subscription, moment), _seek(world, subscription, start)


@scenario(documented=[])
def a_seek_without_retention_brings_nothing_back(world: World) -> object:
    topic, subscription = world.pair()
    start = _moment()
    _published_and_acked(world, topic, subscription, "gone")
    return _seek(world, subscription, start, first_seconds=_NOTHING_CAME_SECONDS)


@scenario(documented=[])
def a_seek_to_the_future_purges(world: World) -> object:
    topic, subscription = world.pair()
    world.publish(topic, "a", "b")
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    return _seek(world, subscription, later, first_seconds=_NOTHING_CAME_SECONDS)


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
    documented, observe = SCENARIOS[name]
    assert observe(broker) == documented


@pytest.mark.tool
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_emulator_does_what_is_documented_or_differs_as_stated(name: str, emulator: World) -> None:
    documented, observe = SCENARIOS[name]
    assert observe(emulator) == DIFFERENCES.get(name, (documented, ""))[0]


def test_every_stated_difference_is_one_and_belongs_to_a_scenario() -> None:
    assert set(DIFFERENCES) <= set(SCENARIOS)
    for name, (observed, sentence) in DIFFERENCES.items():
        assert observed != SCENARIOS[name][0], name
        assert sentence.endswith("."), name
