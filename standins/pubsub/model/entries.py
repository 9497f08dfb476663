"""The pieces that a subscription's backlog is made of.

An entry, a delivery, the line of one ordering key.

Nothing here decides when something happens; `backlog` does.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from standins.pubsub.model.published import Message


class State(enum.Enum):
    """Name where an entry stands.

    ACKED entries linger only behind an unacknowledged one of the same key.
    """

    WAITING = "waiting"
    LEASED = "leased"
    ACKED = "acked"


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


@dataclass(slots=True)
class KeyLine:
    """Hold the entries of one ordering key in publish order, and how many are handed out."""

    entries: deque[Entry] = field(default_factory=deque)
    outstanding: int = 0

    def first_waiting(self) -> Entry | None:
        """Return the entry whose turn it is, or None while any entry of the key is handed out."""
        if self.outstanding:
            return None
        return next((entry for entry in self.entries if entry.state is State.WAITING), None)

    def followers(self, entry: Entry) -> list[Entry]:
        """Return the entries behind the given one."""
        return [other for other in self.entries if other.number > entry.number]
