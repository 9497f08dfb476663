"""A container engine for the image's tests: the one that runs, or one of the test's own that ends with it.

An engine that runs is taken to reach the registries, and builds on the real bases. An own one cannot pull, so
bases of Debian's packages are made for it: the same Python, and the certificates of this machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from image_text import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

NEEDED = (
    "the tests marked `image` need a running Docker engine that can pull, or as root the programs docker, dockerd "
    "and mmdebstrap (Debian: apt install docker.io mmdebstrap)"
)
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
DEBIAN = "trixie"
"""Whose Python is that of the real bases."""
PACKAGES = {
    "BUILDER": "python3,python3-pip,base-files",
    "RUNTIME": "python3-minimal,libpython3-stdlib,base-files",
}
IMAGE = "tpu-provisioner-exporter-under-test"
START_SECONDS_MAX = 30.0


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
        done = subprocess.run(
            ["docker", *arguments], env=environ, capture_output=True, text=True, timeout=seconds, check=False
        )
        assert done.returncode == 0, f"docker {' '.join(arguments)}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        return done.stdout

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
    with tempfile.TemporaryDirectory(prefix="image-engine-") as folder, _own_engine(Path(folder)) as engine:
        yield Engine(engine.host, {name: _make_base(engine, name, Path(folder)) for name in PACKAGES})


@contextmanager
def _own_engine(folder: Path) -> Iterator[Engine]:
    """Run an engine that touches nothing outside of its folder: no bridge, no rules of the firewall."""
    engine = Engine(f"unix://{folder}/socket")
    command = ["dockerd", f"--host={engine.host}", "--bridge=none", "--iptables=false", "--ip6tables=false"]
    command += [f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"]
    log = folder / "log"
    with log.open("wb") as output:
        daemon = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + START_SECONDS_MAX
        while not (folder / "socket").exists():
            assert daemon.poll() is None, f"dockerd ended:\n{log.read_text()[-2000:]}"
            assert time.monotonic() < deadline, f"dockerd is not there:\n{log.read_text()[-2000:]}"
            time.sleep(0.1)
        engine.run("version")
        yield engine
    finally:
        daemon.terminate()
        daemon.wait(timeout=30)
        _unmount(folder)


def _unmount(folder: Path) -> None:
    """Take away what an engine leaves mounted: the network that its containers shared with this machine."""
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for path in sorted((each for each in mounted if each.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", path], check=True, capture_output=True, timeout=30)


def _make_base(engine: Engine, name: str, folder: Path) -> str:
    """Make a base of Debian's packages and return its name."""
    tar, tag = folder / f"{name}.tar", f"base-{name.lower()}"
    mirror = f"deb http://deb.debian.org/debian {DEBIAN} main"
    command = ["mmdebstrap", "--mode=root", "--variant=extract", f"--include={PACKAGES[name]}"]
    subprocess.run([*command, DEBIAN, str(tar), mirror], check=True, capture_output=True, timeout=120)
    with tarfile.open(tar, "a") as opened:
        opened.add(CERTIFICATES.resolve(), arcname=f".{CERTIFICATES}")
    changes = [f"--change=ENV PIP_CERT={CERTIFICATES} SSL_CERT_FILE={CERTIFICATES}", "--change=ENV PATH=/usr/bin"]
    engine.run("import", *changes, str(tar), tag)
    return tag
