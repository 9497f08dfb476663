"""Leaves GKE alone for a while after it has answered 429, for work of many independent parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shared.core.errors import Throttled
from shared.perform.side_by_side import PAUSE_SECONDS

if TYPE_CHECKING:
    from shared.core.ports import Clock, NodePools


class RestingPools:
    """The node pools of one cluster. A method that got 429 rests for as long as GKE advised.

    Such a call gets a `Throttled` of the same words, so that it can be tried again by `run_paced`
    or by the next sweep. Calls that run at that moment, and other methods, are not touched.
    """

    def __init__(self, pools: NodePools, clock: Clock) -> None:
        """Begin without a rest."""
        self._pools, self._clock = pools, clock
        self._rests: dict[str, tuple[float, str]] = {}
        """By method: the end of its rest, in unix seconds, and GKE's words."""

    def __getattr__(self, name: str) -> Any:
        """Return a method of the port."""
        method = getattr(self._pools, name)

        def call(*args: Any, **named: Any) -> Any:
            (until, said), now = self._rests.get(name, (0.0, "")), self._clock.now()
            if now < until:
                raise Throttled(said, retry_after_seconds=until - now)
            try:
                return method(*args, **named)
            except Throttled as error:
                seconds = error.retry_after_seconds or PAUSE_SECONDS
                self._rests[name] = (self._clock.now() + seconds, str(error))
                raise

        return call
