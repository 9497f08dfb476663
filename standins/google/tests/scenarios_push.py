"""Scenarios of push: what is sent, which answers acknowledge, retries, dead letters."""

from typing import Any

from standins.google.tests.pubsub_world import DAY, World, texts
from standins.google.tests.push_receiver import Push, Receiver
from standins.google.tests.scenarios_pull import scenario
from standins.kit.processes import wait_until

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
        eventually_or_not(receiver, str(status))
    return {status: "nack" if _count(receiver, str(status)) > 1 else "ack" for status in statuses}


def _count(receiver: Receiver, text: str) -> int:
    return sum(push.text == text for push in list(receiver.pushes))


def _seen_before(receiver: Receiver, push: Push) -> bool:
    return any(other.text == push.text for other in receiver.pushes if other is not push)


def eventually_or_not(receiver: Receiver, text: str) -> None:
    """Give a redelivery three seconds to come."""
    try:
        wait_until(lambda: _count(receiver, text) > 1, seconds=3)
    except AssertionError:
        return


@scenario(documented=["a"])
def an_endpoint_that_was_down_gets_the_message_once_it_is_up(world: World) -> object:
    receiver = world.receiver()
    receiver.stop()
    topic, subscription = _pushed(world, receiver)
    world.publish(topic, "a")
    world.subscriber.get_subscription(subscription=subscription)
    receiver.start()
    return [push.text for push in receiver.wait_for(1)]


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
    receiver = world.receiver(delay_for=lambda _: 0.5)
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
