"""The kubelet with each of the two clusters, many pods at once, and how the embedded cluster's process ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from bounded_polling import wait_until
from cluster_objects import jobset, node, replicated_job
from cluster_processes import END_SECONDS, REQUEST_SECONDS, ROOT, BreakableCluster, running_cluster

from local.kubelet.connection import KubeconfigError, open_client
from local.stack.access import open_kubernetes
from local.stack.clusters import ClusterKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Json = dict[str, Any]

LOCAL = "local.tpu-provisioner/"
SECONDS = 90.0
QUICK_SECONDS = 15.0
"""A second on a machine that does nothing else; a watch goes on for minutes."""
MANY = {ClusterKind.EMBEDDED: 2_000, ClusterKind.REAL: 500}
"""Pods of one Job: to each what it creates in a few seconds."""


@contextmanager
def running_kubelet(kubeconfig: Path, log: Path) -> Iterator[None]:
    """The kubelet, three hundred times as fast as its pods believe."""
    command = [sys.executable, "-m", "local.kubelet", "--kubeconfig", str(kubeconfig), "--speed", "300"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, env=os.environ | {"PYTHONWARNINGS": "error"})
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=END_SECONDS) == 0


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
        return self.http.get(f"{self._jobsets}/{name}").json().get("status", {})

    def wait_for(self, terminal_state: str, name: str = "train") -> None:
        wait_until(lambda: self.status(name).get("terminalState") == terminal_state, seconds=SECONDS)

    def phases(self) -> list[str]:
        pods = self.http.get(f"/api/v1/namespaces/{self.namespace}/pods").json()["items"]
        return [item["status"]["phase"] for item in pods]

    def wait_for_phases(self, *phases: str) -> None:
        wait_until(lambda: self.phases() == list(phases), seconds=SECONDS)

    @property
    def _jobsets(self) -> str:
        return f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{self.namespace}/jobsets"


@pytest.fixture
def place(http: httpx.Client, namespace: str) -> Place:
    return Place(http, namespace)


def test_a_jobset_runs_from_submission_to_completion(kubeconfig: Path, place: Place, tmp_path: Path):
    log = tmp_path / "kubelet.log"
    with running_kubelet(kubeconfig, log):
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


@pytest.mark.parametrize(
    ("annotations", "restarts", "end"),
    [
        ({"exit_code": "1"}, 2, "Failed"),
        ({"fail_attempts": "1"}, 1, "Completed"),
        ({"fail_attempts": "2", "run_seconds": "5"}, 2, "Completed"),
    ],
)
def test_annotations_decide_how_pods_end(
    kubeconfig: Path, place: Place, tmp_path: Path, annotations: dict[str, str], restarts: int, end: str
):
    place.add_pool("a", 2)
    with running_kubelet(kubeconfig, tmp_path / "kubelet.log"):
        place.submit(jobset("train", annotated(replicated_job(), **annotations), failurePolicy={"maxRestarts": 2}))

        place.wait_for(end)

    assert place.status()["restarts"] == restarts


def test_the_kubelet_survives_drops_and_lost_history(breakable: BreakableCluster, tmp_path: Path):
    with running_kubelet(breakable.kubeconfig, tmp_path / "kubelet.log"):
        with open_kubernetes(breakable.kubeconfig, timeout_seconds=REQUEST_SECONDS) as http:
            place = Place(http, "default")
            place.add_pool("a", 2)
            place.submit(jobset("first", replicated_job()))
            place.wait_for("Completed", "first")
            place.remove("first")
        breakable.forget_history()

        with open_kubernetes(breakable.kubeconfig, timeout_seconds=REQUEST_SECONDS) as http:
            place = Place(http, "default")
            place.submit(jobset("train", annotated(replicated_job(), run_seconds="900")))
            wait_until(lambda: "Running" in place.phases(), seconds=SECONDS)
        breakable.break_off_watches()

        with open_kubernetes(breakable.kubeconfig, timeout_seconds=REQUEST_SECONDS) as http:
            Place(http, "default").wait_for("Completed")


def test_a_deleted_pod_is_stopped_within_its_grace_and_removed(kubeconfig: Path, place: Place, tmp_path: Path):
    place.add_pool("a", 2)
    with running_kubelet(kubeconfig, tmp_path / "kubelet.log"):
        place.submit(jobset("train", annotated(replicated_job(), run_seconds="90000")))
        place.wait_for_phases("Running", "Running")
        place.remove("train")

        place.wait_for_phases()

    jobs = f"/apis/batch/v1/namespaces/{place.namespace}/jobs"
    wait_until(lambda: not place.http.get(jobs).json()["items"], seconds=SECONDS)


def test_a_pod_whose_node_has_gone_does_not_report_success(kubeconfig: Path, place: Place, tmp_path: Path):
    log = tmp_path / "kubelet.log"
    place.add_pool("a", 2)
    with running_kubelet(kubeconfig, log):
        # Eight seconds, and not so few that the pods end before their nodes go.
        place.submit(jobset("train", annotated(replicated_job(), run_seconds="2400")))
        place.wait_for_phases("Running", "Running")
        place.remove_pool("a", 2)

        # Such pods are removed after 40 s: on the embedded cluster these pass before the pods would have ended.
        wait_until(
            lambda: log.read_text().count("pod lost with its node") == 2 or place.status().get("terminalState"),
            seconds=SECONDS,
        )

    assert place.status().get("terminalState") in {None, "Failed"}
    assert '"phase": "Succeeded"' not in log.read_text()


def test_the_cluster_ends_quickly_although_a_watch_is_open(tmp_path: Path):
    with (
        running_cluster(tmp_path) as cluster,
        httpx.Client(base_url=cluster.url, trust_env=False) as http,
        http.stream("GET", "/api/v1/pods", params={"watch": "true"}) as answer,
    ):
        answer.raise_for_status()
        begun = time.monotonic()
        cluster.process.send_signal(signal.SIGTERM)
        assert cluster.process.wait(timeout=END_SECONDS) == 0
        assert time.monotonic() - begun < QUICK_SECONDS
        assert list(answer.iter_lines()) == []


def test_many_pods_are_listed_whole_and_in_pages(http: httpx.Client, namespace: str, cluster_kind: ClusterKind):
    total = MANY[cluster_kind]
    pods = f"/api/v1/namespaces/{namespace}/pods"
    http.post(f"/apis/batch/v1/namespaces/{namespace}/jobs", json=big_job(total)).raise_for_status()
    wait_until(
        lambda: http.get(pods, params={"limit": 1}).json()["metadata"].get("remainingItemCount") == total - 1,
        seconds=120,
    )

    whole = [item["metadata"]["name"] for item in http.get(pods).json()["items"]]
    names: list[str] = []
    query: dict[str, Any] = {"limit": total // 4}
    while True:
        page = http.get(pods, params=query).json()
        names += [item["metadata"]["name"] for item in page["items"]]
        if not page["metadata"].get("continue"):
            break
        query["continue"] = page["metadata"]["continue"]

    assert len(set(whole)) == total
    assert names == whole


def big_job(pods: int) -> Json:
    spec = {"restartPolicy": "Never", "schedulerName": "nobody", "containers": [{"name": "c", "image": "c"}]}
    return {
        "metadata": {"name": "big"},
        "spec": {
            "completionMode": "Indexed",
            "parallelism": pods,
            "completions": pods,
            "template": {"spec": spec},
        },
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "cannot be read as a kubeconfig"),
        ('{"current-context": "x", "contexts": [{"name": "y"}]}', "contexts has no entry named 'x'; present: y"),
        (
            """{"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c"}}],
            "clusters": [{"name": "c", "cluster": {"server": "ftp://x"}}]}""",
            "clusters[].cluster.server is 'ftp://x'; valid: an http:// or https:// address",
        ),
    ],
)
def test_a_wrong_kubeconfig_is_refused_with_the_field(tmp_path: Path, text: str, complaint: str):
    path = tmp_path / "kubeconfig"
    path.write_text(text)

    with pytest.raises(KubeconfigError) as refusal:
        open_client(path)
    assert complaint in str(refusal.value)


def test_a_token_of_the_kubeconfig_is_sent(tmp_path: Path):
    path = tmp_path / "kubeconfig"
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"tokenFile": "token"}}],
    }
    path.write_text(json.dumps(config))
    (tmp_path / "token").write_text("secret\n")

    assert open_client(path).headers["Authorization"] == "Bearer secret"
