"""Installs Ray in its own virtual environment in the user's cache folder, pinned by hash.

What lives here: finding it and installing it. What does not: how its programs are run
(`demo.ray.image`).
"""

import fcntl
import hashlib
import re
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from standins.controlplane.cache import default_cache

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
_STAMP = "installed"
_LAST_LINES = 12


class RayMissing(Exception):
    """Ray is not installed; the text names what installs it."""


class InstallFailed(Exception):
    """Ray could not be installed; the text ends with pip's own words."""


@dataclass(frozen=True, slots=True)
class Installation:
    """A complete environment with Ray in it."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"


def ray_version() -> str:
    """Return the pinned version of Ray. Raises ValueError: the requirements name none."""
    found = re.search(r"^ray==(\S+)", REQUIREMENTS.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise ValueError(f"{REQUIREMENTS}: no line `ray==…`")
    return found[1]


def default_folder() -> Path:
    """Return where Ray is installed: one folder per version of it and of Python."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return default_cache().parent / f"ray-{ray_version()}-python{python}"


def find_ray(folder: Path) -> Installation:
    """Return the installation in a folder.

    Raises RayMissing: it is not there, or was installed from other requirements.
    """
    stamp = folder / _STAMP
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != _fingerprint():
        raise RayMissing(f"Ray {ray_version()} is not installed in {folder}; install it with: make ray")
    return Installation(folder)


def install_ray(folder: Path, say: Callable[[str], None]) -> Installation:
    """Return the installation in a folder, after installing it if it is not there: 75 MB from PyPI.

    Args:
        folder: Where to. What is there and is incomplete or of other requirements is removed.
        say: Told, in a few words, what is being done and how long it took.

    Raises InstallFailed: pip failed.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return find_ray(folder)
        except RayMissing:
            pass
        started = time.monotonic()
        say(f"installing Ray {ray_version()} from PyPI into {folder} (once, a minute or two)")
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        _install(Installation(folder))
        (folder / _STAMP).write_text(_fingerprint(), encoding="utf-8")
        say(f"Ray is installed; it took {time.monotonic() - started:.0f} s")
    return find_ray(folder)


def _install(made: Installation) -> None:
    answer = subprocess.run(
        [
            *(str(made.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"),
            *("--only-binary=:all:", "--require-hashes", "-r", str(REQUIREMENTS)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if answer.returncode:
        lines = "\n".join(answer.stdout.splitlines()[-_LAST_LINES:])
        raise InstallFailed(f"pip could not install {REQUIREMENTS.name} into {made.folder}:\n{lines}")


def _fingerprint() -> str:
    return hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
