"""Remembers how many operations on node pools GKE runs for a cluster at one time.

GKE does not publish that number, and answers 429 to a create above it. From then on this process
sends as many creates as there are free places, and each operation that ends frees one:
https://cloud.google.com/kubernetes-engine/docs/troubleshooting/concurrent-operations. What is
remembered is a hint only: without it GKE is asked, and refuses.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared.core.errors import ProvisionerError, Throttled, Unavailable
from shared.core.identity.pools import PoolStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from shared.core.identity.pools import PoolSnapshot

REMEMBERED_SECONDS = 600.0
"""After this GKE is asked again, because it may allow more by then."""
_UNDER_WAY = (PoolStatus.PROVISIONING, PoolStatus.RECONCILING, PoolStatus.STOPPING)


@dataclass(slots=True)
class Places:
    """The places of each cluster's operations, as one process knows them; threads may share it."""

    _most: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By cluster: how many operations were under way when GKE refused one more, and when that was
    in unix seconds."""
    _sent: dict[str, dict[str, float]] = field(default_factory=dict)
    """By cluster and pool: when this process sent a create that was not refused, the oldest
    first."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def expect_free(self, cluster: str, pools: Iterable[PoolSnapshot], *, now: float) -> None:
        """Expect that GKE would accept one more create, as far as that is known.

        Args:
            cluster: ``projects/P/locations/L/clusters/C``.
            pools: every pool of the cluster, as they were listed for this create.
            now: unix seconds.

        Raises:
            Throttled: there is no free place.
        """
        with self._lock:
            self._expect_free(cluster, pools, now)

    def send(
        self, create: Callable[[], None], cluster: str, name: str, pools: Iterable[PoolSnapshot], *, now: float
    ) -> None:
        """Send a create if there is a free place, and remember what GKE answers.

        Raises:
            Throttled: there is no free place.
            ProvisionerError: what `create` raises.
        """
        with self._lock:
            self._expect_free(cluster, pools, now)
            sent = self._sent.setdefault(cluster, {})
            while sent and not 0 <= now - next(iter(sent.values())) <= REMEMBERED_SECONDS:
                del sent[next(iter(sent))]
            sent.pop(name, None)
            sent[name] = now
        try:
            create()
        except Unavailable:
            raise  # GKE may create it all the same
        except ProvisionerError as error:
            with self._lock:
                sent.pop(name, None)
                if isinstance(error, Throttled):
                    self._most[cluster] = max(1, self._count(cluster, pools)), now
            raise

    def _expect_free(self, cluster: str, pools: Iterable[PoolSnapshot], now: float) -> None:
        most, refused_at = self._most.get(cluster, (0, 0.0))
        if not most:
            return
        if not 0 <= now - refused_at <= REMEMBERED_SECONDS:
            del self._most[cluster]
        elif self._count(cluster, pools) >= most:
            raise Throttled(
                f"GKE runs {most} operations on node pools of this cluster at one time, as many as it allows; the "
                "create is sent when one of them ends"
            )

    def _count(self, cluster: str, pools: Iterable[PoolSnapshot]) -> int:
        """Return how many operations are under way: those that are listed, and those sent since."""
        listed, sent = {pool.name: pool.status in _UNDER_WAY for pool in pools}, self._sent.get(cluster, {})
        for name in sent.keys() & listed.keys():
            del sent[name]
        return sum(listed.values()) + len(sent)
