"""The operations on the node pools of a scenario: so many run at one time, and the others wait."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared.core.errors import Throttled

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.sim_answers import Answers


@dataclass(slots=True)
class Operations:
    """The open operations of each cluster, one for each pool."""

    answers: Answers
    _open: dict[str, dict[str, Callable[[], object] | None]] = field(default_factory=dict)
    """By cluster and pool, the oldest first: what begins its operation; None once it runs."""

    def check(self, cluster: str) -> None:
        """Refuse one more operation where there are too many.

        Raises:
            Throttled: there are.
        """
        most = self.answers.open_max
        if len(self._open.get(cluster, ())) >= most:
            raise Throttled(f"the cluster hits the concurrent operations quota {most}", retry_after_seconds=30)

    def begin(self, cluster: str, pool: str, start: Callable[[], object]) -> None:
        """Let an operation run at once, or when others have ended; one before it has ended."""
        self.end(cluster, pool)
        self._open.setdefault(cluster, {})[pool] = start
        self._start_next(cluster)

    def end(self, cluster: str, pool: str) -> None:
        """End the operation of a pool, if it has one."""
        if self._open.get(cluster, {}).pop(pool, self) is not self:
            self._start_next(cluster)

    def _start_next(self, cluster: str) -> None:
        found = self._open[cluster]
        for pool, start in list(found.items()):
            if start is not None and sum(each is None for each in found.values()) < self.answers.running_max:
                found[pool] = None
                start()
