"""How long to wait before trying again: growing, jittered, bounded. Nothing waits in here."""

from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass(slots=True)
class Pauses:
    """A back-off that doubles from `first_seconds` to `longest_seconds`, with random jitter.

    The randomness keeps many exporters from asking a recovering server in step.
    """

    first_seconds: float = 0.1
    longest_seconds: float = 5.0
    failures: int = 0
    """How many failures in a row have been counted."""
    chance: random.Random = field(default_factory=random.Random)

    def next_seconds(self, advised_seconds: float | None = None) -> float:
        """Count one more failure and return the pause: at least as long as the server advised."""
        growing = self.first_seconds * 2.0 ** min(self.failures, 30)
        self.failures += 1
        jittered = min(growing, self.longest_seconds) * (1 - self.chance.random() / 2)
        return max(jittered, advised_seconds or 0.0)

    def reset(self) -> None:
        """Begin anew after a success."""
        self.failures = 0
