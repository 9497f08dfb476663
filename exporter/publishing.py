"""The outbox: a bounded queue of events, and the thread that publishes each until it is stored.

A single event is published at once, and demands of one workload that follow it within a second are
merged (`exporter.merging`). Events that are added while a batch is being published are published
together in the next batch. If the queue is full, a thread that adds an event waits. Only an event
that Pub/Sub refuses for ever is dropped, and the next tick looks at its object. Events that are
still in the queue when the process ends are reported again by the next process, because their facts
are still true.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from itertools import chain, islice
from typing import TYPE_CHECKING

from exporter.merging import Merging, Waiting
from exporter.pauses import Pauses
from shared.model.errors import InvalidRequest, ProvisionerError
from shared.model.messages import KINDS_PLURAL, format_message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from exporter.metrics import Metrics
    from shared.model.messages import Event, Message

BATCH_MAX = 100
"""A message is about 1 kB, so a batch stays near 100 kB, a hundredth of what the service
accepts."""
WAIT_SECONDS = 1.0
"""How often a thread that waits shows that it lives."""
_logger = logging.getLogger(__name__)


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
        may_publish: Callable[[], bool] = lambda: True,
        pauses: Pauses | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare an empty outbox; `run` does the work.

        Args:
            publish: Sends one batch and returns its message ids, or raises a `ProvisionerError`.
            capacity: How many events may wait.
            metrics: Where to count.
            may_publish: Asked before each batch: whether this process still leads.
            pauses: The back-off between failures.
            clock: Seconds that only grow.
        """
        self._publish, self._capacity, self._metrics = publish, capacity, metrics
        metrics.publish_failures.labels(InvalidRequest.reason)  # from 0, because an alert reads its growth
        self._may_publish, self._clock = may_publish, clock
        self._pauses = pauses or Pauses()
        self._queue: deque[Waiting] = deque()
        self._merging = Merging()
        self._changed = threading.Condition()
        self._closed = self._stopped = False
        self._singly = 0
        """How many of the oldest are sent one by one, because Pub/Sub refused them together."""

    def put(self, event: Event, seen_at: float, beat: Callable[[], None] = lambda: None) -> None:
        """Add an event, waiting for room as long as it takes.

        Args:
            event: What to publish.
            seen_at: When the watch event arrived, by this outbox's clock.
            beat: Called about once a second while waiting.

        Raises:
            Closed: the process is ending; the event was not added.
        """
        with self._changed:
            while len(self) >= self._capacity and not self._closed:
                beat()
                self._changed.wait(WAIT_SECONDS)
            if self._closed:
                raise Closed
            waiting = Waiting(event, seen_at)
            if self._merging.covers(event):
                self._metrics.merged.labels(event.type, event.observed).inc()
            elif self._merging.let_pass(waiting, self._clock()):
                self._queue.append(waiting)
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
                self._wait(self._pauses.next_seconds(getattr(error, "retry_after_seconds", None)))
            else:
                self._note_success(batch, ids)

    def drain(self, seconds: float) -> int:
        """Refuse new events, wait until all are stored or time is up; return how many are left."""
        until = self._clock() + seconds
        with self._changed:
            self._closed = True
            self._queue.extend(self._merging.kept)
            self._merging = Merging()
            self._changed.notify_all()
            while self._queue and (remaining := until - self._clock()) > 0 and not self._stopped:
                self._changed.wait(remaining)
            return len(self._queue)

    def stop(self) -> None:
        """End `run` after the batch that is under way, and wake everybody who waits."""
        with self._changed:
            self._closed = self._stopped = True
            self._changed.notify_all()

    def __len__(self) -> int:
        """Return how many events wait or are under way."""
        return len(self._queue) + len(self._merging.kept)

    def oldest_age_seconds(self) -> float:
        """Return the age of the oldest event that is not stored yet; 0 without one."""
        with self._changed:
            now = self._clock()
            return now - min((each.seen_at for each in chain(self._queue, self._merging.kept)), default=now)

    def _next_batch(self) -> list[Waiting]:
        """Wait for events and return the oldest; they remain in the queue until they are stored."""
        with self._changed:
            while not self._stopped:
                now = self._clock()
                self._queue.extend(self._merging.release(now))
                if self._queue and self._may_publish():
                    break
                self._changed.wait(min(WAIT_SECONDS, self._merging.find_seconds_left(now)))
            if self._stopped:
                return []
            return list(islice(self._queue, 1 if self._singly else BATCH_MAX))

    def _wait(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped, seconds)

    def _note_success(self, batch: list[Waiting], ids: list[str]) -> None:
        now = self._clock()
        self._pauses.reset()
        for waiting, message_id in zip(batch, ids, strict=False):
            event = waiting.event
            self._metrics.published.labels(event.type, event.observed).inc()
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
        _logger.warning(
            "publish failed, will be tried again",
            extra={
                "problem": str(error),
                "reason": error.reason,
                "batch": len(batch),
                "waiting": len(self),
                "attempt": self._pauses.failures + 1,
            },
        )

    def _note_refusal(self, batch: list[Waiting], error: InvalidRequest) -> None:
        """Drop a lone event that is refused for ever; of several, let each be sent alone."""
        self._metrics.publish_failures.labels(error.reason).inc()
        if len(batch) > 1:
            self._singly = len(batch)
            return
        refused = {"problem": str(error), "reason": error.reason}
        _logger.error("event dropped, because Pub/Sub refuses it", extra=_facts(batch[0].event) | refused)
        self._remove(batch)


def _facts(event: Event) -> dict[str, str]:
    plural = KINDS_PLURAL[event.subject.kind]
    return {
        "event_type": str(event.type),
        "event_id": event.id,
        "cluster": event.cluster,
        "subject": f"namespaces/{event.subject.namespace}/{plural}/{event.subject.name}",
        "observed": str(event.observed),
        "uid": event.subject.uid,
    }
