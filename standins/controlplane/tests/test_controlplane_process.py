"""The server process: its start, its end, the death of one of its parts, and what it refuses."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest

from standins.controlplane.api_client import MERGE, is_refusal, open_api
from standins.controlplane.cache import Build
from standins.controlplane.commands import API_SERVER, CONTROLLERS, ETCD, JOBSET, SCHEDULER
from standins.controlplane.tests.controlplane_worlds import START_SECONDS_MAX, is_alive, wait_for
from standins.processes.free_ports import HOST
from tests.log_records import read_records

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(START_SECONDS_MAX)]

ROOT = Path(__file__).resolve().parents[3]
PARTS = (ETCD, API_SERVER, CONTROLLERS, SCHEDULER, JOBSET)
NAMESPACES = "/api/v1/namespaces"
FAILED, BAD_INPUT = 1, 2
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


def test_it_can_be_ended_while_it_starts(build: Build, tmp_path: Path) -> None:
    server = Server(tmp_path)
    wait_for("the first part", lambda: any(each["message"] == "process ready" for each in server.records()))
    begun = time.monotonic()
    server.process.terminate()

    assert server.process.wait(timeout=END_SECONDS_MAX) == 0
    assert time.monotonic() - begun < QUICK_SECONDS
    assert [each["message"] for each in server.records()][-2:] == [
        "told to end before the start was over",
        "stopped",
    ]
    assert server.leftovers() == []
    assert not server.ports.exists()


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_dies_is_named_with_its_last_lines_and_all_else_ends(
    part: str, build: Build, tmp_path: Path
) -> None:
    with serving(tmp_path) as server:
        pids = server.pids()
        os.kill(pids[part], signal.SIGKILL)

        assert server.process.wait(timeout=END_SECONDS_MAX) == FAILED
    last = server.records()[-1]
    assert last["severity"] == "CRITICAL"
    assert last["message"].startswith(f"the process '{part}' ended with code -9; its last lines were:\n    ")
    assert not any(map(is_alive, pids.values()))
    assert server.leftovers() == []


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


def test_a_taken_port_is_named_and_nothing_is_started(build: Build, tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind((HOST, 0))
        holder.listen()
        port = holder.getsockname()[1]
        refused(
            tmp_path, f"port {port} on {HOST} is in use; name another one, or 0 for a free one", f"--port={port}"
        )


@pytest.mark.parametrize(
    ("names", "complaint", "code"),
    [
        ([], "make one: python -m standins.controlplane build", FAILED),
        (["lws-0.7"], "make one: python -m standins.controlplane build --with lws-0.7", FAILED),
        (["ray"], "controller: ray is not valid; valid: kuberay-1.5, ", BAD_INPUT),
        (["autoscaler-1.33"], "controller: autoscaler-1.33 is built here, but needs a cloud to run", BAD_INPUT),
        (["kuberay-1.5", "kuberay-1.6"], "kuberay-1.5 and kuberay-1.6 cannot run in one cluster", BAD_INPUT),
    ],
    ids=["no build", "not built", "unknown", "needs a cloud", "clash"],
)
def test_what_cannot_be_had_is_refused_before_anything_is_started(
    names: list[str], complaint: str, code: int, build: Build, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    if names:
        (cache / build.folder.name).symlink_to(build.folder)
    options = [f"--cache-folder={cache}", *(f"--with={name}" for name in names)]
    server = refused(tmp_path, complaint, *options, code=code)
    assert "process ready" not in server.log.read_text()


def test_a_part_that_refuses_its_configuration_is_named_and_nothing_is_left(build: Build, tmp_path: Path) -> None:
    # The number of a port, but beyond what the API server accepts for the compaction.
    server = refused(tmp_path, "etcd-compaction-interval", "--compaction-seconds=99999999999999")
    assert server.records()[-1]["message"].startswith("the process 'kube-apiserver' ended with code ")


def refused(folder: Path, complaint: str, *options: str, code: int = FAILED) -> Server:
    """Start a server that ends with an error and this exit code, and return it."""
    server = Server(folder, *options)
    assert server.process.wait(timeout=END_SECONDS_MAX) == code
    assert complaint in server.log.read_text()
    assert server.leftovers() == []
    return server


@pytest.mark.controller("kuberay-1.6")
def test_a_further_controller_is_a_part_like_the_others(build: Build, tmp_path: Path) -> None:
    with serving(tmp_path, "--with=kuberay-1.6") as server:
        pids = server.pids()
        assert set(pids) == {*PARTS, "kuberay-1.6"}
        os.kill(pids["kuberay-1.6"], signal.SIGKILL)

        assert server.process.wait(timeout=END_SECONDS_MAX) == FAILED
    assert server.records()[-1]["message"].startswith("the process 'kuberay-1.6' ended with code -9; its last")
    assert not any(map(is_alive, pids.values()))


def test_two_of_them_run_side_by_side_and_know_nothing_of_each_other(build: Build, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    with (
        serving(folders[0]) as one,
        serving(folders[1]) as two,
        open_api(one.kubeconfig) as first,
        open_api(two.kubeconfig) as second,
    ):
        first.post(NAMESPACES, json={"metadata": {"name": "only-here"}})

        names = [each["metadata"]["name"] for each in second.get(NAMESPACES).json()["items"]]
        assert "only-here" not in names


def test_old_resource_versions_expire_after_the_compaction_that_was_asked_for(
    build: Build, tmp_path: Path
) -> None:
    with serving(tmp_path, "--compaction-seconds=1") as server, open_api(server.kubeconfig) as api:
        made = api.post(NAMESPACES, json={"metadata": {"name": "first"}}).json()
        old = {"resourceVersion": made["metadata"]["resourceVersion"], "resourceVersionMatch": "Exact"}

        def expired() -> bool:
            change = {"metadata": {"labels": {"at": str(time.monotonic_ns())}}}
            api.patch(f"{NAMESPACES}/first", json=change, headers=MERGE)
            try:
                api.get(NAMESPACES, params=old)
            except httpx.HTTPStatusError as error:
                return is_refusal(error, HTTPStatus.GONE)
            return False

        wait_for("410", expired)
