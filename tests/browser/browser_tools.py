"""What the browser tier needs: the system's Chromium, Playwright's driver, axe-core from npm."""

import base64
import hashlib
import importlib.util
import os
import shutil
import subprocess
import tarfile
import tempfile
from functools import cache
from pathlib import Path

CHROMIUM_VARIABLE = "BOARD_CHROMIUM"
CHROMIUM_REMEDY = f"apt-get install chromium, or {CHROMIUM_VARIABLE}, which names a program"
DRIVER_REMEDY = "make installs requirements/development.txt"
AXE = "axe-core@4.14.1"
AXE_SHA_512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
"""``dist.integrity`` of https://registry.npmjs.org/axe-core/4.14.1."""
AXE_REMEDY = f"npm, and access to registry.npmjs.org for {AXE} (once; it is kept in the user's cache)"
_FETCH_SECONDS_MAX = 120


def find_chromium() -> str:
    """Return the path of a Chromium; empty if there is none."""
    named = os.environ.get(CHROMIUM_VARIABLE)
    names = [named] if named else ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"]
    return next((path for name in names if (path := shutil.which(name))), "")


def find_driver() -> bool:
    """Return whether Playwright is installed."""
    return importlib.util.find_spec("playwright") is not None


@cache
def find_axe() -> str:
    """Return the script of axe-core, from the cache or from npm; empty if it cannot be had."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "tpu-provisioner"
    kept = home / f"{AXE.replace('@', '-')}.tgz"
    if not _is_whole(kept) and not _fetch(kept):
        return ""
    with tarfile.open(kept) as packed:
        script = packed.extractfile("package/axe.min.js")
        return script.read().decode() if script else ""


def _fetch(kept: Path) -> bool:
    if shutil.which("npm") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", AXE, "--pack-destination", folder]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_FETCH_SECONDS_MAX)
        except (subprocess.SubprocessError, OSError):
            return False
        found = next(Path(folder).glob("*.tgz"), None)
        if found is None or not _is_whole(found):
            return False
        kept.parent.mkdir(parents=True, exist_ok=True)
        draft = kept.with_suffix(f".{os.getpid()}")
        shutil.copy(found, draft)
        draft.replace(kept)
    return True


def _is_whole(path: Path) -> bool:
    if not path.is_file():
        return False
    return base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode() == AXE_SHA_512
