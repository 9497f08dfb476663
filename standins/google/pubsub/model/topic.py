"""One topic: its terms and every message that was ever published to it.

The whole history is kept for whoever asks what happened; `retained` says what the service would
still have.
"""

from dataclasses import dataclass, field

from standins.google.pubsub.model.published import Message
from standins.google.pubsub.model.terms import TopicTerms


@dataclass
class Topic:
    """Hold a topic's terms and history."""

    name: str
    terms: TopicTerms
    published: list[Message] = field(default_factory=list)

    def retained(self, now: float) -> list[Message]:
        """Return the messages within the topic's own retention, none if it has no retention."""
        if self.terms.retention_seconds is None:
            return []
        oldest = now - self.terms.retention_seconds
        return [message for message in self.published if message.publish_time >= oldest]
