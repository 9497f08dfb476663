"""The server process: its start and its end."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from standins.controlplane.api_client import open_api
from standins.controlplane.cache import Build
from standins.controlplane.commands import API_SERVER, CONTROLLERS, ETCD, JOBSET, SCHEDULER
from standins.controlplane.tests.controlplane_worlds import START_SECONDS_MAX, is_alive, wait_for
from tests.log_records import read_records

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(START_SECONDS_MAX)]

ROOT = Path(__file__).resolve().parents[3]
PARTS = (ETCD, API_SERVER, CONTROLLERS, SCHEDULER, JOBSET)
FAILED = 1
END_SECONDS_MAX = 60
QUICK_SECONDS = 15
"""Three on a machine that does nothing else: each part is asked to end, and killed after a second
and a half."""


class Server:
    """One `serve` and what it wrote."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.ports, self.kubeconfig, self.log = folder / "ports.json", folder / "kubeconfig", folder / "log"
        command = [sys.executable, "-m", "standins.controlplane", "serve", f"--ports-file={self.ports}"]
        command += [f"--kubeconfig-file={self.kubeconfig}", *options]
        environment = os.environ | {"PYTHONWARNINGS": "error", "TMPDIR": str(folder)}
        self.folder = folder
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output, env=environment)

    def wait(self) -> None:
        wait_for("the ports file", lambda: self.ports.exists() or self.process.poll() is not None)
        assert self.process.poll() is None, self.log.read_text()

    def records(self) -> list[dict[str, Any]]:
        return read_records(self.log, among_text=True)

    def pids(self) -> dict[str, int]:
        (found,) = [record["processes"] for record in self.records() if record["message"] == "listening"]
        return dict(found)

    def leftovers(self) -> list[str]:
        return [path.name for path in self.folder.glob("tpu-provisioner-controlplane-*")]


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Server]:
    server = Server(folder, *options)
    try:
        server.wait()
        yield server
    finally:
        if server.process.poll() is None:
            server.process.terminate()
        server.process.wait(timeout=END_SECONDS_MAX)


def test_it_starts_in_seconds_and_ends_quickly(build: Build, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        pids = server.pids()
        assert set(pids) == set(PARTS)
        with open_api(server.kubeconfig) as api:
            assert api.get("/version").json()["gitVersion"] == "v1.34.4"
            assert api.get("/apis/jobset.x-k8s.io/v1alpha2/jobsets").json()["items"] == []
        assert server.kubeconfig.stat().st_mode & 0o077 == 0
        begun = time.monotonic()
        server.process.terminate()

        assert server.process.wait(timeout=END_SECONDS_MAX) == 0
        assert time.monotonic() - begun < QUICK_SECONDS
    assert server.records()[-1]["message"] == "stopped"
    assert not any(map(is_alive, pids.values()))
    assert server.leftovers() == []
    assert not server.ports.exists()
    assert not server.kubeconfig.exists()


def test_nothing_outlives_a_server_that_was_killed(build: Build, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        pids = server.pids()
        server.process.kill()

        wait_for("the end of every process", lambda: not any(map(is_alive, pids.values())))
    assert len(server.leftovers()) == 1
    (abandoned,) = server.leftovers()
    server.ports.unlink()
    with serving(tmp_path) as following:
        assert abandoned not in following.leftovers()
    assert following.leftovers() == []
