"""Scenarios of resources and limits: filters, refusals, names, updates, lists, replay."""

import datetime as dt
import time
from functools import partial

from standins.google.tests.pubsub_world import DAY, PROJECT, World, refusal
from standins.google.tests.scenarios_pull import scenario

DEMAND = 'hasPrefix(attributes.ce-type, "tpuprovisioner.demand.")'
INVALID = "INVALID_ARGUMENT"
_NOTHING_CAME_SECONDS = 4.0
"""After which a seek is believed to bring nothing back."""


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
