"""The faults that an at-least-once service is allowed to show, on demand and seeded.

They make a test meet in seconds what production shows once a month: duplicates, delay, reordering.
"""

from __future__ import annotations

from dataclasses import dataclass

from standins.pubsub.model.errors import invalid


@dataclass(frozen=True)
class Faults:
    """Hold how badly to behave.

    `duplicate` is the chance that a message is queued twice, `delay_seconds` the upper bound of a
    uniform delay before its first delivery, `reorder` the chance that a delivery takes another
    waiting message than the oldest.
    """

    duplicate: float = 0.0
    delay_seconds: float = 0.0
    reorder: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("duplicate", self.duplicate), ("reorder", self.reorder)):
            if not 0 <= value <= 1:
                raise invalid(name, value, "a probability from 0 to 1")
        if self.delay_seconds < 0:
            raise invalid("delay_seconds", self.delay_seconds, "zero or more seconds")
