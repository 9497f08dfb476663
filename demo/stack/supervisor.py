"""The supervisor: starts commands, notices deaths, restarts what may be restarted, ends everything.

It knows processes only; what they are for is in `demo.stack.commands`.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from demo.stack.layout import Layout
from demo.stack.ports import NotReady, read_ports, wait_until
from standins.kit.lifecycle import hold_interrupts
from standins.kit.processes import Child, Command, describe_last_words

_LOOK_SECONDS = 0.1
_BACKOFF_FIRST_SECONDS = 0.1
_BACKOFF_MAX_SECONDS = 5.0
_STEADY_SECONDS = 10.0
"""A process that ran this long starts its back-off anew."""
_END_SECONDS = 3.0
_LAST_LINES = 12
_START_SECONDS_MAX = 180.0
"""Seconds on a machine that does nothing else; minutes where several stacks start beside a test
run."""


class ProcessDied(Exception):
    """A process ended that should run; the text names it and shows its last log lines."""


@dataclass(frozen=True, slots=True)
class ProcessState:
    """What is known of one process, for `status` and for the verification."""

    name: str
    pid: int
    exit_code: int | None
    restarts: int


class Supervisor:
    """Owns every process of one stack.

    Args:
        layout: Where logs are written.
        restarts: Whether a restartable process that ends is started again, as Kubernetes and Cloud
            Run do.
        on_change: Called, from any thread, after the set of running processes changed.
    """

    def __init__(
        self, layout: Layout, *, restarts: bool = False, on_change: Callable[[], None] | None = None
    ) -> None:
        self._layout = layout
        self._restarts_wanted = restarts
        self._on_change = on_change or (lambda: None)
        self._children: dict[str, Child] = {}
        self._restarts: dict[str, int] = {}
        self._backoff_seconds: dict[str, float] = {}
        self._due: dict[str, float] = {}
        self._seen_dead: set[int] = set()
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="supervisor", daemon=True)

    def __enter__(self) -> Self:
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end_all()

    def start(self, command: Command) -> None:
        """Start one process under its name."""
        with self._lock, hold_interrupts():  # no signal comes between a process and its entry here
            self._children[command.name] = Child(command, self._layout.log(command.name))
            self._due.pop(command.name, None)
        self._on_change()

    def kill(self, name: str) -> None:
        """Kill one process as a crash would; only `restart` or automatic restarts bring it back."""
        self._child(name).kill()

    def restart(self, name: str) -> None:
        """End one process politely and start it again."""
        with self._lock:
            child = self._child(name)
            child.end(_END_SECONDS)
            self._restarts[name] = self._restarts.get(name, 0) + 1
            self.start(child.command)

    def states(self) -> list[ProcessState]:
        """Return the state of every process in the order of its start."""
        with self._lock:
            return [
                ProcessState(name, child.pid, child.exit_code, self._restarts.get(name, 0))
                for name, child in self._children.items()
            ]

    def check(self) -> None:
        """Return quietly when every process runs or will be restarted.

        Raises ProcessDied: one ended for good.
        """
        with self._lock:
            dead = [child for child in self._children.values() if child.exit_code is not None]
            for child in dead:
                if not self._will_restart(child):
                    raise ProcessDied(_obituary(child))

    def check_all_run(self) -> None:
        """Return quietly when every process runs at this moment, restartable or not.

        Raises ProcessDied: one ended.
        """
        with self._lock:
            for child in self._children.values():
                if child.exit_code is not None:
                    raise ProcessDied(_obituary(child))

    def wait_for(self, what: str, ready: Callable[[], bool], seconds: float = _START_SECONDS_MAX) -> None:
        """Return once a part that starts is ready. No process may end meanwhile.

        Raises:
            NotReady: the time is over.
            ProcessDied: a process ended.
        """
        wait_until(what, ready, seconds=seconds, check=self.check_all_run)

    def wait_for_ports(self, name: str, seconds: float = _START_SECONDS_MAX) -> dict[str, str]:
        """Return the ports file of a process that starts; raises as `wait_for`."""
        path = self._layout.ports_file(name)
        try:
            self.wait_for(f"the process {name!r}", lambda: bool(read_ports(path)), seconds)
        except NotReady as error:
            raise NotReady(f"{error}; {describe_last_words(self._layout.log(name), _LAST_LINES)}") from error
        return read_ports(path)

    def end_all(self) -> list[str]:
        """End every process, the youngest first; return the names of those that were killed."""
        self._stopping.set()
        with self._lock:
            children = list(reversed(self._children.values()))
            for child in children:
                child.ask_to_end()
            deadline = time.monotonic() + _END_SECONDS
            killed = [
                child.command.name for child in children if not child.end(max(0.05, deadline - time.monotonic()))
            ]
            self._children.clear()
        if self._watcher.is_alive():
            self._watcher.join()
        return killed

    def _child(self, name: str) -> Child:
        with self._lock:
            if name not in self._children:
                raise KeyError(f"no process {name!r}; there are: {', '.join(self._children)}")
            return self._children[name]

    def _will_restart(self, child: Child) -> bool:
        return self._restarts_wanted and child.command.restartable

    def _watch(self) -> None:
        while not self._stopping.wait(_LOOK_SECONDS):
            with self._lock:
                for name, child in list(self._children.items()):
                    self._look_at(name, child)

    def _look_at(self, name: str, child: Child) -> None:
        if child.exit_code is None:
            return
        if child.pid not in self._seen_dead:
            self._seen_dead.add(child.pid)
            self._on_change()
        if not self._will_restart(child) or self._stopping.is_set():
            return
        now = time.monotonic()
        if name not in self._due:
            self._due[name] = now + self._next_backoff(name, child)
        elif now >= self._due[name]:
            self._restarts[name] = self._restarts.get(name, 0) + 1
            child.kill()
            self.start(child.command)

    def _next_backoff(self, name: str, child: Child) -> float:
        steady = time.monotonic() - child.started_at > _STEADY_SECONDS
        pause = _BACKOFF_FIRST_SECONDS if steady else self._backoff_seconds.get(name, _BACKOFF_FIRST_SECONDS)
        self._backoff_seconds[name] = min(pause * 2, _BACKOFF_MAX_SECONDS)
        return pause


def _obituary(child: Child) -> str:
    words = describe_last_words(child.log, _LAST_LINES)
    return f"the process {child.command.name!r} ended with code {child.exit_code}; {words}"
