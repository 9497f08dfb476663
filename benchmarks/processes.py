"""What is measured, laid out as it is deployed, and run as a child whose CPU and memory are read.

Functions and exporter are byte-compiled and run in an environment of just the packages that are
pinned: beside development tools an import may find a package that the deployment lacks. CPU is the
kernel's own clock of a process, to the nanosecond, threads that have ended included. Memory is
``VmHWM``: unlike the ``ru_maxrss`` of wait4, it does not inherit the size of the process that
forked. Linux only.
"""

import compileall
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Self

import psutil
from packaging.requirements import Requirement

from demo.functions import stage
from standins.kit.processes import NotReady, wait_until

ROOT = Path(__file__).resolve().parents[1]
_CPUCLOCK_SCHED = 2
_END_SECONDS = 5.0
_DROPPED = ("TPU_PROVISIONER_", "GOOGLE_", "GCE_", "CLOUDSDK_", "PUBSUB_", "K_", "FUNCTION_", "PYTHON", "PORT")
_FLOORS = {
    "hello.py": """import functions_framework

@functions_framework.http
def hello(_request):
    return "Hello world!"
""",
    "noop_event.py": """import functions_framework

@functions_framework.cloud_event
def noop(_event):
    pass
""",
}
"""The floors of a cold start and of a warm event: what carries as little of its own as can be."""
_FRAMEWORK = """#!{python}
import sys
from functions_framework._cli import _cli
sys.exit(_cli())
"""


class Failed(Exception):
    """Something cannot be measured: a process ended, or did not do in time what it is to do."""


@dataclass(frozen=True, slots=True)
class Consumption:
    """What a process and its children have used since they began."""

    cpu_seconds: float
    peak_mebibytes: float  # the largest resident size of any one of them


class MeteredProcess:
    """A running command; leaving the ``with`` block ends it and its children."""

    def __init__(
        self, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str], log: Path
    ) -> None:
        self._log = log
        kept = {key: value for key, value in os.environ.items() if not key.startswith(_DROPPED)}
        without_proxy = {key: value for key, value in kept.items() if not key.lower().endswith("_proxy")}
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                arguments,
                cwd=folder,
                env=without_proxy | dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        family = self._list_children()
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
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
        pids = [self._process.pid, *(each.pid for each in self._list_children())]
        try:
            return Consumption(
                cpu_seconds=sum(time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED) for pid in pids),
                peak_mebibytes=max(map(_read_peak_kib, pids)) / 1024,
            )
        except OSError as error:
            raise Failed(f"a child ended while it was measured: {error}\n{self.tail()}") from error

    def check(self) -> None:
        """Raise `Failed` with the end of the log when the process has ended."""
        if self._process.poll() is not None:
            raise Failed(f"{self._process.args!r} ended with {self._process.returncode}:\n{self.tail()}")

    def wait_until(self, what: str, ready: Callable[[], bool], *, seconds: float = 90.0) -> None:
        """Ask until it is so. Raises Failed: it is not so in time, or the process has ended."""
        try:
            wait_until(ready, what=what, seconds=seconds, check=self.check)
        except NotReady as error:
            raise Failed(f"{error}:\n{self.tail()}") from error

    def tail(self) -> str:
        """Return the end of what the process has written."""
        # Tracebacks inside JSON records are one long line.
        return self._log.read_bytes()[-1_500:].decode("utf-8", "replace").replace("\\n", "\n")

    def _list_children(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self._process.pid).children(recursive=True)
        return []


def _read_peak_kib(pid: int) -> float:
    """Return the peak of a process; one that has just ended has none, which is an OSError."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return float(line.split()[1])
    raise OSError(f"the process {pid} has no memory")


@dataclass(frozen=True, slots=True)
class Staged:
    """A program as it is deployed: its code, and an interpreter with exactly what it needs."""

    code: Path
    python: Path


def stage_functions(folder: Path) -> Staged:
    """Return the functions' bundle with the floors beside its ``main.py``, and its environment."""
    stage(folder / "code")
    for name, text in _FLOORS.items():
        (folder / "code" / name).write_text(text, encoding="utf-8")
    return _stage(folder, ROOT / "requirements.txt")


def stage_exporter(folder: Path) -> Staged:
    """Return ``exporter`` and ``shared`` as the image holds them, and its environment."""
    for package in ("exporter", "shared"):
        without = shutil.ignore_patterns("__pycache__", "*.txt")
        shutil.copytree(ROOT / package, folder / "code" / package, ignore=without)
    return _stage(folder, ROOT / "exporter/requirements.txt")


def _stage(folder: Path, requirements: Path) -> Staged:
    # As the buildpack and the image build do: a start without compiled files takes far longer.
    if not compileall.compile_dir(folder / "code", quiet=1):
        raise SyntaxError(f"a file under {folder} does not compile; the lines above name it")
    return Staged(folder / "code", _make_environment(_read_distributions(requirements), folder / "environment"))


def _read_distributions(requirements: Path) -> list[Distribution]:
    """Return the installed packages that a fully pinned requirements file names for this platform.

    Raises Failed: one is absent or of another version; what is measured would not be what is
    deployed.
    """
    packages = []
    for line in requirements.read_text(encoding="utf-8").splitlines():
        if not line or line[0] in " #-":
            continue
        wanted = Requirement(line.rstrip("\\ "))
        if wanted.marker and not wanted.marker.evaluate():
            continue
        installed = next(iter(distributions(name=wanted.name)), None)
        if installed is None or installed.version not in wanted.specifier:
            raise Failed(f"{requirements.name} pins {wanted}; installed is {installed and installed.version}")
        packages.append(installed)
    return packages


def _make_environment(packages: list[Distribution], folder: Path) -> Path:
    """Return the interpreter of a new virtual environment of exactly these packages, as links.

    The script ``functions-framework`` beside it is the one that pip would write.
    """
    venv.create(folder, symlinks=True, with_pip=False)
    target = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    for each in packages:
        for file in each.files or ():
            source, link = Path(str(each.locate_file(file))), target / file
            if file.parts[0] != ".." and source.exists():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(source)
    python = folder / "bin" / Path(sys.executable).name
    script = python.with_name("functions-framework")
    script.write_text(_FRAMEWORK.format(python=python), encoding="utf-8")
    script.chmod(0o755)
    return python
