"""A broker with a clock that only a test moves, and short ways to publish and pull."""

from typing import Any

from standins.pubsub.model.broker import Broker
from standins.pubsub.model.entries import Delivery
from standins.pubsub.model.published import Draft
from standins.pubsub.model.terms import SubscriptionTerms, TopicTerms

TOPIC = "projects/p/topics/events"
DEAD = "projects/p/topics/dead"
SUBSCRIPTION = "projects/p/subscriptions/work"
DEAD_SUBSCRIPTION = "projects/p/subscriptions/dead"


class ModelWorld:
    """One topic, one subscription, one dead-letter topic, and time that stands still."""

    def __init__(self, *, speed: float = 1.0, **terms: Any) -> None:
        self.now = 1_000_000.0
        self.broker = Broker(clock=lambda: self.now, speed=speed)
        self.broker.create_topic(TOPIC, TopicTerms())
        self.broker.create_topic(DEAD, TopicTerms())
        self.broker.create_subscription(SUBSCRIPTION, SubscriptionTerms(topic=TOPIC, **terms))
        self.broker.create_subscription(DEAD_SUBSCRIPTION, SubscriptionTerms(topic=DEAD))

    def publish(self, *data: str) -> None:
        self.broker.publish(TOPIC, [Draft(text.encode()) for text in data])

    def pull(self, limit: int = 100, *, name: str = SUBSCRIPTION) -> list[Delivery]:
        return self.broker.pull(name, limit=limit)

    def pull_data(self, *, name: str = SUBSCRIPTION) -> list[str]:
        return [delivery.message.data.decode() for delivery in self.pull(name=name)]

    def ack(self, *deliveries: Delivery) -> None:
        self.broker.acknowledge(SUBSCRIPTION, [delivery.ack_id for delivery in deliveries])

    def nack(self, *deliveries: Delivery) -> None:
        self.broker.modify_ack_deadline(SUBSCRIPTION, [delivery.ack_id for delivery in deliveries], 0)

    def pass_seconds(self, seconds: float) -> None:
        self.now += seconds

    @property
    def backlog(self) -> Any:
        return self.broker.subscription(SUBSCRIPTION).backlog
