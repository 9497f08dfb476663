"""The time of day, behind a port so that the rules never read it themselves."""

from __future__ import annotations

import time


class SystemClock:
    """`shared.model.times.Clock` of this machine."""

    def now(self) -> float:
        """Return unix seconds."""
        return time.time()


SYSTEM_CLOCK = SystemClock()
