"""Lays out what is measured as it is deployed: the functions' bundle, the exporter's image.

Both are byte-compiled.
"""

import compileall
import shutil
from pathlib import Path

from infra.build.stage_functions import stage

ROOT = Path(__file__).resolve().parents[1]
VARIANTS = Path(__file__).resolve().parent / "variants"


def stage_bundle(folder: Path) -> Path:
    """Return a fresh functions bundle with the variants laid beside its ``main.py``."""
    stage(folder)
    for path in VARIANTS.iterdir():
        if path.suffix in (".py", ".json"):
            shutil.copyfile(path, folder / path.name)
    _compile(folder)
    return folder


def stage_exporter(folder: Path) -> Path:
    """Return a fresh folder with ``exporter`` and ``shared``, as the image holds them."""
    for package in ("exporter", "shared"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "*.txt"))
    _compile(folder)
    return folder


def _compile(folder: Path) -> None:
    """Write the ``.pyc`` files, as the buildpack and the image build do.

    A start without them takes far longer.
    """
    if not compileall.compile_dir(folder, quiet=1):
        raise SyntaxError(f"a file under {folder} does not compile; the lines above name it")
