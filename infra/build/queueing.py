#!/usr/bin/env python3
"""Fetches the manifests of JobSet or Kueue from its published Go module, by a checksum.

The module proxy serves a module as a zip, and Go's checksum database vouches for its content: the
line of third_party/go.sum (docs/decisions/deployment.md). Writes a kustomize folder that has the
release's image, because in the module it is that of its developers.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import sys
import urllib.request
import zipfile
from pathlib import Path

SUMS = Path(__file__).resolve().parent / "third_party/go.sum"
PROXY = "https://proxy.golang.org"


def hash_module(archive: zipfile.ZipFile) -> str:
    """Return Go's hash of a module's content: https://pkg.go.dev/golang.org/x/mod/sumdb/dirhash."""
    names = sorted(each for each in archive.namelist() if not each.endswith("/"))
    lines = (f"{hashlib.sha256(archive.read(name)).hexdigest()}  {name}\n" for name in names)
    return "h1:" + base64.b64encode(hashlib.sha256("".join(lines).encode()).digest()).decode()


def find_sum(product: str, version: str) -> str:
    """Return the checksum of a version.

    Raises:
        ValueError: it has none; the text names the versions that have one.
    """
    rows = [line.split() for line in SUMS.read_text(encoding="utf-8").splitlines()]
    sums = {row[1]: row[2] for row in rows if row[0] == f"sigs.k8s.io/{product}" and "/" not in row[1]}
    if version not in sums:
        raise ValueError(f"{product}: {version} has no known checksum; valid: {', '.join(sums)}, none")
    return sums[version]


def unpack(content: bytes, product: str, version: str, folder: Path) -> None:
    """Write the module's ``config`` and the kustomization around it.

    Raises:
        ValueError: the content is not what the checksum says.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if hash_module(archive) != find_sum(product, version):
            raise ValueError(f"{product} {version}: the module proxy served something else than go.sum says")
        prefix = f"sigs.k8s.io/{product}@{version}/"
        for name in archive.namelist():
            if name.startswith(f"{prefix}config/"):
                target = folder / name.removeprefix(prefix)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(name))
    image = {
        "name": f"us-central1-docker.pkg.dev/k8s-staging-images/{product}/{product}",
        "newName": f"registry.k8s.io/{product}/{product}",
        "newTag": version,
    }
    content_of_file = {"resources": ["config/default"], "images": [image]}
    (folder / "kustomization.yaml").write_text(json.dumps(content_of_file), encoding="utf-8")


def main() -> int | str:
    """Fetch one; the arguments are product, version and folder."""
    product, version, folder = sys.argv[1:]
    proxy = os.environ.get("MODULE_PROXY", PROXY)
    try:
        find_sum(product, version)
        with urllib.request.urlopen(f"{proxy}/sigs.k8s.io/{product}/@v/{version}.zip", timeout=60) as answer:  # noqa: S310 -- a constant, or a test's
            unpack(answer.read(), product, version, Path(folder))
    except (ValueError, OSError) as error:
        return f"error: {error}"
    return 0


if __name__ == "__main__":
    sys.exit(main())
