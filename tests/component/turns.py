"""Runs jobs as if at the same time: each port call waits for its turn, which a seed chooses."""

import random
import threading
from collections.abc import Callable, Sequence

from shared.core.identity.pools import PoolSnapshot
from tests.component.fakes import FakeCluster, FakeNodePools

WAIT_SECONDS_MAX = 60.0


class Crash(BaseException):
    """The process ends here: nothing that follows runs, and nothing catches it."""


class Turns:
    """One schedule. Only one job runs at any moment, until its next call of a port or its end."""

    def __init__(self, seed: int, *, crashes: int = 0) -> None:
        self._random = random.Random(seed)
        self._crashes_left = crashes
        self._changed = threading.Condition()
        self._waiting: dict[int, threading.Semaphore] = {}
        self._running = 0
        self.crashed: list[int] = []
        self.on_turn: Callable[[], None] = lambda: None

    def run(self, jobs: Sequence[Callable[[], object]]) -> None:
        """Run all jobs to their end, or to their crash."""
        threads = [
            threading.Thread(target=self._run_one, args=(number, job), daemon=True)
            for number, job in enumerate(jobs)
        ]
        self._running = len(threads)
        for thread in threads:
            thread.start()
        while self._choose_next():
            pass
        for thread in threads:
            thread.join(WAIT_SECONDS_MAX)

    def pause(self) -> None:
        """Wait for the next turn; called by a port before it does anything."""
        number = getattr(_HERE, "number", None)
        if number is None:
            return
        mine = threading.Semaphore(0)
        with self._changed:
            self._waiting[number] = mine
            self._running -= 1
            self._changed.notify_all()
        assert mine.acquire(timeout=WAIT_SECONDS_MAX)
        self.on_turn()
        if self._crashes_left and self._random.random() < 0.1:
            self._crashes_left -= 1
            self.crashed.append(number)
            raise Crash

    def _run_one(self, number: int, job: Callable[[], object]) -> None:
        _HERE.number = number
        try:
            self.pause()
            job()
        except Crash:
            pass
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _choose_next(self) -> bool:
        """Let one waiting job go on; return False when all have ended."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._running == 0, WAIT_SECONDS_MAX)
            if not self._waiting:
                return False
            number = self._random.choice(sorted(self._waiting))
            mine = self._waiting.pop(number)
            self._running += 1
        mine.release()
        return True


_HERE = threading.local()


class TakingTurnsCluster(FakeCluster):
    """A fake cluster, each call of which waits for its turn."""

    turns: Turns | None = None

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        """The methods that were called."""

    def begin(self, method: str) -> None:
        if self.turns:
            self.turns.pause()
        self.asked.append(method)
        super().begin(method)


class TakingTurnsPools(FakeNodePools):
    """Fake node pools, each call of which waits for its turn."""

    turns: Turns | None = None
    shown_after = 0.0
    """Unix seconds until which the list is empty: GKE does not promise that it is never late."""
    now = 0.0

    def list(self, cluster: str) -> list[PoolSnapshot]:
        found = super().list(cluster)
        return found if self.now >= self.shown_after else []

    def begin(self, method: str) -> None:
        if self.turns:
            self.turns.pause()
        super().begin(method)
