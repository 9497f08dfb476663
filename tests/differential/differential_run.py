"""Plays the script on both clusters side by side and returns what was seen of each."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from cli.access.kubeconfig import connection_from_kubeconfig
from shared.edges.kubernetes import KubernetesApi
from standins.kit.kubernetes import open_client
from standins.kit.processes import running_stand_in
from tests.differential.differential_observer import Observer
from tests.differential.differential_scenes import play
from tests.differential.differential_stage import Stage
from tests.differential.differential_traces import Trace, read_trace

SPEED = 1
"""Of the embedded cluster: its time passes as the real one's does."""


def play_on_both(real_kubeconfig: Path, folder: Path) -> tuple[Trace, Trace]:
    """Return the traces of the embedded cluster, which runs in a folder, and of a real one."""
    kubeconfig = folder / "kubeconfig"
    options = ("--speed", str(SPEED), "--kubeconfig-file", str(kubeconfig))
    with running_stand_in(folder, "standins.cluster", *options), ThreadPoolExecutor(2) as pool:
        embedded, real = pool.map(_play_on, (kubeconfig, real_kubeconfig))
    return embedded, real


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
