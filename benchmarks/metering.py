"""Child processes whose CPU and memory are read while they live. Linux only.

CPU is the kernel's own clock of a process, to the nanosecond and from exec on, threads that have
ended included. Memory is ``VmHWM``: unlike the ``ru_maxrss`` of wait4, it does not inherit the size
of the process that forked.
"""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

_CPUCLOCK_SCHED = 2
_END_SECONDS = 5.0
_MEBIBYTE_IN_KIB = 1024
_DROPPED = ("TPU_PROVISIONER_", "GOOGLE_", "GCE_", "CLOUDSDK_", "PUBSUB_", "K_", "FUNCTION_", "PYTHON", "PORT")


class Failed(Exception):
    """A process under measurement ended, or did not do in time what it is measured for."""


@dataclass(frozen=True, slots=True)
class Consumption:
    """What a process and its children have used since they began."""

    cpu_seconds: float
    peak_mebibytes: float
    """The largest resident size of any one of them."""
    charged_mebibytes: float
    """What all hold now, pages they share counted once, as a container is charged for them."""


class MeteredProcess:
    """A running command; leaving the ``with`` block ends it and its children."""

    def __init__(
        self, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str], log: Path
    ) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                arguments,
                cwd=folder,
                env=clean_environment() | dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        family = self._family()
        self._process.terminate()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for each in family:
            with suppress(psutil.NoSuchProcess):
                each.kill()

    def consumption(self) -> Consumption:
        """Return what the process and its children have used up to now.

        Raises Failed: the process has ended.
        """
        self.check()
        pids = [self._process.pid, *(each.pid for each in self._family())]
        try:
            return Consumption(
                cpu_seconds=sum(time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED) for pid in pids),
                peak_mebibytes=max(_read_kib(pid, "status", "VmHWM") for pid in pids) / _MEBIBYTE_IN_KIB,
                charged_mebibytes=sum(_read_kib(pid, "smaps_rollup", "Pss") for pid in pids) / _MEBIBYTE_IN_KIB,
            )
        except OSError as error:
            raise Failed(f"a child ended while it was measured: {error}\n{self.tail()}") from error

    def check(self) -> None:
        """Raise `Failed` with the end of the log when the process has ended."""
        if self._process.poll() is not None:
            raise Failed(f"{self._process.args!r} ended with {self._process.returncode}:\n{self.tail()}")

    def wait_until(self, what: str, ready: Callable[[], bool], *, seconds: float = 60.0) -> None:
        """Ask until it is so. Raises Failed: it is not so in time, or the process has ended."""
        until = time.monotonic() + seconds
        while not ready():
            self.check()
            if time.monotonic() > until:
                raise Failed(f"waited {seconds:g} s for {what}:\n{self.tail()}")
            time.sleep(0.005)

    def _family(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self._process.pid).children(recursive=True)
        return []

    def tail(self) -> str:
        """Return the end of what the process has written."""
        # Tracebacks inside JSON records are one long line.
        return self._log.read_bytes()[-1_500:].decode("utf-8", "replace").replace("\\n", "\n")


def clean_environment() -> dict[str, str]:
    """Return this environment without what changes how a child is set up, starts or compiles."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_DROPPED)}
    return {key: value for key, value in kept.items() if not key.lower().endswith("_proxy")}


def _read_kib(pid: int, file: str, field: str) -> float:
    for line in Path(f"/proc/{pid}/{file}").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return float(line.split()[1])
    raise OSError(f"/proc/{pid}/{file} has no {field}")
