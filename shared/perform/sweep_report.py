"""What one sweep did, and the errors of single objects, which do not stop the sweep."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared.core.errors import Broken, KindAbsent, OutOfTime, ProvisionerError, Throttled

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.perform.cluster_figures import ClusterFigures
    from shared.perform.outcome import Outcome

_LENGTH_MAX = 600


@dataclass(slots=True)
class SweepReport:
    """What one sweep did in all clusters."""

    outcomes: list[Outcome] = field(default_factory=list)
    errors: list[tuple[str, ProvisionerError]] = field(default_factory=list)
    """Each error, with the name of its object."""
    over_cap: bool = False
    """More pools were due than the sweep may delete without a word of their owners: an alarm."""
    nodes_removed: int = 0
    """The number of nodes that were removed from elastic pools."""

    left: int = 0
    """The number of objects that wait for the next sweep: the time was over, or a server answered
    429."""
    figures: dict[str, ClusterFigures] = field(default_factory=dict)
    """By cluster; one whose pools or waiting leaders could not be listed has none."""
    _seen: set[object] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add_error(self, about: str, error: Exception, *, claim: dict[str, str] | None = None) -> None:
        """Add the error of one object. An error that several objects share is added once."""
        found = name_error(error)
        found.claim = found.claim or claim
        self.left += isinstance(found, OutOfTime | Throttled)
        shared = isinstance(found, KindAbsent | OutOfTime | Throttled)
        key = (type(found), str(found)) if shared else id(error)
        if key not in self._seen:
            self._seen.add(key)
            self.errors.append((about, found))

    def take_removals(self, wanted: int, most: int) -> int:
        """Return how many of these nodes may be removed, and count them; `most` in one sweep."""
        with self._lock:
            taken = max(0, min(wanted, most - self.nodes_removed))
            self.nodes_removed += taken
            return taken

    def merge(self, others: Iterable[SweepReport]) -> None:
        """Add what was done in other clusters."""
        for other in others:
            self.outcomes += list(other.outcomes)
            self.errors += list(other.errors)
            self.over_cap = self.over_cap or other.over_cap
            self.nodes_removed += other.nodes_removed
            self.left += other.left
            self.figures |= other.figures


def name_error(error: Exception) -> ProvisionerError:
    """Return an error as it is reported: an unexpected one is `Broken`, caused by it."""
    if isinstance(error, ProvisionerError):
        return error
    broken = Broken(f"{type(error).__name__}: {error}"[:_LENGTH_MAX])
    broken.__cause__ = error
    return broken
