"""Whose turn it is when GKE has a free operation slot, or a limit has room again.

It is remembered in the process only; without it the next tick comes to each of them.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shared.engine.look import Key


@dataclass(frozen=True, slots=True)
class _Waiting:
    since: float
    """Unix seconds."""
    begun: bool
    """It is a gang that has a part of its pools."""


@dataclass(slots=True)
class Turns:
    """The workloads that wait for the end of an operation."""

    _waiting: dict[Key, _Waiting] = field(default_factory=dict)
    _served: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By cluster and namespace, how often it was its turn."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wait(self, key: Key, since: float, *, begun: bool) -> None:
        """Let a workload have a turn; its place is that of its longest wait."""
        with self._lock:
            self._waiting[key] = _Waiting(since, begun)

    def leave(self, key: Key) -> None:
        """Forget a workload that waits no more."""
        with self._lock:
            self._waiting.pop(key, None)

    def take_next(self, cluster: str) -> Key | None:
        """Return whose turn it is: a gang that began, then namespaces in turn, the longest wait."""
        with self._lock:
            keys = [key for key in self._waiting if key.cluster == cluster]
            if not keys:
                return None
            key = min(keys, key=self._rank)
            del self._waiting[key]
            self._served[cluster, key.namespace] += 1
            return key

    def _rank(self, key: Key) -> tuple[bool, int, float]:
        waiting = self._waiting[key]
        return not waiting.begun, self._served[key.cluster, key.namespace], waiting.since
