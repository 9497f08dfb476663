"""Limits the age of what a decision rests on: these four windows, and no others. Pure."""

from __future__ import annotations

LOOKS_MAX = 3
"""How often the same thing is looked at before a later delivery or sweep tries again."""
SHARED_SECONDS = 3.0
"""How long reads serve others: of an owner, and a list of pools, the other deletions of a batch; a
list of waiting leaders, or of pools, and namespaces, the other deliveries of a process. They count
as the age of the look. 16 looks side by side at one workload of 4,000 pods would hold 600 MiB."""
FRESH_SECONDS = 5.0
"""A leader that has waited for less is left out, because its message is about to be handled."""
LOOK_SECONDS = 10.0
"""How old a look may be when an act rests on it, and a read that serves a whole sweep. Most looks
take less than a second; an instance that was frozen, or a call that was tried again, takes
minutes."""
TURN_SECONDS = 30.0
"""How old a list of pools may be from which leaders are answered, and how long after the first look
of its turn a slice's pool may be created, and after its chips were reserved. A failed attempt whose
pool is gone again, while the next one lives, takes longer than twice this time."""
_SECONDS_PER_OBJECT = 0.1
"""The pods of a pool are listed node by node, and a busy API server takes so long for each."""


def is_fresh(looked_at: float, *, now: float, objects: int = 0) -> bool:
    """Return whether a look is young enough to act on.

    Args:
        looked_at: when its first read began, in unix seconds.
        now: unix seconds. A clock that went back makes the look old.
        objects: how many objects were read one by one.
    """
    return 0 <= now - looked_at <= LOOK_SECONDS + _SECONDS_PER_OBJECT * objects
