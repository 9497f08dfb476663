"""`up`, `status`, `env`, `down`, on both clusters: a stack outlives the command that started it."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from typer.testing import CliRunner

from demo import parts
from demo.background import NothingRuns, read_state
from demo.commands import app
from demo.settings import CLUSTER_PATH, Addresses, ClusterKind, Layout, StackSettings, State
from demo.tests.local_commands import TEST_SECONDS_MAX, find_processes, list_processes, run, start
from standins.kit.kubernetes import open_client
from standins.kit.processes import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(TEST_SECONDS_MAX)]
PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "jobset")
LOGS_LEFT = {ClusterKind.EMBEDDED: [], ClusterKind.REAL: sorted(["logs", *(f"{part}.log" for part in PARTS)])}
ADDRESSES = Addresses(
    kubernetes="https://127.0.0.1:1",
    kubeconfig="kubeconfig",
    google_rest="http://127.0.0.1:2",
    pubsub_grpc="127.0.0.1:3",
    functions={"provision": "http://127.0.0.1:4/", "collect": "http://127.0.0.1:5/"},
    exporter="http://127.0.0.1:6",
)
PROCESSES_MAX = 10  # of a running stack on the embedded cluster, its supervisor included


class Place:
    """A folder for one stack at a time, and the commands about it."""

    def __init__(self, folder: Path, kind: ClusterKind) -> None:
        self.folder, self.kind = folder, kind
        self.layout = Layout(folder / "home")

    def call(self, command: str, *options: str) -> subprocess.CompletedProcess[str]:
        return run(self.folder, command, f"--home={self.layout.home}", *options)

    def up(self) -> State:
        """Bring a stack up unless one runs."""
        answer = self.call("up", "--speed=60", f"--cluster={self.kind}")
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return read_state(self.layout)

    def hold_start(self) -> bool:
        """Stop the process that a start waits for first, so that it cannot end.

        Return whether it is there.
        """
        name = {"embedded": "standins.cluster", "real": "standins.controlplane"}[self.kind]
        for process in find_processes(self.folder):
            with contextlib.suppress(psutil.Error):
                if name in process.cmdline():
                    process.suspend()
                    return True
        return False

    def processes(self) -> list[str]:
        return list_processes(self.folder)


@pytest.fixture(scope="module")
def place(cluster_kind: ClusterKind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("stack"), cluster_kind)
    yield place
    place.call("down")


def test_a_stack_stays_up_is_reachable_and_restarts_what_died(place: Place) -> None:
    state = place.up()
    assert state.settings.cluster is place.kind
    assert "runs in" in place.call("up").stdout
    lines = place.call("env").stdout.splitlines()
    variables = dict(line.removeprefix("export ").split("=", 1) for line in lines)
    with open_client(variables["KUBECONFIG"]) as client:
        assert client.get("/api/v1/secrets").status_code == httpx.codes.OK
    gke = variables["CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER"]
    assert httpx.get(f"{gke}v1/{CLUSTER_PATH}").is_success
    if place.kind is ClusterKind.EMBEDDED:
        assert len(place.processes()) <= PROCESSES_MAX
    status = place.call("status")
    assert status.returncode == 0
    assert all(each.name in status.stdout for each in state.processes)
    exporter = next(each for each in state.processes if each.name == "exporter")
    os.kill(exporter.pid, signal.SIGKILL)
    wait_until(lambda: any(each.restarts for each in read_state(place.layout).processes), what="a new exporter")


def test_a_killed_supervisor_leaves_nothing_running_and_the_next_stack_nothing_at_all(place: Place) -> None:
    before = place.up()
    os.kill(before.supervisor_pid, signal.SIGKILL)
    status = place.call("status")
    assert status.returncode == 1
    assert "is gone (its supervisor ended); start it with: make up" in status.stderr
    wait_until(lambda: place.processes() == [], what="the end of every process")
    assert "is gone" in place.call("down").stdout
    after, kept = place.up().addresses, before.addresses
    assert (after.functions, after.exporter, after.google_rest) == (
        kept.functions,
        kept.exporter,
        kept.google_rest,
    )
    if place.kind is ClusterKind.EMBEDDED:  # a real control plane has several ports, and chooses them
        assert after.kubernetes == kept.kubernetes
    assert "The stack is down" in place.call("down").stdout
    assert place.processes() == []
    with pytest.raises(NothingRuns, match="no stack runs in"):
        read_state(place.layout)
    assert sorted(path.name for path in place.layout.control_plane.rglob("*")) == LOGS_LEFT[place.kind]
    assert not place.layout.accounts.exists()


@pytest.mark.parametrize("end", ["ctrl-c", "down"])
def test_a_start_can_be_broken_off_and_leaves_nothing(cluster_kind: ClusterKind, end: str, tmp_path: Path) -> None:
    place = Place(tmp_path, cluster_kind)
    arguments = ("up", f"--home={place.layout.home}", f"--cluster={cluster_kind}")
    with start(tmp_path, *arguments) as up:
        wait_until(place.hold_start, what="the first process of the stack")
        assert "is being started or ended" in place.call("up").stdout
        if end == "down":
            assert "The stack is down" in place.call("down").stdout
        else:
            up.send_signal(signal.SIGINT)
        assert up.stdout is not None
        output = up.stdout.read()
    assert (up.returncode, place.processes()) == ({"ctrl-c": 130, "down": 1}[end], [])
    assert {"ctrl-c": "interrupted", "down": "the stack did not start"}[end] in output
    assert "Traceback" not in output
    with pytest.raises(NothingRuns, match="no stack runs in"):
        read_state(place.layout)


@pytest.mark.parametrize(("command", "code"), [("status", 1), ("env", 1), ("down", 0)])
def test_without_a_stack_each_command_says_so(tmp_path: Path, command: str, code: int) -> None:
    answer = CliRunner().invoke(app, [command, f"--home={tmp_path}"])
    assert answer.exit_code == code
    assert "no stack runs in" in answer.output


@pytest.mark.parametrize("kind", ClusterKind)
def test_each_part_has_an_account_of_its_own_where_there_are_accounts(kind: ClusterKind, tmp_path: Path) -> None:
    layout, settings, real = Layout(tmp_path), StackSettings(cluster=kind), kind is ClusterKind.REAL
    exporter = parts.exporter(layout, settings, ADDRESSES).environment
    clusters = parts.function(layout, settings, "collect", ADDRESSES).environment["TPU_PROVISIONER_CLUSTERS"]
    own = {name: str(tmp_path / f"accounts/tpu-provisioner-{name}.token") for name in ("exporter", "collect")}

    assert exporter.get("TPU_PROVISIONER_TOKEN_FILE") == (own["exporter"] if real else None)
    assert json.loads(clusters)[CLUSTER_PATH].get("token_file") == (own["collect"] if real else None)
