"""How many pushes a subscription may have under way, and how long it pauses after failures. Pure.

A simplification of https://cloud.google.com/pubsub/docs/push#push_backoff: the window doubles with
every window's worth of acks, keeps its size while answers are slow, and halves on a failure; the
pause doubles per failure and halves per ack.
"""

from collections import deque

START_SIZE = 4
MAX_SIZE = 100
SLOW_SECONDS = 1.0
MIN_ACK_SHARE = 0.99
MIN_PAUSE_SECONDS = 0.1
MAX_PAUSE_SECONDS = 60.0
SAMPLE = 100


class PushWindow:
    """Keep a subscription's push concurrency and pause.

    `pausing` is off where a retry policy sets the pace.
    """

    def __init__(self) -> None:
        self.size = START_SIZE
        self.resume_at = 0.0
        self._pause = 0.0
        self._outcomes: deque[tuple[bool, float]] = deque(maxlen=SAMPLE)

    def record(self, *, acked: bool, latency_seconds: float, now: float, pausing: bool) -> None:
        """Learn from one answered push: its outcome, and its latency."""
        self._outcomes.append((acked, latency_seconds))
        if acked:
            self._pause = self._pause / 2 if self._pause > MIN_PAUSE_SECONDS else 0.0
            if self._healthy():
                self.size = min(MAX_SIZE, self.size + 1)
        else:
            self.size = max(1, self.size // 2)
            self._pause = min(MAX_PAUSE_SECONDS, max(MIN_PAUSE_SECONDS, self._pause * 2))
        self.resume_at = now + self._pause if pausing else 0.0

    def _healthy(self) -> bool:
        count = len(self._outcomes)
        share = sum(acked for acked, _ in self._outcomes) / count
        mean = sum(latency for _, latency in self._outcomes) / count
        return share >= MIN_ACK_SHARE and mean < SLOW_SECONDS
