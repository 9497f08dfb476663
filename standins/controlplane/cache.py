"""The cache of builds: one folder per key, complete or absent, in the user's cache folder.

A build is made in a draft folder and renamed, so a complete name means a complete build; its stamp
lists every file with its size, so that one that was damaged later is noticed. How to build is in
`building`.
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from standins.controlplane.recipe import PRODUCTS, Product, list_binaries

_STAMP = "build.json"
_DRAFT_PREFIX = ".draft-"


class Stamp(msgspec.Struct, frozen=True, kw_only=True):
    """What a build says about itself."""

    sources: str
    toolchain: str
    seconds: float
    versions: dict[str, str]
    sizes: dict[str, int]
    """Bytes of each file, by its path within the build."""


@dataclass(frozen=True, slots=True)
class Build:
    """A complete build."""

    folder: Path
    stamp: Stamp

    def binary(self, name: str) -> Path:
        """Return the path of one program."""
        return self.folder / "bin" / name

    def manifests(self, product: str) -> Path:
        """Return the folder with the YAML files of one product."""
        return self.folder / "manifests" / product


class BuildBroken(Exception):
    """A build is incomplete or damaged; the text says what is wrong with it."""


def default_cache() -> Path:
    """Return the folder of all builds (https://specifications.freedesktop.org/basedir-spec/latest/)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The specification says that a relative path there is to be ignored.
    root = Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache"
    return root / "tpu-provisioner" / "controlplane"


def addition_cache(cache: Path, product: Product) -> Path:
    """Return the folder of all builds of a further controller, within the folder of all builds."""
    return cache / product.name


def build_folder(cache: Path, sources: str, toolchain: str) -> Path:
    """Return where the build of a key belongs."""
    return cache / f"{toolchain}-{sources}"


def open_build(folder: Path, products: tuple[Product, ...] = PRODUCTS) -> Build:
    """Return the build of some products in a folder after a look at every file's size.

    Raises BuildBroken: it is absent, incomplete or damaged.
    """
    try:
        stamp = msgspec.json.decode((folder / _STAMP).read_bytes(), type=Stamp)
    except FileNotFoundError as error:
        raise BuildBroken(f"{folder}: {'half-built' if folder.exists() else 'absent'}") from error
    except (OSError, msgspec.DecodeError) as error:
        raise BuildBroken(f"{folder / _STAMP}: {error}") from error
    for name in (f"bin/{binary}" for binary in list_binaries(products)):
        if name not in stamp.sizes or not os.access(folder / name, os.X_OK):
            raise BuildBroken(f"{folder / name}: missing or not executable")
    for name, size in stamp.sizes.items():
        path = folder / name
        found = path.stat().st_size if path.exists() else 0
        if found != size:
            raise BuildBroken(f"{path}: {found} bytes where {size} were built")
    return Build(folder, stamp)


def find_newest(cache: Path, sources: str, products: tuple[Product, ...] = PRODUCTS) -> Build | None:
    """Return the newest complete build of these sources by whatever Go, or None.

    For running only: what was built stays usable when Go is gone or was replaced.
    """
    complete = []
    for folder in cache.glob(f"*-{sources}"):
        try:
            complete.append(open_build(folder, products))
        except BuildBroken:
            continue
    return max(complete, key=lambda build: build.folder.stat().st_mtime, default=None)


@contextmanager
def hold_lock(cache: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the one lock of all builders, after waiting for another that has it.

    Raises OSError: the cache folder cannot be written.
    """
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another build is under way; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def drafting(target: Path) -> Iterator[Path]:
    """Give an empty folder that becomes `target` if the block ends well, and vanishes otherwise.

    To be used under the lock: drafts of builders that were killed are removed here.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    for leftover in target.parent.glob(f"{_DRAFT_PREFIX}*"):
        shutil.rmtree(leftover)
    draft = target.parent / f"{_DRAFT_PREFIX}{os.getpid()}"
    draft.mkdir()
    try:
        yield draft
        if target.exists():
            shutil.rmtree(target)
        draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def write_stamp(draft: Path, stamp: Stamp) -> None:
    """Write what the build says about itself."""
    (draft / _STAMP).write_bytes(msgspec.json.format(msgspec.json.encode(stamp)) + b"\n")


def measure(draft: Path) -> dict[str, int]:
    """Return the size of every file of a build by its path within it."""
    return {
        str(path.relative_to(draft)): path.stat().st_size for path in sorted(draft.rglob("*")) if path.is_file()
    }
