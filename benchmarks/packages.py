"""The packages that a requirements file pins: how large they are, and an environment of just them.

What runs beside development tools proves nothing about what is deployed: there, an import may find
a package that the deployment lacks.
"""

import sys
import sysconfig
import venv
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

_SCRIPT = """#!{python}
import sys
from functions_framework._cli import _cli
sys.exit(_cli())
"""


class NotInstalled(Exception):
    """A pinned package is not here in the pinned version."""


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


def installed_mebibytes(packages: list[Distribution]) -> float:
    """Return the size on disk of all files of the packages.

    Compiled ones are included, as pip leaves them.
    """
    paths = (Path(str(each.locate_file(file))) for each in packages for file in each.files or ())
    return sum(path.stat().st_size for path in paths if path.exists()) / 2**20


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
