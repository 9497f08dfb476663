"""Counts the deletions of one sweep, so that a mistake of ours cannot delete very many pools."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass(slots=True)
class DeletionCap:
    """How many pools one sweep of a cluster may still delete without proof from their owners.

    Several threads may share it.
    """

    left: int
    """At first ``sweep_deletions_max``."""
    reserved: int = 0
    """Of these, so many are not for pools that are replaced for waiting leaders, who come first."""
    over: bool = False
    """One more deletion was due: an alarm. The next sweep goes on with the rest."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> bool:
        """Count one deletion that is about to be submitted; return False if it is one too many.

        One that only the reserve could pay for is no alarm yet.
        """
        with self._lock:
            if self.left > self.reserved:
                self.left -= 1
                return True
            self.over = self.reserved == 0
            return False

    def free(self) -> None:
        """Let the reserved deletions be for every pool from here on."""
        with self._lock:
            self.reserved = 0

    def give_back(self) -> None:
        """Count one deletion less, because GKE refused it."""
        with self._lock:
            self.left += 1
