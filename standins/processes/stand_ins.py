"""Runs a stand-in as a process of its own, for tests, and waits for what it does.

Started, found by its ports file, ended for certain.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from standins.processes.child import Child, Command, describe_last_words

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
