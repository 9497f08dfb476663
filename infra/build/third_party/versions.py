#!/usr/bin/env python3
"""The versions of JobSet and Kueue that may be installed: those with a checksum in go.sum.

The first listed version of each is the default. This file reads and prints; only ``--add`` runs Go
and writes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PRODUCTS = ("jobset", "kueue")
NONE = "none"
_LINE = re.compile(r"sigs\.k8s\.io/(\w+) (v[^\s/]+) h1:\S+")


def list_versions(product: str) -> list[str]:
    """Return the versions of a product that have a checksum, oldest first."""
    lines = (FOLDER / "go.sum").read_text(encoding="utf-8").splitlines()
    found = [match for line in lines if (match := _LINE.fullmatch(line))]
    return [match[2] for match in found if match[1] == product]


def choose_version(product: str, asked: str) -> str:
    """Return the version to install: the requested one, the default for "", or ``none``.

    Raises:
        ValueError: it is not in the list; the text names those that are.
    """
    known = list_versions(product)
    if asked in ("", *known, NONE):
        return asked or known[0]
    variable = f"{product.upper()}_API_VERSION"
    raise ValueError(f"{variable}: has no known checksum (got {asked}); valid: {', '.join(known)}, none")


def fetch(product: str, version: str, target: Path) -> None:
    """Put the module's ``config`` folder at `target`, verified by the checksums of go.sum.

    Raises:
        RuntimeError: Go could not get it, or it is not what go.sum says; Go's own words are in the
            text.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name in ("go.mod", "go.sum"):
            shutil.copyfile(FOLDER / name, Path(folder, name))
        config = _download(f"sigs.k8s.io/{product}@{version}", Path(folder)) / "config"
        if Path(folder, "go.sum").read_bytes() != (FOLDER / "go.sum").read_bytes():
            raise RuntimeError(f"{product} {version}: go.sum has no checksum for it")
        if target.exists():
            shutil.rmtree(target)
        # Go's module cache is read-only; a copy that is to be replaced next time must not be.
        shutil.copytree(config, target, copy_function=shutil.copyfile)
        for path in (target, *target.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)


def add(module: str) -> None:
    """Write a version's checksums into go.sum, as Go's checksum database tells them."""
    _download(module, FOLDER)


def _download(module: str, folder: Path) -> Path:
    # GOTOOLCHAIN=local: no other Go is downloaded for the sake of a copy.
    environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    done = subprocess.run(  # noqa: S603 -- no shell, and the module is checked against a list before
        ["go", "mod", "download", "-json", module],  # noqa: S607 -- whichever Go is first on PATH
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    answer = json.loads(done.stdout) if done.stdout.lstrip().startswith("{") else {}
    if done.returncode or "Error" in answer or "Dir" not in answer:
        raise RuntimeError(f"{module}: {answer.get('Error') or done.stderr.strip() or 'go returned no folder'}")
    return Path(answer["Dir"])


def main() -> int | str:
    """Print a version, check some, fetch one or add one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument(
        "--choose", nargs=2, metavar=("PRODUCT", "VERSION"), help="print the version that VERSION or '' selects"
    )
    action.add_argument("--check", nargs="+", metavar="PRODUCT VERSION", help="fail if one has no checksum")
    action.add_argument("--fetch", nargs=3, metavar=("PRODUCT", "VERSION", "FOLDER"), help="needs go")
    action.add_argument("--add", metavar="MODULE@VERSION", help="needs go")
    chosen = parser.parse_args()
    try:
        if chosen.choose:
            sys.stdout.write(f"{choose_version(*chosen.choose)}\n")
        elif chosen.check:
            for product, version in zip(chosen.check[::2], chosen.check[1::2], strict=True):
                choose_version(product, version)
        elif chosen.fetch:
            product, version, folder = chosen.fetch
            fetch(product, choose_version(product, version), Path(folder))
        else:
            add(chosen.add)
    except (ValueError, RuntimeError) as error:
        return f"error: {error}"
    return 0


if __name__ == "__main__":
    sys.exit(main())
