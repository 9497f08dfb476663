#!/usr/bin/env python3
"""Stages the functions' source as it is deployed: ``main.py``, ``shared/``, ``requirements.txt``.

The buildpack puts only the folder of ``main.py`` on the import path and byte-compiles every file
that it finds, so the bundle holds what runs and nothing else. The same bytes give the same bundle:
no times, sorted names.
https://github.com/GoogleCloudPlatform/buildpacks/tree/main/cmd/python/functions_framework
"""

from __future__ import annotations

import argparse
import shutil
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip can say."""
_MODE = 0o100644 << 16
"""A plain file that everybody may read, in the form of a zip's external attributes."""


def stage(target: Path) -> list[Path]:
    """Write the bundle into an empty or absent folder and return its files.

    Raises:
        FileExistsError: the folder exists and is not empty.
    """
    if target.exists() and any(target.iterdir()):
        raise FileExistsError(f"{target} is not empty")
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for name, source in _find_sources().items():
        destination = target / name
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, destination)
        written.append(destination)
    return written


def pack(archive: Path) -> list[str]:
    """Write the bundle as a zip, over what may be there, and return the names in it.

    Nothing in it depends on the machine or the hour, and nothing is compressed (compressors
    differ): its hash changes when the bundle does, and only then.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    sources = {name.as_posix(): source for name, source in _find_sources().items()}
    with zipfile.ZipFile(archive, "w", compression=zipfile.ZIP_STORED) as packed:
        for name in sorted(sources):
            entry = zipfile.ZipInfo(name, date_time=_EPOCH)
            entry.create_system = 3  # Unix, whichever system packs
            entry.external_attr = _MODE
            packed.writestr(entry, sources[name].read_bytes())
    return sorted(sources)


def _find_sources() -> dict[Path, Path]:
    """Return the bundle: the name of each file in it, and where it is taken from."""
    sources = {Path("main.py"): ROOT / "functions/main.py", Path("requirements.txt"): ROOT / "requirements.txt"}
    for path in sorted(each for each in (ROOT / "shared").rglob("*") if each.suffix in (".py", ".json")):
        sources[path.relative_to(ROOT)] = path
    return sources


def main() -> int:
    """Stage into the folder, and pack into the archive, that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path, nargs="?", help="an empty or absent folder")
    parser.add_argument(
        "--zip", type=Path, metavar="FILE", help="also write a zip file of it, as Terraform uploads it"
    )
    arguments = parser.parse_args()
    if arguments.target is None and arguments.zip is None:
        parser.error("name a folder, or a zip file with --zip FILE, or both")
    if arguments.target is not None:
        try:
            written = stage(arguments.target)
        except FileExistsError as error:
            sys.stderr.write(f"{error}; name an empty or absent folder\n")
            return 2
        sys.stdout.write(f"staged {len(written)} files in {arguments.target}\n")
    if arguments.zip is not None:
        sys.stdout.write(f"packed {len(pack(arguments.zip))} files in {arguments.zip}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
