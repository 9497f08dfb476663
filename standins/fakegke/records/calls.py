"""A bounded record of every call that was made, for tests and for people."""

from collections import deque
from typing import Any

from standins.fakegke.model.node_events import CallMade, Event

_KEPT = 200_000


class CallLog:
    """Remembers the latest calls, oldest first."""

    def __init__(self) -> None:
        self._calls: deque[CallMade] = deque(maxlen=_KEPT)

    def note(self, event: Event) -> None:
        """Take note of an event if it is a call."""
        if isinstance(event, CallMade):
            self._calls.append(event)

    def listed(self) -> list[dict[str, Any]]:
        """Return the calls as plain data; `at` is Unix seconds."""
        return [dict(vars(call)) for call in self._calls]
