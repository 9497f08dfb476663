#!/usr/bin/env python3
"""Stages the functions' source exactly as it is deployed: ``main.py`` beside ``shared/`` and ``requirements.txt``.

The buildpack puts only the folder of ``main.py`` on the import path and byte-compiles every file that it finds, so
the bundle holds what runs and nothing else. The same bytes give the same bundle: no times, sorted names.
https://github.com/GoogleCloudPlatform/buildpacks/tree/main/cmd/python/functions_framework
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

def stage(target: Path) -> list[Path]:
    """Write the bundle into an empty or absent folder and return its files.

    Raises:
        FileExistsError: the folder exists and is not empty.
    """
    if target.exists() and any(target.iterdir()):
        raise FileExistsError(f"{target} is not empty")
    target.mkdir(parents=True, exist_ok=True)
    written = []
    sources = {Path("main.py"): ROOT / "functions/main.py", Path("requirements.txt"): ROOT / "requirements.txt"}
    for path in sorted((ROOT / "shared").rglob("*.py")):
        sources[path.relative_to(ROOT)] = path
    for name, source in sources.items():
        destination = target / name
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, destination)
        written.append(destination)
    return written


def main() -> int:
    """Stage into the folder that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path, help="an empty or absent folder")
    arguments = parser.parse_args()
    try:
        written = stage(arguments.target)
    except FileExistsError as error:
        sys.stderr.write(f"{error}; name an empty or absent folder\n")
        return 2
    sys.stdout.write(f"staged {len(written)} files in {arguments.target}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
