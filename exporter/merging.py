"""Merges the demands of one workload that are seen within a second of each other.

One message about a workload answers all of its leaders. So the first is published at once, and one
more covers all that are seen in the second after it. That one is published at the end of the
second, after each of them was seen, so none is lost.

Pure: no clock and no lock; the caller has both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import ValuesView

    from shared.model.messages import Event, ObjectName

MERGE_SECONDS = 1.0
_Key = tuple[str, "ObjectName"]
"""Cluster and workload. With its UID, so that a workload of the same name is another one."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """An event that Pub/Sub has not stored yet."""

    event: Event
    seen_at: float


class Merging:
    """The workloads whose demands passed within the last second, and what is kept for its end."""

    def __init__(self) -> None:
        self._passed_at: dict[_Key, float] = {}
        """When a demand of each workload was last let pass; the oldest first."""
        self._kept: dict[_Key, Waiting] = {}

    @property
    def kept(self) -> ValuesView[Waiting]:
        """What waits for the end of its second."""
        return self._kept.values()

    def covers(self, event: Event) -> bool:
        """Return whether an event that is kept covers this one too."""
        return event.covers_all_leaders and (event.cluster, event.subject) in self._kept

    def let_pass(self, waiting: Waiting, now: float) -> bool:
        """Return whether an event is to be published at once; if not, it is kept."""
        if not waiting.event.covers_all_leaders:
            return True
        key = (waiting.event.cluster, waiting.event.subject)
        if key in self._passed_at:
            self._kept[key] = waiting
            return False
        self._passed_at[key] = now
        return True

    def find_seconds_left(self, now: float) -> float:
        """Return in how many seconds the next second of a workload is over."""
        return MERGE_SECONDS - (now - next(iter(self._passed_at.values()), math.inf))

    def release(self, now: float) -> list[Waiting]:
        """Return what was kept and is due, and forget the workloads whose second is over."""
        due = []
        while self.find_seconds_left(now) <= 0:
            key = next(iter(self._passed_at))
            del self._passed_at[key]
            if key in self._kept:
                due.append(self._kept.pop(key))
                self._passed_at[key] = now
        return due
