"""Makes a build.

Calls Go once per program, shows how far it is, copies the manifests, and checks what it made.

Programs are linked one after the other, because each link of Kubernetes takes up to 2 GB of memory
and Go itself already compiles on all cores. Where builds are kept is in `cache`.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from standins.controlplane.cache import (
    Build,
    BuildBroken,
    Stamp,
    addition_cache,
    build_folder,
    drafting,
    find_newest,
    hold_lock,
    measure,
    open_build,
    write_stamp,
)
from standins.controlplane.recipe import PRODUCTS, Binary, Product, find_additions, hash_sources
from standins.controlplane.toolchain import NoToolchain, Progress, Toolchain, find_toolchain, go_environment
from standins.kit.lifecycle import hold_interrupts

_LAST_LINES = 15


class BuildFailed(Exception):
    """Go could not build a program; the text names it and shows Go's last lines."""


def find_build(cache: Path) -> Build:
    """Return the base build to run: by the present Go if there is one, else the newest by any.

    Raises:
        BuildBroken: there is no complete build; the text names the command that makes one.
        RecipeBroken: our own go.mod files are damaged.
    """
    return _find(cache, PRODUCTS, "python -m standins.controlplane build")


def find_addition_build(cache: Path, name: str) -> Build:
    """Return the build of a further controller, chosen as the base is.

    Raises:
        UnknownAddition: there is no such controller.
        BuildBroken: there is no complete build; the text names the command that makes one.
        RecipeBroken: our own go.mod files are damaged.
    """
    (addition,) = find_additions([name])
    command = f"python -m standins.controlplane build --with {name}"
    return _find(addition_cache(cache, addition), (addition,), command)


def make_build(cache: Path, progress: Progress, *, nice: int = 0) -> Build:
    """Return the base build of the present sources by the present Go; make it if it is incomplete.

    Args:
        cache: The folder of all builds.
        progress: Told how far it is.
        nice: How much to step back behind other programs, 0 to 19.

    Raises:
        NoToolchain: there is no usable Go.
        BuildFailed: a program could not be built; nothing half-done is left.
        RecipeBroken: our own go.mod files are damaged.
        OSError: the cache folder cannot be written.
    """
    return _make(cache, cache, PRODUCTS, progress, nice)


def make_addition_build(cache: Path, name: str, progress: Progress, *, nice: int = 0) -> Build:
    """Return the build of a further controller, made now unless it is there and complete.

    The base build is neither needed for it nor touched. Arguments and errors are those of
    `make_build`, and UnknownAddition when there is no such controller.
    """
    (addition,) = find_additions([name])
    return _make(cache, addition_cache(cache, addition), (addition,), progress, nice)


def _find(folder: Path, products: tuple[Product, ...], command: str) -> Build:
    sources = hash_sources(products)
    try:
        return open_build(build_folder(folder, sources, find_toolchain().label), products)
    except (BuildBroken, NoToolchain) as error:
        newest = find_newest(folder, sources, products)
        if newest is None:
            raise BuildBroken(f"no complete build ({error}); make one: {command}") from error
        return newest


def _make(cache: Path, folder: Path, products: tuple[Product, ...], progress: Progress, nice: int) -> Build:
    """Return the build of some products, whose builds are kept in a folder of their own.

    One lock for all builds: two at a time would need twice the memory.
    """
    sources, toolchain = hash_sources(products), find_toolchain()
    target = build_folder(folder, sources, toolchain.label)
    with contextlib.suppress(BuildBroken):
        return open_build(target, products)
    with hold_lock(cache, progress.say):
        try:
            return open_build(target, products)  # Another builder may have made it while we waited.
        except BuildBroken as problem:
            progress.say(f"building, because: {problem}")
        with drafting(target) as draft:
            started = time.monotonic()
            _build(products, toolchain, draft, progress, nice)
            stamp = Stamp(
                sources=sources,
                toolchain=toolchain.label,
                seconds=round(time.monotonic() - started, 1),
                versions={product.name: product.version for product in products},
                sizes=measure(draft),
            )
            write_stamp(draft, stamp)
    return open_build(target, products)


def _build(
    products: tuple[Product, ...], toolchain: Toolchain, draft: Path, progress: Progress, nice: int
) -> None:
    programs = [(product, binary) for product in products for binary in product.binaries]
    for number, (product, binary) in enumerate(programs, start=1):
        title = f"{number}/{len(programs)} {binary.name} {product.version}"
        with progress.step(title, binary.cold_seconds) as step:
            _compile(product, binary, toolchain, draft / "bin" / binary.name, step, nice)
    for product in products:
        if product.manifests:
            _copy_manifests(product, toolchain, draft / "manifests" / product.name)


def _compile(
    product: Product,
    binary: Binary,
    toolchain: Toolchain,
    output: Path,
    note_package: Callable[[str], None],
    nice: int,
) -> None:
    arguments = [toolchain.command, "build", "-v", "-mod=readonly", "-buildvcs=false", "-trimpath"]
    arguments += ["-tags", product.tags, "-ldflags", product.link_flags(), "-o", str(output), binary.package]
    tail: deque[str] = deque(maxlen=_LAST_LINES)
    with _running(arguments, product.folder, nice) as process:
        for line in process.stdout or ():
            tail.append(line.rstrip())
            note_package(line.strip())
        code = process.wait()
    if code != 0:
        printed = "\n".join(f"    {line}" for line in tail)
        raise BuildFailed(
            f"{binary.name}: `go build {binary.package}` in {product.folder} ended with code {code}:\n{printed}"
        )
    if not os.access(output, os.X_OK):
        raise BuildFailed(f"{binary.name}: Go ended well but left no program at {output}")


@contextlib.contextmanager
def _running(arguments: list[str], folder: Path, nice: int) -> Iterator[subprocess.Popen[str]]:
    """Run a command while the block runs; its whole process group is gone afterwards."""
    if nice:
        arguments = ["nice", "-n", str(nice), *arguments]
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
                start_new_session=True,
            )
            cleanup.enter_context(process)
            cleanup.callback(_end_group, process)
        if nice:
            _step_back(process.pid, nice)
        yield process


def _end_group(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _step_back(session: int, nice: int) -> None:
    """Give a session's scheduling group the niceness too.

    Where Linux groups processes by session, niceness counts only within one group
    (https://man7.org/linux/man-pages/man7/sched.7.html, "The autogroup feature").
    """
    with contextlib.suppress(OSError):
        Path(f"/proc/{session}/autogroup").write_text(str(nice))


def _copy_manifests(product: Product, toolchain: Toolchain, target: Path) -> None:
    """Keep the module's YAML files beside the programs.

    The module cache may be cleaned at any time.
    """
    answer = subprocess.run(
        [toolchain.command, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", product.module],
        cwd=product.folder,
        env=go_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    module = Path(answer.stdout.strip())
    if answer.returncode != 0 or not answer.stdout.strip():
        raise BuildFailed(f"{product.name}: its module {product.module} was not found: {answer.stderr.strip()}")
    for folder in product.manifests:
        files = sorted((module / folder).glob("*.yaml"))
        if not files:
            raise BuildFailed(f"{product.name}: no YAML files in {module / folder}")
        copies = target / folder
        copies.mkdir(parents=True)
        for file in files:
            # Content only: files of the module cache are read-only.
            shutil.copyfile(file, copies / file.name)
