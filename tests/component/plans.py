"""What a fake of a port shall do at its next calls."""

from collections import defaultdict, deque
from collections.abc import Callable


class Plans:
    """What happens at a method's next calls: an error before or after its effect, or any action."""

    def __init__(self) -> None:
        self._before: defaultdict[str, deque[Callable[[], None]]] = defaultdict(deque)
        self._after: defaultdict[str, deque[Callable[[], None]]] = defaultdict(deque)

    def fail_next(
        self, method: str, error: BaseException | type[BaseException], *, performed: bool = False, skip: int = 0
    ) -> None:
        """Let the next call fail, or one after `skip` others; `performed` loses only the reply."""

        def fail() -> None:
            raise error

        _plan(self._after[method] if performed else self._before[method], fail, skip)

    def before_next(self, method: str, action: Callable[[], None], *, skip: int = 0) -> None:
        """Change the world just before a call, the next one or one after `skip` others."""
        _plan(self._before[method], action, skip)

    def begin(self, method: str) -> None:
        if self._before[method]:
            self._before[method].popleft()()

    def end(self, method: str) -> None:
        if self._after[method]:
            self._after[method].popleft()()


def _plan(plans: deque[Callable[[], None]], action: Callable[[], None], skip: int) -> None:
    plans.extend([lambda: None] * (skip - len(plans)))
    plans.append(action)
