"""A stack that runs on after its command: `make up`, `make down`, and what `status` reads.

The supervisor runs as a process of its own; its state file says what it runs. Whether it still runs
is told by a lock that it holds for as long as it lives, on a file with its process id: that alone
may be a stranger's by now.
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import msgspec

from demo.settings import PROJECT_ROOT, SUPERVISOR, Layout, StackSettings, State
from standins.kit.processes import last_lines, wait_until

_UP_SECONDS_MAX = 150.0
_DOWN_SECONDS_MAX = 10.0
_LOCK_SECONDS_MAX = 1.0
_POLL_SECONDS = 0.05


class NothingRuns(Exception):
    """There is no running stack in that folder."""


class AlreadyRuns(Exception):
    """A stack runs in that folder already, or is being started or ended."""


class StartFailed(Exception):
    """The supervisor ended while it was starting; the text shows its last lines."""


def read_state(layout: Layout) -> State:
    """Return what the running stack last wrote.

    Raises NothingRuns: there is none, its supervisor is gone, or it is not ready yet.
    """
    if not _lock_is_held(layout):
        raise NothingRuns(_describe_absence(layout))
    try:
        return msgspec.json.decode(layout.state.read_bytes(), type=State)
    except FileNotFoundError as error:
        raise NothingRuns(f"the stack in {layout.home} is being started or ended; wait a moment") from error


def start(home: Path, settings: StackSettings) -> State:
    """Start a stack in the background and return once all of it is ready.

    Whatever keeps it from becoming ready, Ctrl-C too, ends all of it.

    Raises AlreadyRuns: one runs there. StartFailed: it ended instead.
    """
    layout = Layout(home.resolve())
    if _lock_is_held(layout):
        raise AlreadyRuns(_describe_presence(layout))
    try:
        layout.logs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StartFailed(f"{home}: cannot be made: {error.strerror}; valid: a folder of your own") from error
    layout.state.unlink(missing_ok=True)
    log = layout.log(SUPERVISOR)
    options = (f"--speed={settings.speed:g}", f"--faults={settings.faults}", f"--cluster={settings.cluster}")
    with log.open("wb") as output:
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "demo", "serve", f"--home={layout.home}", *options],
            cwd=PROJECT_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def check() -> None:
        if supervisor.poll() is not None:
            raise StartFailed("the stack did not start:\n" + "\n".join(last_lines(log, 30)))

    try:
        wait_until(layout.state.exists, what="the stack", seconds=_UP_SECONDS_MAX, check=check)
        return read_state(layout)
    except BaseException:
        supervisor.terminate()  # it bounds the end of all that it has started
        supervisor.wait()
        raise


def stop(home: Path) -> None:
    """End the stack in a folder and return once it is gone. Raises NothingRuns: there is none."""
    layout = Layout(home.resolve())
    if not _lock_is_held(layout):
        raise NothingRuns(_describe_absence(layout))
    _send(layout, signal.SIGTERM)
    deadline = time.monotonic() + _DOWN_SECONDS_MAX
    while _lock_is_held(layout):
        if time.monotonic() > deadline:
            _send(layout, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def take_lock(layout: Layout) -> None:
    """Take the lock that says that a stack runs in this folder, and who runs it.

    It is held until this process has ended, not only its stack: who waits for the lock then finds
    nothing left.

    Raises AlreadyRuns: another process holds it.
    """
    layout.home.mkdir(parents=True, exist_ok=True)
    lock = os.open(layout.lock, os.O_RDWR | os.O_CREAT, 0o600)  # Never closed: the kernel does that.
    deadline = time.monotonic() + _LOCK_SECONDS_MAX
    while not _take(lock):
        # A command that checks whether a stack runs also holds it, for a moment.
        if time.monotonic() > deadline:
            os.close(lock)
            raise AlreadyRuns(_describe_presence(layout))
        time.sleep(_POLL_SECONDS)
    os.ftruncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())


def _lock_is_held(layout: Layout) -> bool:
    if not layout.lock.exists():
        return False
    with layout.lock.open("r+") as lock:
        return not _take(lock)


def _take(lock: IO[str] | int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _send(layout: Layout, number: signal.Signals) -> None:
    """Send a signal to the holder of the lock; a new holder may not have written its name yet."""
    text = layout.lock.read_text().strip()
    if text and _lock_is_held(layout):
        os.kill(int(text), number)


def _describe_presence(layout: Layout) -> str:
    if layout.state.exists():
        return f"a stack runs in {layout.home} already; see: make env, make down"
    return f"a stack is being started or ended in {layout.home}; wait a moment, or end it with: make down"


def _describe_absence(layout: Layout) -> str:
    if layout.state.exists():
        return f"the stack in {layout.home} is gone (its supervisor ended); start it with: make up"
    return f"no stack runs in {layout.home}; start one with: make up"
