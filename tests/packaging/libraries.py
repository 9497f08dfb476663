"""Programs that find nothing but their own folder and the libraries of their requirements."""

import re
import sysconfig
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path, PurePath

from tests.program_runs import run_python

SITE = Path(sysconfig.get_path("purelib"))


def list_pinned(requirements: Path) -> list[str]:
    """Return the names that a file of requirements pins."""
    return re.findall(r"^([a-z0-9-]+)(?:\[\w+\])?==", requirements.read_text(), re.MULTILINE)


def run_alone(
    code: str, names: Iterable[str], folder: Path, *, cwd: Path, environ: Mapping[str, str] | None = None
) -> str:
    """Run Python with these libraries alone, linked into a folder; return what it prints."""
    for name in names:
        # A package is linked as one, and what lies in none file by file: several share `google`.
        tops = {next(filter(is_package, reversed(each.parents)), each) for each in metadata.files(name) or ()}
        for top in tops:
            if ".." not in top.parts:
                (folder / top).parent.mkdir(parents=True, exist_ok=True)
                (folder / top).symlink_to(SITE / top)
    environ = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **(environ or {}), "PYTHONPATH": str(folder)}
    # -S: nothing of the interpreter's own site-packages, as in the image.
    return run_python("-S", "-B", "-c", code, cwd=cwd, env=environ, succeeds=True).stdout


def is_package(folder: PurePath) -> bool:
    """Return whether a folder of this environment is a package."""
    return (SITE / folder / "__init__.py").is_file()
