"""What a fake of a port shall do at its next calls."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.core.errors import ProvisionerError


class Plans:
    """What happens at a method's next calls: an error before or after its effect, or any action."""

    def __init__(self) -> None:
        self._before: defaultdict[str, deque[Callable[[], None]]] = defaultdict(deque)
        self._after: defaultdict[str, deque[Callable[[], None]]] = defaultdict(deque)

    def fail_next(self, method: str, error: ProvisionerError, *, performed: bool = False) -> None:
        """Let the next call fail; `performed` loses only the reply."""

        def fail() -> None:
            raise error

        (self._after if performed else self._before)[method].append(fail)

    def before_next(self, method: str, action: Callable[[], None], *, skip: int = 0) -> None:
        """Change the world just before a call, the next one or one after `skip` others."""
        plans = self._before[method]
        plans.extend([lambda: None] * (skip - len(plans)))
        plans.append(action)

    def begin(self, method: str) -> None:
        if self._before[method]:
            self._before[method].popleft()()

    def end(self, method: str) -> None:
        if self._after[method]:
            self._after[method].popleft()()
