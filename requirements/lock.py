"""Pins what one deployed program needs, with the hash of the one file that its platform installs.

`make lock` runs it. Functions and exporter run on Linux, x86-64, with CPython 3.13. The hashes of
files for other platforms would be nine of ten lines, and nothing would read them.
"""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PYTHON = "3.13"
BIN = Path(sys.executable).parent
DEVELOPMENT = Path(__file__).with_name("development.txt")
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
ABIS = ("cp313", "abi3", "none")


def list_versions(source: str) -> str:
    """Return what a program needs on its platform, in the versions of the development lock."""
    command = [str(BIN / "uv"), "pip", "compile", "--quiet", "--no-header", "--no-annotate", source]
    platform = (f"--python-version={PYTHON}", "--python-platform=x86_64-manylinux_2_28")
    return subprocess.run(
        [*command, *platform, f"--constraints={DEVELOPMENT}"], check=True, capture_output=True, text=True
    ).stdout


def choose_files(versions: str) -> list[dict[str, Any]]:
    """Return pip's report of the wheel that the platform installs for each version."""
    platform = [f"--python-version={PYTHON}", "--implementation=cp", "--only-binary=:all:"]
    platform += [f"--platform={name}" for name in PLATFORMS] + [f"--abi={name}" for name in ABIS]
    with TemporaryDirectory() as folder:
        listed = Path(folder) / "versions.txt"
        listed.write_text(versions, encoding="utf-8")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", f"--requirement={listed}"]
        report = ("--dry-run", "--ignore-installed", f"--target={folder}", "--report=-")
        answer = subprocess.run([*command, *report, *platform], check=True, capture_output=True, text=True)
    return list(json.loads(answer.stdout)["install"])


def write_lock(source: str, target: str) -> None:
    """Write each package with its version and the one hash."""
    versions = list_versions(source)
    lines = [f"# `make lock` writes this file from {source}, for Linux, x86-64, CPython {PYTHON}."]
    hashes = {}
    for each in choose_files(versions):
        name = each["metadata"]["name"].lower().replace("_", "-")
        hashes[name] = each["download_info"]["archive_info"]["hashes"]["sha256"]
    for pin in versions.split():
        lines += [f"{pin} \\", f"    --hash=sha256:{hashes[pin.partition('==')[0]]}"]
    Path(target).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_lock(*sys.argv[1:])
