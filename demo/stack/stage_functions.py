#!/usr/bin/env python3
"""Stages the functions' source as Terraform packs it (infra/terraform/modules/functions_archive).

The buildpack puts only the folder of ``main.py`` on the import path and byte-compiles every file
that it finds, so the bundle holds what runs and nothing else.
https://github.com/GoogleCloudPlatform/buildpacks/tree/main/cmd/python/functions_framework
"""

import argparse
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def list_sources() -> dict[str, Path]:
    """Return the name of each file in the bundle, and where it is taken from."""
    sources = {"main.py": ROOT / "functions/main.py", "requirements.txt": ROOT / "requirements.txt"}
    for path in sorted((ROOT / "shared").rglob("*")):
        if path.suffix in (".py", ".json"):
            sources[path.relative_to(ROOT).as_posix()] = path
    return sources


def stage(target: Path) -> list[Path]:
    """Write the bundle into an empty or absent folder and return its files.

    Raises:
        FileExistsError: the folder exists and is not empty.
    """
    if target.exists() and any(target.iterdir()):
        raise FileExistsError(f"{target} is not empty; name an empty or absent folder")
    for name, source in list_sources().items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target / name)
    return sorted(path for path in target.rglob("*") if path.is_file())


def main() -> int | str:
    """Stage into the folder that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path, help="an empty or absent folder")
    try:
        files = stage(parser.parse_args().target)
    except FileExistsError as error:
        return str(error)
    sys.stdout.write(f"staged {len(files)} files\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
