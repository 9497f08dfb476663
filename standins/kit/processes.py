"""Child processes, and stand-ins that run as one: started, waited for, ended for certain.

On Linux a child is told by the kernel to end when its parent dies, however the parent died, and
whatever descends from a child that had to be killed is killed with it. Elsewhere the process group
is ended by its parent's exit.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

_LAUNCHER = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
parent, *command = sys.argv[1:]
if os.getppid() == int(parent):  # else it died before the kernel was asked
    os.execvp(command[0], command)
"""
_LOG_TAIL_BYTES = 16_384
_DEATH_SECONDS_MAX = 2.0
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How one process is started."""

    name: str
    arguments: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    """Additions to a clean copy of this process's environment."""
    restartable: bool = False
    """Whether it keeps nothing in memory that the others rely on."""


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

    def ask_to_end(self) -> None:
        """Send SIGTERM, unless it has ended."""
        if self.exit_code is None:
            self._process.terminate()

    def kill(self) -> None:
        """End the process, its group and all that it has started at once, and wait for it."""
        descendants = _list_descendants(self.pid) if self.exit_code is None else []
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        # Those in groups of their own, which its death has only asked to end: they may take seconds
        # for it.
        for pid in descendants:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _wait_for_end(descendants)

    def end(self, grace_seconds: float) -> bool:
        """End it politely, then firmly; return whether politeness was enough.

        The group is killed in either case, so that no worker of it stays behind.
        """
        self.ask_to_end()
        try:
            self._process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        self.kill()
        return True


def _list_descendants(pid: int) -> list[int]:
    """Return the ids of all processes below one; none where there is no ``/proc``."""
    found = []
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # The thread has ended meanwhile.
            for child in listing.read_text(encoding="ascii").split():
                found += [int(child), *_list_descendants(int(child))]
    return found


def _wait_for_end(pids: list[int]) -> None:
    """Return once killed processes are gone, or wait only for their parent to reap them."""
    deadline = time.monotonic() + _DEATH_SECONDS_MAX
    while any(_has_memory(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _has_memory(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[0] != "0"
    except OSError:
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
    record = _parse_record(lines[-1]) if lines else {}
    if record.get("severity") == "CRITICAL" and record.get("message"):
        return str(record["message"]).splitlines()
    return lines


def describe_last_words(log: Path, count: int) -> str:
    """Return the last words for a reader, indented."""
    shown = "\n".join(f"    {line}" for line in last_words(log, count) or ["(it wrote nothing)"])
    return f"its last lines were:\n{shown}"


def _parse_record(line: str) -> dict[str, object]:
    if not line.startswith("{"):
        return {}
    try:
        record = json.loads(line)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


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


T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 240.0
"""For a wait that ends as soon as the thing is there: against a hang, and no measure of speed."""
END_SECONDS_MAX = 30.0
_POLL_SECONDS = 0.02
_LAST_LINES = 20


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
    ports_file = folder / "ports.json"
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
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_ready():
            if child.exit_code is not None or time.monotonic() > deadline:
                raise NotStarted(f"{command.name} did not start; {describe_last_words(child.log, _LAST_LINES)}")
            time.sleep(_POLL_SECONDS)
        yield child
    finally:
        child.end(END_SECONDS_MAX)


def wait_until(look: Callable[[], T], *, seconds: float = PATIENCE_SECONDS, what: str = "the condition") -> T:
    """Look until something is found, and return it; fail when the time has passed."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come about within {seconds} s; the last look found {found!r}")
        time.sleep(_POLL_SECONDS)
    return found
