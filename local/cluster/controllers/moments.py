"""How long ago a timestamp in an object was, in virtual seconds."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from local.cluster.clock import Clock


def seconds_since(timestamp: str | None, clock: Clock) -> float:
    """Return the virtual seconds since an RFC 3339 stamp; 0 when there is none.

    Stamps have whole seconds, so the answer is up to one real second too large.
    """
    if timestamp is None:
        return 0.0
    return (clock.now() - datetime.fromisoformat(timestamp)).total_seconds() * clock.speed
