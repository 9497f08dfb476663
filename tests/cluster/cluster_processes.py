"""The cluster as a process of its own, and the official client of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import kubernetes

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 20.0


@dataclass(frozen=True)
class RunningCluster:
    url: str
    kubeconfig: Path
    process: subprocess.Popen[bytes]


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not path.exists():
        assert process.poll() is None, f"the process ended with {process.returncode} before it was ready"
        assert time.monotonic() < deadline, f"{path} was not written within {START_SECONDS} s"
        time.sleep(0.02)


@contextmanager
def running_cluster(folder: Path, *options: str) -> Iterator[RunningCluster]:
    ports, kubeconfig = folder / "ports.json", folder / "kubeconfig"
    command = [sys.executable, "-m", "local.cluster", "serve", "--ports-file", str(ports)]
    command += ["--kubeconfig-file", str(kubeconfig), *options]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, env=os.environ | {"PYTHONWARNINGS": "error"}
    )
    try:
        wait_for(ports, process)
        yield RunningCluster(json.loads(ports.read_text())["url"], kubeconfig, process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=5)


@contextmanager
def api_client(cluster: RunningCluster) -> Iterator[kubernetes.client.ApiClient]:
    client = kubernetes.config.new_client_from_config(config_file=str(cluster.kubeconfig))
    with client:
        yield client
