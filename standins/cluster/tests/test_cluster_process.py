"""Whole runs with the kubelet on each of the two clusters; the end of the process."""

import asyncio
import errno
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from standins.cluster.__main__ import application
from standins.cluster.server import Settings, serve
from standins.cluster.tests.cluster_objects import jobset, node, replicated_job
from standins.cluster.tests.cluster_processes import (
    REQUEST_SECONDS,
    WARNINGS_FAIL,
    BreakableCluster,
    running_cluster,
)
from standins.processes.child import Command
from standins.processes.free_ports import PortTaken
from standins.processes.kubeconfig import open_client
from standins.processes.private_files import NotWritten
from standins.processes.stand_ins import PATIENCE_SECONDS, ROOT, running, wait_until

Json = dict[str, Any]

LOCAL = "local.tpu-provisioner/"


@contextmanager
def running_kubelet(kubeconfig: Path, folder: Path) -> Iterator[None]:
    """The kubelet, three hundred times as fast as its pods believe; its log is in the folder."""
    arguments = (sys.executable, "-m", "standins.kubelet", "--kubeconfig", str(kubeconfig), "--speed", "300")
    command = Command(name="kubelet", arguments=arguments, folder=ROOT, environment=WARNINGS_FAIL)
    with running(command, folder, lambda: True) as child:
        yield
    assert child.exit_code == 0


def annotated(replicated: Json, **annotations: str) -> Json:
    template = replicated["template"]["spec"]["template"]
    template["metadata"] = {
        "annotations": {f"{LOCAL}{key.replace('_', '-')}": value for key, value in annotations.items()}
    }
    return replicated


@dataclass(frozen=True)
class Place:
    """A namespace with pools of its own, seen from outside."""

    http: httpx.Client
    namespace: str

    def add_pool(self, pool: str, nodes: int) -> None:
        for index in range(nodes):
            self.http.post("/api/v1/nodes", json=node(f"{self.namespace}-{pool}", index)).raise_for_status()

    def remove_pool(self, pool: str, nodes: int) -> None:
        for index in range(nodes):
            self.http.delete(f"/api/v1/nodes/{self.namespace}-{pool}-{index}").raise_for_status()

    def submit(self, body: Json) -> None:
        self.http.post(self._jobsets, json=body).raise_for_status()

    def remove(self, name: str) -> None:
        self.http.delete(f"{self._jobsets}/{name}").raise_for_status()

    def status(self, name: str = "train") -> Json:
        return dict(self.http.get(f"{self._jobsets}/{name}").json().get("status", {}))

    def wait_for(self, terminal_state: str, name: str = "train") -> None:
        wait_until(lambda: self.status(name).get("terminalState") == terminal_state)

    def phases(self) -> list[str]:
        pods = self.http.get(f"/api/v1/namespaces/{self.namespace}/pods").json()["items"]
        return [item["status"]["phase"] for item in pods]

    def wait_for_phases(self, *phases: str) -> None:
        wait_until(lambda: self.phases() == list(phases))

    @property
    def _jobsets(self) -> str:
        return f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{self.namespace}/jobsets"


@pytest.fixture
def place(http: httpx.Client, namespace: str) -> Place:
    return Place(http, namespace)


def test_a_jobset_runs_from_submission_to_completion(kubeconfig: Path, place: Place, tmp_path: Path) -> None:
    log = tmp_path / "kubelet.log"
    with running_kubelet(kubeconfig, tmp_path):
        place.submit(jobset("train", replicated_job(replicas=2, pods=3)))
        place.wait_for_phases("Pending", "Pending")
        place.add_pool("a", 3)
        place.add_pool("b", 3)

        place.wait_for("Completed")

        assert place.phases() == ["Succeeded"] * 6
        # A state is logged after it was written.
        wait_until(lambda: log.read_text().count('"phase": "Succeeded"') == 6)
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert {"message", "severity", "time"} <= set(records[0])
    assert sum(r["message"] == "pod state" and r["phase"] == "Succeeded" for r in records) == 6


def test_the_kubelet_survives_drops_and_lost_history(breakable: BreakableCluster, tmp_path: Path) -> None:
    with running_kubelet(breakable.kubeconfig, tmp_path):
        with open_client(breakable.kubeconfig, timeout_seconds=REQUEST_SECONDS) as http:
            place = Place(http, "default")
            place.add_pool("a", 2)
            place.submit(jobset("first", replicated_job()))
            place.wait_for("Completed", "first")
            place.remove("first")
        breakable.forget_history()

        with open_client(breakable.kubeconfig, timeout_seconds=REQUEST_SECONDS) as http:
            place = Place(http, "default")
            place.submit(jobset("train", annotated(replicated_job(), run_seconds="900")))
            wait_until(lambda: "Running" in place.phases())
        breakable.break_off_watches()

        with open_client(breakable.kubeconfig, timeout_seconds=REQUEST_SECONDS) as http:
            Place(http, "default").wait_for("Completed")


def test_a_deleted_pod_is_stopped_within_its_grace_and_removed(
    kubeconfig: Path, place: Place, tmp_path: Path
) -> None:
    place.add_pool("a", 2)
    with running_kubelet(kubeconfig, tmp_path):
        place.submit(jobset("train", annotated(replicated_job(), run_seconds="90000")))
        place.wait_for_phases("Running", "Running")
        place.remove("train")

        place.wait_for_phases()

    jobs = f"/apis/batch/v1/namespaces/{place.namespace}/jobs"
    wait_until(lambda: not place.http.get(jobs).json()["items"])


def test_a_pod_whose_node_is_gone_does_not_report_success(kubeconfig: Path, place: Place, tmp_path: Path) -> None:
    log = tmp_path / "kubelet.log"
    place.add_pool("a", 2)
    with running_kubelet(kubeconfig, tmp_path):
        # Eight seconds, and not so few that the pods end before their nodes go.
        place.submit(jobset("train", annotated(replicated_job(), run_seconds="2400")))
        place.wait_for_phases("Running", "Running")
        place.remove_pool("a", 2)

        # They are removed after 40 s, on the embedded cluster before they would have ended.
        wait_until(
            lambda: log.read_text().count("pod lost with its node") == 2 or place.status().get("terminalState")
        )

    assert place.status().get("terminalState") in {None, "Failed"}
    assert '"phase": "Succeeded"' not in log.read_text()


def test_the_cluster_ends_quickly_although_a_watch_is_open(tmp_path: Path) -> None:
    """On the embedded cluster only; for the real one see standins/controlplane/tests."""
    with (
        running_cluster(tmp_path) as cluster,
        httpx.Client(base_url=cluster.url, trust_env=False) as http,
        http.stream("GET", "/api/v1/pods", params={"watch": "true"}) as answer,
    ):
        answer.raise_for_status()
        assert cluster.child.end(PATIENCE_SECONDS), "the watch would go on for half an hour"
        assert cluster.child.exit_code == 0
        assert list(answer.iter_lines()) == []


def test_a_server_that_cannot_say_where_it_is_ends(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(NotWritten, match=r"ports\.json cannot be written \(Not a directory\); valid: "):
        asyncio.run(serve(Settings(ports_file=tmp_path / "file" / "ports.json")))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PortTaken("port 1 cannot be used"), 2),
        (NotWritten(ROOT, OSError(errno.ENOSPC, "No space left on device")), 2),
        (OSError(errno.ENOSPC, "No space left on device"), 1),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 1),
    ],
    ids=["a port", "a file", "the disk is full later", "nobody reads its log"],
)
def test_only_what_stops_the_start_is_told_as_a_wrong_argument(
    monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    def fail(_settings: Settings) -> None:
        raise error

    monkeypatch.setattr("standins.cluster.__main__.serve", fail)

    result = CliRunner().invoke(application, ["serve"])

    assert (result.exit_code, result.stderr.startswith("error: ")) == (code, code == 2)
