"""Virtual time: a queue of moments, and tasks that wait in it instead of on a clock.

A task is a greenlet, so that the product's plain code can stop in the middle of a port call while
others go on. Only one runs at a time, and who is next depends on the queue alone.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TypeVar

from greenlet import GreenletExit, getcurrent, greenlet

T = TypeVar("T")


class Task(greenlet):  # type: ignore[misc]  # it has no types
    """One line of work, and whose it is. One that has ended is used again: a new one is slow."""

    owner: object = None
    work: Callable[[], object] | None = None
    call_began = 0.0  # when its latest call was made, which may reach GKE much later


class VirtualTime:
    """The moments of one scenario. `now` is in unix seconds and moves only from one to the next."""

    def __init__(self, start: float) -> None:
        self.now = start
        self._queue: list[tuple[float, int, Callable[[], object] | Task]] = []
        self._count = 0
        self._until = start
        self._main = getcurrent()
        self._tasks: list[Task] = []
        self._free: list[Task] = []  # those that have ended

    def at(self, when: float, action: Callable[[], object] | Task) -> None:
        """Do something at a moment, or let a task go on; moments in the past are now."""
        self._count += 1
        heappush(self._queue, (max(when, self.now), self._count, action))

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        self.at(self.now + seconds, action)

    def spawn(self, work: Callable[[], object], owner: object, call_began: float = 0.0) -> None:
        """Start a task now; it runs until its first pause."""
        if self._free:
            task = self._free.pop()
        else:
            task = Task(self._take_work, self._main)
            self._tasks.append(task)
        task.work, task.owner, task.call_began = work, owner, call_began
        self._count += 1
        heappush(self._queue, (self.now, self._count, task))

    def _take_work(self) -> None:
        """Do one work after the other as the running task."""
        task = getcurrent()
        while True:
            task.work()
            task.work = task.owner = None
            self._free.append(task)
            self._let_go_on()

    @staticmethod
    def get_owner() -> object:
        """Return whose the running task is; None outside of tasks."""
        return getattr(getcurrent(), "owner", None)

    @staticmethod
    def get_call_began() -> float:
        """Return when the latest call of the running task was made; tasks run side by side."""
        return getattr(getcurrent(), "call_began", 0.0)

    def pause(self, seconds: float) -> None:
        """Let others go on for so long. Only tasks may call it."""
        self._count += 1
        when, queue = self.now + seconds, self._queue
        if when <= self._until and not (queue and queue[0][0] <= when):
            self.now = when  # nothing else is due before
            return
        heappush(queue, (when, self._count, getcurrent()))
        self._let_go_on()

    def _let_go_on(self) -> None:
        """Leave the running task for the next one; what is no task is done by nobody's."""
        queue = self._queue
        following = queue[0][2] if queue and queue[0][0] <= self._until else None
        if isinstance(following, Task):
            self.now = heappop(queue)[0]
            following.switch()
        else:
            self._main.switch()

    def fork(self, work: Callable[[], T]) -> Callable[[], T]:
        """Begin a work beside the calling task; the answer waits for its result."""
        results: list[T] = []
        errors: list[BaseException] = []
        waiting: list[Task] = []

        def run() -> None:
            try:
                results.append(work())
            except GreenletExit:
                raise
            except BaseException as error:  # noqa: BLE001 -- whoever asks for the result gets it
                errors.append(error)
            for each in waiting:
                self.at(self.now, each)

        def wait() -> T:
            if not (results or errors):
                waiting.append(getcurrent())
                self._let_go_on()
            if errors:
                raise errors[0]
            return results[0]

        self.spawn(run, self.get_owner())
        return wait

    def run_until(self, until: float) -> None:
        """Let everything happen that is due by a moment, then be there."""
        queue, self._until = self._queue, until
        while queue and queue[0][0] <= until:
            self.now, _, action = heappop(queue)
            if isinstance(action, Task):
                action.switch()
            else:
                action()
        self.now = max(self.now, until)

    @property
    def next_moment(self) -> float | None:
        """Return when something happens next; None when nothing will."""
        return self._queue[0][0] if self._queue else None

    def close(self) -> None:
        """End the tasks that still wait; nothing of them runs on, and none keeps the scenario."""
        self._queue.clear()
        for task in self._tasks:
            if task and not task.dead:
                task.throw()
            task.work = task.owner = None
        self._tasks.clear()
        self._free.clear()
