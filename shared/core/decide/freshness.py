"""Limits the age of the facts from which a deletion or a resize is decided. Pure."""

from __future__ import annotations

LOOKS_MAX = 3
"""How often the same thing is looked at before a later delivery or sweep tries again."""
_SECONDS_MAX = 10.0
"""Most looks take less than a second; an instance that was frozen, or a call that was tried again,
takes minutes."""
_SECONDS_PER_OBJECT = 0.1
"""The pods of a pool are listed node by node, and a busy API server takes so long for each."""


def is_fresh(looked_at: float, *, now: float, objects: int = 0) -> bool:
    """Return whether a look is young enough to act on.

    Args:
        looked_at: when its first read began, in unix seconds.
        now: unix seconds. A clock that went back makes the look old.
        objects: how many objects were read one by one.
    """
    return 0 <= now - looked_at <= _SECONDS_MAX + _SECONDS_PER_OBJECT * objects
