"""Lays out what is measured as it is deployed: the functions' bundle, the exporter's image.

Both are byte-compiled, and run in an environment of just the packages that are pinned. What runs
beside development tools proves nothing about what is deployed: there, an import may find a package
that the deployment lacks.
"""

import compileall
import shutil
import sys
import sysconfig
import venv
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

from demo.functions import stage

ROOT = Path(__file__).resolve().parents[1]
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
_SCRIPT = """#!{python}
import sys
from functions_framework._cli import _cli
sys.exit(_cli())
"""


class NotInstalled(Exception):
    """A pinned package is not here in the pinned version."""


def stage_bundle(folder: Path) -> Path:
    """Return a fresh functions bundle with the floors laid beside its ``main.py``."""
    stage(folder)
    for name, text in _FLOORS.items():
        (folder / name).write_text(text, encoding="utf-8")
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


def read_distributions(requirements: Path) -> list[Distribution]:
    """Return the installed packages that a fully pinned requirements file names for this platform.

    Raises NotInstalled: one is absent or of another version; what is measured would not be what is
    deployed.
    """
    found = []
    for line in requirements.read_text(encoding="utf-8").splitlines():
        if not line or line[0] in " #-":
            continue
        wanted = Requirement(line.rstrip("\\ "))
        if wanted.marker and not wanted.marker.evaluate():
            continue
        try:
            here = distribution(wanted.name)
        except PackageNotFoundError as error:
            raise NotInstalled(f"{requirements.name} pins {wanted}, which is not installed here") from error
        if here.version not in wanted.specifier:
            raise NotInstalled(f"{requirements.name} pins {wanted}; installed is {here.version}")
        found.append(here)
    return found


def make_environment(packages: list[Distribution], folder: Path) -> Path:
    """Return the interpreter of a new virtual environment of exactly these packages, as links.

    The script ``functions-framework`` beside it is the one that pip would write.
    """
    venv.create(folder, symlinks=True, with_pip=False)
    target = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    for each in packages:
        for file in each.files or ():
            if file.parts[0] != "..":
                _link(Path(str(each.locate_file(file))), target / file)
    python = folder / "bin" / Path(sys.executable).name
    script = python.with_name("functions-framework")
    script.write_text(_SCRIPT.format(python=python), encoding="utf-8")
    script.chmod(0o755)
    return python


def _link(source: Path, link: Path) -> None:
    if source.exists():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(source)
