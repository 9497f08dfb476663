"""The container engine that runs here, for the tests of the exporter's image."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.program_runs import run_program

ROOT = Path(__file__).resolve().parents[2]
NEEDED = "the tests marked `image` need a running Docker engine that can pull"
IMAGE = "tpu-provisioner-exporter-under-test"


@dataclass(frozen=True, slots=True)
class Engine:
    """Where an engine is."""

    host: str

    def run(self, *arguments: str, seconds: float = 150) -> str:
        """Return what a docker command prints; it must succeed."""
        # The older builder is in every engine; the newer one is a plugin that may be absent.
        environ = os.environ | {"DOCKER_HOST": self.host, "DOCKER_BUILDKIT": "0"}
        return run_program("docker", *arguments, env=environ, seconds=seconds, succeeds=True).stdout

    def build(self) -> None:
        """Build the exporter's image as the deployment does."""
        file = f"--file={ROOT / 'exporter/Dockerfile'}"
        self.run("build", "--network=host", file, f"--tag={IMAGE}", str(ROOT))


def find_engine() -> Engine:
    """Return the running engine, or fail the test with what to do."""
    if shutil.which("docker") is None:
        pytest.fail(NEEDED)
    running = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    command = ["docker", "--host", running, "version", "--format", "{{.Server.Version}}"]
    if subprocess.run(command, capture_output=True, timeout=30, check=False).returncode:
        pytest.fail(NEEDED)
    return Engine(running)
