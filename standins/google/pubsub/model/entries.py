"""The pieces that a subscription's backlog is made of: an entry, a delivery, what is counted.

Nothing here decides when something happens; `backlog` does.
"""

import enum
from dataclasses import dataclass

from standins.google.pubsub.model.published import Message


class State(enum.Enum):
    """Name where an entry stands."""

    WAITING = "waiting"
    LEASED = "leased"


@dataclass(slots=True)
class Entry:
    """Hold one message's fate in one subscription.

    `failures` counts nacks and expiries, `delivery` how often it was handed out (a part of the ack
    id).
    """

    number: int
    message: Message
    added_at: float
    available_at: float
    state: State = State.WAITING
    failures: int = 0
    delivery: int = 0
    deadline: float = 0.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """Hold what a subscriber is handed.

    The message, its ack id, and which attempt this is (1, 2, …).
    """

    ack_id: str
    message: Message
    attempt: int


@dataclass
class Counters:
    """Count what happened to the messages of one subscription since it was created."""

    delivered: int = 0
    acked: int = 0
    nacked: int = 0
    expired: int = 0
    dead_lettered: int = 0
    dropped: int = 0
