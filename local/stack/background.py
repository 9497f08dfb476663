"""A stack that outlives the command that started it: `make up`, `make down`, and what `status` reads.

The supervisor runs as a process of its own; its state file says who it is and what it runs. Whether it still runs
is told by a lock that it holds on a file for as long as it lives: a process id may belong to a stranger by now.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from local.stack.child import last_lines
from local.stack.commands import Addresses, StackSettings  # noqa: TC001 -- msgspec reads the annotations
from local.stack.layout import PROJECT_ROOT, Layout
from local.stack.readiness import NotReady, wait_until
from local.stack.supervisor import ProcessState  # noqa: TC001 -- msgspec reads the annotations

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_UP_SECONDS_MAX = 90.0
_DOWN_SECONDS_MAX = 10.0


class NothingRuns(Exception):
    """There is no running stack in that folder."""


class AlreadyRuns(Exception):
    """A stack runs in that folder already."""


class StartFailed(Exception):
    """The supervisor ended while it was starting; the text shows its last lines."""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The state file as its writer, `Stack`, leaves it."""

    supervisor_pid: int
    settings: StackSettings
    addresses: Addresses
    processes: list[ProcessState]


def read_state(layout: Layout) -> State:
    """Return what the running stack last wrote.

    Raises:
        NothingRuns: there is no state file, or its supervisor is gone.
    """
    if not layout.state.exists():
        raise NothingRuns(f"no stack runs in {layout.home}; start one with: make up")
    if not _lock_is_held(layout):
        raise NothingRuns(f"the stack in {layout.home} is gone (its supervisor ended); start it with: make up")
    return msgspec.json.decode(layout.state.read_bytes(), type=State)


def start(home: Path, settings: StackSettings) -> State:
    """Start a stack in the background and return once all of it is ready.

    Raises:
        AlreadyRuns: one runs there.
        StartFailed: it ended instead.
    """
    layout = Layout(home.resolve())
    try:
        read_state(layout)
    except NothingRuns:
        pass
    else:
        raise AlreadyRuns(f"a stack runs in {layout.home} already; see: make env, make down")
    layout.create()
    log = layout.log("supervisor")
    with log.open("wb") as output:
        supervisor = subprocess.Popen(
            _run_command(home, settings),
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
        wait_until("the stack", layout.state.exists, seconds=_UP_SECONDS_MAX, check=check)
    except NotReady:
        supervisor.terminate()
        raise
    return read_state(layout)


def stop(home: Path) -> None:
    """End the stack in a folder and return once it is gone.

    Raises:
        NothingRuns: there is none.
    """
    layout = Layout(home.resolve())
    pid = read_state(layout).supervisor_pid
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _DOWN_SECONDS_MAX
    while _lock_is_held(layout):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


@contextmanager
def hold_lock(layout: Layout) -> Iterator[None]:
    """Hold the lock that says that a stack runs in this folder.

    Raises:
        AlreadyRuns: another process holds it.
    """
    layout.home.mkdir(parents=True, exist_ok=True)
    with _lock_path(layout).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AlreadyRuns(f"a stack runs in {layout.home} already; see: make env, make down") from error
        yield


def _run_command(home: Path, settings: StackSettings) -> list[str]:
    return [
        sys.executable,
        "-m",
        "local.stack",
        "run",
        f"--home={home}",
        f"--speed={settings.speed:g}",
        f"--seed={settings.seed}",
        f"--run-seconds={settings.run_virtual_seconds:g}",
        f"--faults={settings.faults}",
        f"--cluster={settings.cluster}",
        "--restart" if settings.restarts else "--no-restart",
    ]


def _lock_path(layout: Layout) -> Path:
    return layout.home / "lock"


def _lock_is_held(layout: Layout) -> bool:
    if not _lock_path(layout).exists():
        return False
    with _lock_path(layout).open("r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
