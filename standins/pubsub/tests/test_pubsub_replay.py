"""The model's seek: to a time, to a snapshot, to the future, with and without retention."""

import pytest

from standins.pubsub.model.errors import BrokerError
from standins.pubsub.model.terms import SubscriptionTerms
from standins.pubsub.tests.pubsub_model_world import DEAD, SUBSCRIPTION, TOPIC, ModelWorld

SNAPSHOT = "projects/p/snapshots/before"


def _acknowledged(world: ModelWorld, *data: str) -> None:
    world.publish(*data)
    world.ack(*world.pull())
    world.pass_seconds(10)


def test_retained_messages_age_out() -> None:
    world = ModelWorld(retain_acked=True, retention_seconds=600)
    _acknowledged(world, "old")
    world.pass_seconds(601)
    world.broker.seek(SUBSCRIPTION, moment=0)
    assert world.pull() == []


def test_a_seek_to_the_future_purges_what_waits_and_not_what_comes() -> None:
    world = ModelWorld()
    world.publish("waiting")
    world.broker.seek(SUBSCRIPTION, moment=world.now + 3600)
    world.publish("new")
    assert world.pull_data() == ["new"]


def test_a_seek_ends_all_leases() -> None:
    world = ModelWorld()
    world.publish("a")
    (delivery,) = world.pull()
    world.broker.seek(SUBSCRIPTION, moment=0)
    world.ack(delivery)
    assert world.pull_data() == ["a"]


def test_a_snapshot_serves_another_subscription_of_the_same_topic_only() -> None:
    world = ModelWorld()
    world.publish("a")
    world.broker.create_snapshot(SNAPSHOT, SUBSCRIPTION)
    same, other = "projects/p/subscriptions/same", "projects/p/subscriptions/other"
    world.broker.create_subscription(same, SubscriptionTerms(topic=TOPIC))
    world.broker.create_subscription(other, SubscriptionTerms(topic=DEAD))
    world.broker.seek(same, snapshot=SNAPSHOT)
    assert world.pull_data(name=same) == ["a"]
    with pytest.raises(BrokerError, match="a snapshot of the topic"):
        world.broker.seek(other, snapshot=SNAPSHOT)


def test_a_snapshot_lives_seven_days_less_the_age_of_its_oldest_message() -> None:
    world = ModelWorld()
    world.publish("old")
    world.pass_seconds(3 * 86400)
    snapshot = world.broker.create_snapshot(SNAPSHOT, SUBSCRIPTION)
    assert snapshot.expires_at - world.now == pytest.approx(4 * 86400)


def test_a_snapshot_that_would_expire_within_the_hour_is_refused() -> None:
    world = ModelWorld(retention_seconds=20 * 86400)
    world.publish("old")
    world.pass_seconds(7 * 86400 - 3599)
    with pytest.raises(BrokerError, match="less than 3600"):
        world.broker.create_snapshot(SNAPSHOT, SUBSCRIPTION)


def test_an_expired_snapshot_is_gone() -> None:
    world = ModelWorld()
    world.broker.create_snapshot(SNAPSHOT, SUBSCRIPTION)
    world.pass_seconds(8 * 86400)
    with pytest.raises(BrokerError, match="expired"):
        world.broker.seek(SUBSCRIPTION, snapshot=SNAPSHOT)
