"""Child processes, each with a log file and a process group: started, watched, ended for certain.

On Linux a child is told by the kernel to end when its parent dies, however the parent died, and
whatever descends from a child that had to be killed is killed with it. Elsewhere the process group
is ended by its parent's exit. Start children from a thread that lives as long as they do: Linux
ends a child when the thread that made it ends.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Self, TypeVar

import psutil

from standins.kit.lifecycle import hold_interrupts

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 240.0
"""For a wait that ends as soon as the thing is there: against a hang, and no measure of speed."""
END_SECONDS_MAX = 30.0
_POLL_SECONDS = 0.02
_LAST_LINES = 12
_LOG_TAIL_BYTES = 16_384
_DEATH_SECONDS_MAX = 2.0
_LAUNCHER = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
parent, *command = sys.argv[1:]
if os.getppid() == int(parent):  # else it died before the kernel was asked
    os.execvp(command[0], command)
"""


class NotReady(Exception):
    """Something did not come about in time; the text says what was waited for."""


class ProcessDied(Exception):
    """A process ended that should run; the text names it and shows its last lines."""


def wait_until(
    look: Callable[[], T],
    *,
    seconds: float = PATIENCE_SECONDS,
    what: str = "the condition",
    check: Callable[[], None] = lambda: None,
) -> T:
    """Look until something is there, and return it; `check` may raise a better error meanwhile.

    Raises NotReady: the time has passed.
    """
    deadline = time.monotonic() + seconds
    while not (answer := look()):
        check()
        if time.monotonic() > deadline:
            raise NotReady(f"{what} was not ready within {seconds:g} s; the last look saw {answer!r}")
        time.sleep(_POLL_SECONDS)
    return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How one process is started."""

    name: str
    arguments: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    """Additions to a clean copy of this process's environment."""
    restartable: bool = False  # whether it keeps nothing in memory that the others rely on


class Child:
    """A running command.

    Its output is appended to the log file, so that a restart keeps the history.
    """

    def __init__(self, command: Command, log: Path) -> None:
        self.command = command
        self.log = log
        self.started_at = time.monotonic()
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                (*_launcher(), *command.arguments),
                cwd=command.folder,
                env=_clean_environment() | dict(command.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its process group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its process group, if there is one left."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def ask_to_end(self) -> None:
        """Send SIGTERM, unless it has ended."""
        if self.exit_code is None:
            self._process.terminate()

    def kill(self) -> None:
        """End the process, its group and all that it has started at once, and wait for it."""
        descendants: list[psutil.Process] = []
        if self.exit_code is None:
            with contextlib.suppress(psutil.Error):
                descendants = psutil.Process(self.pid).children(recursive=True)
        self.signal(signal.SIGKILL)
        self._process.wait()
        # Those in groups of their own, which its death has only asked to end: they may take seconds
        # for it.
        for each in descendants:
            with contextlib.suppress(psutil.Error):
                each.kill()
        deadline = time.monotonic() + _DEATH_SECONDS_MAX
        while any(_runs(each) for each in descendants) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def end(self, grace_seconds: float) -> None:
        """End it politely, then firmly; no worker of its group stays behind in either case."""
        self.ask_to_end()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(grace_seconds)
        self.kill()

    def describe_end(self, what: str = "") -> str:
        """Return a text for people: its name, what happened to it, and its last lines."""
        what = what or f"ended with code {self.exit_code}"
        return f"the process {self.command.name!r} {what}; {describe_last_words(self.log, _LAST_LINES)}"


def _runs(process: psutil.Process) -> bool:
    """Return whether a process runs; a zombie only waits for its parent."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def last_lines(log: Path, count: int) -> list[str]:
    """Return the last lines of a log file, oldest first; empty when there is none."""
    if not log.exists():
        return []
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - _LOG_TAIL_BYTES))
        return stream.read().decode("utf-8", "replace").splitlines()[-count:]


def last_words(log: Path, count: int) -> list[str]:
    """Return what a process said about its own end.

    Its last lines, or if the last is a CRITICAL record, that.
    """
    lines = last_lines(log, count)
    with contextlib.suppress(ValueError, IndexError):
        record = json.loads(lines[-1])
        if isinstance(record, dict) and record.get("severity") == "CRITICAL":
            return str(record["message"]).splitlines()
    return lines


def describe_last_words(log: Path, count: int) -> str:
    """Return the last words for a reader, indented."""
    shown = "\n".join(f"    {line}" for line in last_words(log, count) or ["(it wrote nothing)"])
    return f"its last lines were:\n{shown}"


def _clean_environment() -> dict[str, str]:
    """Return this environment without the settings of a real cloud and without Python's path."""
    dropped = ("TPU_PROVISIONER_", "GOOGLE_", "CLOUDSDK_", "PUBSUB_", "K_", "FUNCTION_", "PYTHONPATH", "PORT")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    without_proxy = {key: value for key, value in kept.items() if not key.lower().endswith("_proxy")}
    return without_proxy | {"PYTHONUNBUFFERED": "1", "NO_PROXY": "127.0.0.1,localhost"}


def _launcher() -> tuple[str, ...]:
    """Return what starts a child's program so that the kernel ends it with its parent.

    Nothing outside Linux.

    A program of its own, and not `preexec_fn`: that would fork this process with all its threads,
    and the child of a process that has used gRPC may abort between fork and exec.
    """
    if not sys.platform.startswith("linux"):
        return ()
    return (sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()))


@dataclass(frozen=True, slots=True)
class ProcessState:
    """What is known of one process, for people who ask."""

    name: str
    pid: int
    exit_code: int | None
    restarts: int


_LOOK_SECONDS = 0.1
_PAUSE_SECONDS, _PAUSE_SECONDS_MAX = 0.1, 5.0  # before a restart; doubled by each that follows soon
_STEADY_SECONDS = 10.0  # a process that ran this long begins with the shortest pause again


@dataclass(slots=True)
class _Entry:
    """One process under its name."""

    child: Child
    restarts: int = 0
    pause_seconds: float = _PAUSE_SECONDS
    due: float | None = None  # when it is started again
    is_down: bool = False  # whether its owner has killed it


class Processes:
    """The processes of one owner by name, ended together; a context manager.

    Args:
        logs: The folder with one log file per process.
        restarts: Whether a restartable process that ends is started again, as Kubernetes and Cloud
            Run do.
        on_change: Called, from any thread, after the set of running processes changed.
    """

    def __init__(
        self, logs: Path, *, restarts: bool = False, on_change: Callable[[], None] = lambda: None
    ) -> None:
        self._logs, self._restarts, self._on_change = logs, restarts, on_change
        self._entries: dict[str, _Entry] = {}
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="processes", daemon=True)

    def __enter__(self) -> Self:
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end_all()

    def start(self, command: Command) -> None:
        """Start one process under its name."""
        with self._lock, hold_interrupts():  # no signal comes between a process and its entry here
            child = Child(command, self._logs / f"{command.name}.log")
            entry = self._entries.setdefault(command.name, _Entry(child))
            entry.child, entry.due, entry.is_down = child, None, False
        self._on_change()

    def find(self, name: str) -> Child:
        """Return the process of a name. Raises KeyError: there is none; the text names all."""
        with self._lock:
            if name not in self._entries:
                raise KeyError(f"no process {name!r}; there are: {', '.join(self._entries)}")
            return self._entries[name].child

    def kill(self, name: str) -> None:
        """Kill one process as a crash would; it is no fault that it has ended."""
        child = self.find(name)
        with self._lock:
            self._entries[name].is_down = True
        child.kill()

    def states(self) -> list[ProcessState]:
        """Return the state of every process in the order of its start."""
        with self._lock:
            return [
                ProcessState(name, entry.child.pid, entry.child.exit_code, entry.restarts)
                for name, entry in self._entries.items()
            ]

    def check(self, *, all_run: bool = False) -> None:
        """Return quietly when every process runs, was killed by its owner or will be restarted.

        With `all_run` only the first counts. Raises ProcessDied: one ended for good.
        """
        with self._lock:
            for entry in self._entries.values():
                excused = not all_run and (entry.is_down or self._will_restart(entry))
                if entry.child.exit_code is not None and not excused:
                    raise ProcessDied(entry.child.describe_end())

    def wait_for(self, what: str, ready: Callable[[], T], seconds: float = PATIENCE_SECONDS) -> T:
        """Return once a part that starts is ready.

        Raises NotReady: the time is over. ProcessDied: a process has ended meanwhile.
        """
        return wait_until(ready, what=what, seconds=seconds, check=lambda: self.check(all_run=True))

    def end_all(self, seconds: float = 3.0) -> None:
        """End every process, the youngest first, within so many seconds; again it does nothing."""
        self._stopping.set()
        with self._lock:
            children = [entry.child for entry in reversed(self._entries.values())]
            for child in children:
                child.signal(signal.SIGCONT)
                child.ask_to_end()
            deadline = time.monotonic() + seconds
            for child in children:
                child.end(max(0.05, deadline - time.monotonic()))
            self._entries.clear()
        if self._watcher.is_alive():
            self._watcher.join()

    def _will_restart(self, entry: _Entry) -> bool:
        return self._restarts and entry.child.command.restartable

    def _watch(self) -> None:
        while not self._stopping.wait(_LOOK_SECONDS):
            with self._lock:
                for entry in list(self._entries.values()):
                    if entry.child.exit_code is not None and not self._stopping.is_set():
                        self._see_end(entry)

    def _see_end(self, entry: _Entry) -> None:
        """Note the end of a process once, and start it again when its pause is over."""
        now = time.monotonic()
        if entry.due is None:
            steady = now - entry.child.started_at > _STEADY_SECONDS
            pause = _PAUSE_SECONDS if steady else entry.pause_seconds
            entry.due, entry.pause_seconds = now + pause, min(pause * 2, _PAUSE_SECONDS_MAX)
            self._on_change()
        elif now >= entry.due and self._will_restart(entry):
            entry.restarts += 1
            entry.child.kill()
            self.start(entry.child.command)


class NotStarted(Exception):
    """A program ended, or did not answer in time; the text shows its last lines."""


@dataclass(frozen=True, slots=True)
class StandIn:
    """A stand-in that listens."""

    addresses: dict[str, str]
    ports_file: Path
    log: Path
    child: Child


@contextmanager
def running_stand_in(
    folder: Path, module: str, *arguments: str, environment: Mapping[str, str] = MappingProxyType({})
) -> Iterator[StandIn]:
    """Run ``python -m MODULE serve …`` while the block runs.

    Its ports file and its log are in `folder`; `environment` is added to this process's own.

    Raises NotStarted: it did not write its ports file.
    """
    ports_file = Path(tempfile.mkdtemp(dir=folder), "ports.json")
    command = (sys.executable, "-m", module, "serve", *arguments, "--ports-file", str(ports_file))
    how = Command(name=module, arguments=command, folder=ROOT, environment=environment)
    with running(how, folder, ports_file.exists) as child:
        yield StandIn(json.loads(ports_file.read_text(encoding="utf-8")), ports_file, child.log, child)


@contextmanager
def running(command: Command, folder: Path, is_ready: Callable[[], bool]) -> Iterator[Child]:
    """Run a program while the block runs, which begins once the program is ready.

    Raises NotStarted: it was not ready in time, or has ended.
    """
    child = Child(command, folder / f"{command.name}.log")

    def has_news() -> bool:
        return child.exit_code is not None or is_ready()

    try:
        with contextlib.suppress(NotReady):
            wait_until(has_news, what=command.name)
        if child.exit_code is not None or not is_ready():
            raise NotStarted(child.describe_end("did not start"))
        yield child
    finally:
        child.end(END_SECONDS_MAX)
