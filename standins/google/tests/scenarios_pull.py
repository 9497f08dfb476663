"""Scenarios of pulling, for every server."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from standins.google.tests.pubsub_world import World, refusal, texts


@dataclass(frozen=True)
class Scenario:
    """A name, what the documentation promises, and how to observe it."""

    name: str
    documented: object
    observe: Callable[[World], object]


SCENARIOS: dict[str, Scenario] = {}


def scenario(documented: object) -> Callable[[Callable[[World], object]], Callable[[World], object]]:
    """Register a function as a scenario under its own name."""

    def register(observe: Callable[[World], object]) -> Callable[[World], object]:
        name = observe.__name__
        SCENARIOS[name] = Scenario(name, documented, observe)
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


@scenario(documented=["a"])
def a_nacked_message_comes_back(world: World) -> object:
    topic, subscription = world.pair()
    world.publish(topic, "a")
    world.lease(subscription, world.pull_count(subscription, 1), 0)
    return texts(world.pull_count(subscription, 1))


@scenario(documented=([], ["a"]))
def a_message_comes_back_when_its_lease_ends_and_not_before(world: World) -> object:
    topic, subscription = world.pair()
    world.publish(topic, "a")
    world.lease(subscription, world.pull_count(subscription, 1), 2)
    before = texts(world.pull(subscription, seconds=0.5))
    return before, texts(world.pull_count(subscription, 1))


@scenario(documented=["a", "a"])
def every_subscription_gets_its_own_copy(world: World) -> object:
    topic, first = world.pair()
    second = world.subscription(topic)
    world.publish(topic, "a")
    return texts([*world.pull_count(first, 1), *world.pull_count(second, 1)])


@scenario(documented=[1, 2, 3])
def under_a_dead_letter_policy_attempts_are_counted(world: World) -> object:
    topic, subscription, _ = _dead_letters(world)
    world.publish(topic, "a")
    return _attempts(world, subscription, 3)


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
    )
)
def after_five_attempts_a_message_is_a_dead_letter_that_says_where_from(world: World) -> object:
    topic, subscription, letters = _dead_letters(world)
    world.publish(topic, "bad", colour="red")
    _attempts(world, subscription, 5)
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
    return letter.message.data.decode(), letter.message.attributes["colour"], source, has_time


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
