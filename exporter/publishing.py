"""The outbox: a bounded queue of events, and the thread that publishes each until it is stored.

A single event is published at once. Events that are added while a batch is being published are
published together in the next batch. If the queue is full, a thread that adds an event waits. Only
an event that Pub/Sub refuses for ever is dropped, and the next tick looks at its object. Events
that are still in the queue when the process ends are reported again by the next process, because
their facts are still true.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from exporter.health import Metrics
from shared.model.errors import InvalidRequest, ProvisionerError
from shared.model.messages import KINDS_PLURAL, Event, Message, format_message

BATCH_MAX = 100
"""A message is about 1 kB, so a batch stays near 100 kB, a hundredth of what the service
accepts."""
WAIT_SECONDS = 1.0  # how often a thread that waits shows that it lives
_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Pauses:
    """A back-off that doubles from `first_seconds` to `longest_seconds`, with random jitter.

    The randomness keeps many exporters from asking a recovering server in step.
    """

    first_seconds: float = 0.1
    longest_seconds: float = 5.0
    failures: int = 0  # how many failures in a row have been counted
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


@dataclass(frozen=True, slots=True)
class Waiting:
    """An event that Pub/Sub has not stored yet."""

    event: Event
    seen_at: float


class Closed(Exception):
    """The outbox takes no more events: the process is ending."""


class Outbox:
    """Events on their way to Pub/Sub, first in first out, never more than a fixed number."""

    def __init__(
        self,
        publish: Callable[[Sequence[Message]], list[str]],
        *,
        capacity: int,
        metrics: Metrics,
        pauses: Pauses,
        may_publish: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare an empty outbox; `run` does the work.

        `publish` sends one batch and returns its message ids. `may_publish` is asked before each
        batch: whether this process still leads.
        """
        self._publish, self._capacity, self._metrics = publish, capacity, metrics
        # From 0, because an alert reads its growth.
        metrics.publish_failures.labels(InvalidRequest.reason)
        self._may_publish, self._clock = may_publish, clock
        self._pauses = pauses
        self._queue: deque[Waiting] = deque()
        self._changed = threading.Condition()
        self._stopped = False
        self._singly = 0
        """How many of the oldest are sent one by one, because Pub/Sub refused them together."""

    def put(self, event: Event, seen_at: float, beat: Callable[[], None] = lambda: None) -> None:
        """Add an event that arrived at `seen_at`, waiting for room as long as it takes.

        `beat` is called about once a second meanwhile. `Closed`: the process is ending.
        """
        with self._changed:
            while len(self) >= self._capacity and not self._stopped:
                beat()
                self._changed.wait(WAIT_SECONDS)
            if self._stopped:
                raise Closed
            self._queue.append(Waiting(event, seen_at))
            self._changed.notify_all()

    def run(self) -> None:
        """Publish until `stop`; the body of the one publishing thread."""
        while batch := self._next_batch():
            try:
                ids = self._publish([format_message(each.event) for each in batch])
            except InvalidRequest as error:
                self._note_refusal(batch, error)
            except ProvisionerError as error:
                self._note_failure(batch, error)
                pause = self._pauses.next_seconds(getattr(error, "retry_after_seconds", None))
                with self._changed:
                    self._changed.wait_for(lambda: self._stopped, pause)
            else:
                self._note_success(batch, ids)

    def stop(self) -> None:
        """Take no more events, end `run` after the batch under way, and wake whoever waits."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def __len__(self) -> int:
        """Return how many events wait or are under way."""
        return len(self._queue)

    def oldest_age_seconds(self) -> float:
        """Return the age of the oldest event that is not stored yet; 0 without one."""
        with self._changed:
            now = self._clock()
            return now - min((each.seen_at for each in self._queue), default=now)

    def _next_batch(self) -> list[Waiting]:
        """Wait for events and return the oldest; they remain in the queue until they are stored."""
        with self._changed:
            while not self._stopped and not (self._queue and self._may_publish()):
                self._changed.wait(WAIT_SECONDS)
            if self._stopped:
                return []
            return list(islice(self._queue, 1 if self._singly else BATCH_MAX))

    def _note_success(self, batch: list[Waiting], ids: list[str]) -> None:
        now = self._clock()
        self._pauses.reset()
        for waiting, message_id in zip(batch, ids, strict=False):
            event = waiting.event
            self._metrics.published.labels(event.type).inc()
            self._metrics.publish_seconds.observe(now - waiting.seen_at)
            _logger.info("published", extra=_facts(event) | {"message_id": message_id})
        self._remove(batch)

    def _remove(self, batch: list[Waiting]) -> None:
        """Forget the oldest events. It comes last: the process may end when the queue is empty."""
        with self._changed:
            for _ in batch:
                self._queue.popleft()
            self._singly = max(self._singly - len(batch), 0)
            self._changed.notify_all()

    def _note_failure(self, batch: list[Waiting], error: ProvisionerError) -> None:
        self._metrics.publish_failures.labels(error.reason).inc()
        counts = {"batch": len(batch), "waiting": len(self), "attempt": self._pauses.failures + 1}
        facts = {"problem": str(error), "reason": error.reason, **counts}
        _logger.warning("publish failed, will be tried again", extra=facts)

    def _note_refusal(self, batch: list[Waiting], error: InvalidRequest) -> None:
        """Drop a lone event that is refused for ever; of several, let each be sent alone."""
        self._metrics.publish_failures.labels(error.reason).inc()
        if len(batch) > 1:
            self._singly = len(batch)
            return
        facts = _facts(batch[0].event) | {"problem": str(error), "reason": error.reason}
        _logger.error("event dropped, because Pub/Sub refuses it", extra=facts)
        self._remove(batch)


def _facts(event: Event) -> dict[str, str]:
    plural = KINDS_PLURAL[event.subject.kind]
    return {
        "event_type": str(event.type),
        "event_id": event.id,
        "cluster": event.cluster,
        "subject": f"namespaces/{event.subject.namespace}/{plural}/{event.subject.name}",
        "cause": event.cause,
        "uid": event.subject.uid,
    }
