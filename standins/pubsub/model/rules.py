"""What governs one backlog (`Rules`) and what is counted of it (`Counters`).

Plain values, no state machine.
"""

from dataclasses import dataclass

from standins.pubsub.model.terms import RetryPolicy


@dataclass(frozen=True)
class Rules:
    """Hold what governs a backlog.

    All seconds are real ones, already divided by the broker's speed.
    """

    retain_acked: bool = False
    retention_seconds: float = 7 * 86_400.0
    retry: RetryPolicy | None = None
    max_attempts: int | None = None
    speed: float = 1.0

    def backoff_seconds(self, failures: int) -> float:
        """Return the real seconds to wait after the n-th failure.

        Without a policy redelivery is immediate.
        """
        return self.retry.backoff_seconds(failures) / self.speed if self.retry else 0.0


@dataclass
class Counters:
    """Count what happened to the messages of one subscription since it was created."""

    delivered: int = 0
    acked: int = 0
    nacked: int = 0
    expired: int = 0
    dead_lettered: int = 0
    dropped: int = 0
