"""A container engine for the image's tests: the running one, or an own one that ends with them.

An engine that runs is taken to reach the registries, and builds on the real bases. An own one
cannot pull, so bases of Debian's packages are made for it: the same Python, and the wheels that pip
would fetch.
"""

import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.image.image_text import ROOT
from tests.image.own_engine import run_engine
from tests.program_runs import run_program, run_python

NEEDED = (
    "the tests marked `image` need a running Docker engine that can pull, or as root the programs docker, dockerd "
    "and mmdebstrap (Debian: apt install docker.io mmdebstrap)"
)
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
"""pip reads it at its start, even if it fetches nothing."""
DEBIAN = "trixie"
"""Whose Python is that of the real bases: 3.13."""
PACKAGES = {
    "BUILDER": "python3,python3-pip,base-files",
    # Google's Python image is based on its `cc` image, which has the C++ library that gRPC needs:
    # https://github.com/GoogleContainerTools/distroless/blob/main/python3/python.bzl
    "RUNTIME": "python3-minimal,libpython3-stdlib,libstdc++6,libgcc-s1,base-files",
}
IMAGE = "tpu-provisioner-exporter-under-test"


@dataclass(frozen=True, slots=True)
class Engine:
    """Where an engine is, and what it builds on."""

    host: str
    bases: dict[str, str] = field(default_factory=dict)
    """Build arguments; empty for the Dockerfile's own."""

    def run(self, *arguments: str, seconds: float = 150) -> str:
        """Return what a docker command prints; it must succeed."""
        # The older builder is in every engine; the newer one is a plugin that may be absent.
        environ = os.environ | {"DOCKER_HOST": self.host, "DOCKER_BUILDKIT": "0"}
        return run_program("docker", *arguments, env=environ, seconds=seconds, succeeds=True).stdout

    def build(self) -> None:
        """Build the exporter's image as the deployment does."""
        bases = [f"--build-arg={name}={image}" for name, image in self.bases.items()]
        file = f"--file={ROOT / 'exporter/Dockerfile'}"
        self.run("build", "--network=host", *bases, file, f"--tag={IMAGE}", str(ROOT))


@contextmanager
def find_engine() -> Iterator[Engine]:
    """Give the running engine, or one that lives as long as the block."""
    if shutil.which("docker") is None:
        pytest.fail(NEEDED)
    running = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    command = ["docker", "--host", running, "version", "--format", "{{.Server.Version}}"]
    if subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0:
        yield Engine(running)
        return
    if os.geteuid() != 0 or not (shutil.which("dockerd") and shutil.which("mmdebstrap")):
        pytest.fail(NEEDED)
    with tempfile.TemporaryDirectory(prefix="image-engine-") as folder, run_engine(Path(folder)) as host:
        tags = {name: f"base-{name.lower()}" for name in PACKAGES}
        yield Engine(host, {name: make_base(Engine(host), name, Path(folder), tag) for name, tag in tags.items()})


def unpack(packages: str, target: Path) -> None:
    """Unpack Debian's packages, with those that they need, into a folder or an archive."""
    command = ["mmdebstrap", "--mode=root", "--variant=extract", f"--include={packages}", DEBIAN, str(target)]
    mirror = f"deb http://deb.debian.org/debian {DEBIAN} main"
    subprocess.run([*command, mirror], check=True, capture_output=True, timeout=120)


def make_base(engine: Engine, name: str, folder: Path, tag: str) -> str:
    """Make a base of Debian's packages, and return its tag."""
    tar, wheels = folder / f"{name}.tar", folder / "wheels"
    unpack(PACKAGES[name], tar)
    if name == "BUILDER":
        options = ("--no-deps", "--only-binary=:all:", "--python-version=3.13", f"--dest={wheels}")
        listed = f"--requirement={ROOT / 'exporter/requirements.txt'}"
        run_python("-m", "pip", "download", *options, listed, succeeds=True)
        with tarfile.open(tar, "a") as opened:
            opened.add(wheels, arcname="./wheels")
            opened.add(CERTIFICATES.resolve(), arcname=f".{CERTIFICATES}")
    changes = ["--change=ENV PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels", "--change=ENV PATH=/usr/bin"]
    engine.run("import", *changes, str(tar), tag)
    return tag
