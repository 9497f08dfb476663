"""Plays the script on both clusters side by side and returns what was seen of each."""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from shared.edges.kubernetes_api import KubernetesApi
from shared.edges.kubernetes_connection import connection_from_kubeconfig
from standins.processes.child import Child, Command, describe_last_words
from standins.processes.kubeconfig import open_client
from tests.differential.differential_observer import Observer
from tests.differential.differential_scenes import play
from tests.differential.differential_stage import Stage
from tests.differential.differential_traces import Trace, read_trace

ROOT = Path(__file__).resolve().parents[2]
SPEED = 1
"""Of the embedded cluster: its time passes as the real one's does."""
_START_SECONDS_MAX = 90.0
_END_SECONDS = 3.0


def play_on_both(real_kubeconfig: Path, folder: Path) -> tuple[Trace, Trace]:
    """Return the traces of the embedded cluster, which runs in a folder, and of a real one."""
    kubeconfig = folder / "kubeconfig"
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        embedded = _start_embedded(folder, kubeconfig)
        stack.callback(embedded.end, _END_SECONDS)
        both = [pool.submit(_play_on, each) for each in (kubeconfig, real_kubeconfig)]
        one, other = (each.result() for each in both)
    return one, other


def _play_on(kubeconfig: Path) -> Trace:
    api = KubernetesApi(connection_from_kubeconfig(kubeconfig), user_agent="differential-test")
    with ExitStack() as stack:
        stack.callback(api.close)
        http = stack.enter_context(open_client(kubeconfig, timeout_seconds=30))
        for node in http.get("/api/v1/nodes").raise_for_status().json()["items"]:
            http.delete(f"/api/v1/nodes/{node['metadata']['name']}").raise_for_status()
        observer = stack.enter_context(Observer(api))
        stage = Stage(kubeconfig, http, observer)
        play(stage)
    return read_trace(observer.sights, stage.answers)


def _start_embedded(folder: Path, kubeconfig: Path) -> Child:
    ports, log = folder / "ports.json", folder / "cluster.log"
    arguments = [sys.executable, "-m", "standins.cluster", "serve", "--speed", str(SPEED)]
    arguments += ["--ports-file", str(ports), "--kubeconfig-file", str(kubeconfig)]
    child = Child(Command(name="cluster", arguments=tuple(arguments), folder=ROOT), log)
    deadline = time.monotonic() + _START_SECONDS_MAX
    while not (ports.exists() and json.loads(ports.read_text())):
        assert child.exit_code is None, f"the embedded cluster ended; {describe_last_words(log, 10)}"
        assert time.monotonic() < deadline, f"the embedded cluster was not ready within {_START_SECONDS_MAX} s"
        time.sleep(0.02)
    return child
