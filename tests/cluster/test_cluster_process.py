"""The two processes: cluster and kubelet, together and each through its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from bounded_polling import wait_until
from cluster_objects import jobset, node, replicated_job
from cluster_processes import ROOT, RunningCluster, running_cluster

from local.kubelet.connection import KubeconfigError, open_client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Json = dict[str, Any]

JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
PODS = "/api/v1/namespaces/default/pods"
LOCAL = "local.tpu-provisioner/"


@contextmanager
def running_kubelet(cluster: RunningCluster, log: Path, *, speed: int = 300) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        sys.executable,
        "-m",
        "local.kubelet",
        "--kubeconfig",
        str(cluster.kubeconfig),
        "--speed",
        str(speed),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, env=os.environ | {"PYTHONWARNINGS": "error"})
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=5) == 0


@pytest.fixture
def http(own_cluster: RunningCluster) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=own_cluster.url, trust_env=False, timeout=10) as client:
        yield client


def annotated(replicated: Json, **annotations: str) -> Json:
    template = replicated["template"]["spec"]["template"]
    template["metadata"] = {
        "annotations": {f"{LOCAL}{key.replace('_', '-')}": value for key, value in annotations.items()}
    }
    return replicated


def add_pool(http: httpx.Client, pool: str, nodes: int) -> None:
    for index in range(nodes):
        http.post("/api/v1/nodes", json=node(pool, index)).raise_for_status()


def terminal_state(http: httpx.Client) -> str:
    return http.get(f"{JOBSETS}/train").json().get("status", {}).get("terminalState", "")


def phases(http: httpx.Client) -> list[str]:
    return [item["status"]["phase"] for item in http.get(PODS).json()["items"]]


def test_a_jobset_runs_from_submission_to_completion(
    own_cluster: RunningCluster, http: httpx.Client, tmp_path: Path
):
    with running_kubelet(own_cluster, tmp_path / "kubelet.log"):
        http.post(JOBSETS, json=jobset("train", replicated_job(replicas=2, pods=3))).raise_for_status()
        wait_until(lambda: phases(http) == ["Pending"] * 2)
        add_pool(http, "a", 3)
        add_pool(http, "b", 3)

        wait_until(lambda: terminal_state(http) == "Completed")

        assert phases(http) == ["Succeeded"] * 6
    records = [json.loads(line) for line in (tmp_path / "kubelet.log").read_text().splitlines()]
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
    own_cluster: RunningCluster,
    http: httpx.Client,
    tmp_path: Path,
    annotations: dict[str, str],
    restarts: int,
    end: str,
):
    body = jobset("train", annotated(replicated_job(), **annotations), failurePolicy={"maxRestarts": 2})
    with running_kubelet(own_cluster, tmp_path / "kubelet.log"):
        add_pool(http, "a", 2)
        http.post(JOBSETS, json=body).raise_for_status()

        wait_until(lambda: terminal_state(http) == end)

    assert http.get(f"{JOBSETS}/train").json()["status"]["restarts"] == restarts


def test_the_kubelet_survives_drops_and_lost_history(
    own_cluster: RunningCluster, http: httpx.Client, tmp_path: Path
):
    with running_kubelet(own_cluster, tmp_path / "kubelet.log"):
        add_pool(http, "a", 2)
        wait_until(lambda: http.get("/admin/state").json()["watches"] == 1)
        http.post("/admin/compact").raise_for_status()
        http.post("/admin/disconnect").raise_for_status()
        http.post(JOBSETS, json=jobset("train", annotated(replicated_job(), run_seconds="30"))).raise_for_status()
        wait_until(lambda: "Running" in phases(http))
        http.post("/admin/disconnect", params={"clean": "true"}).raise_for_status()

        wait_until(lambda: terminal_state(http) == "Completed")


def test_a_deleted_pod_is_stopped_within_its_grace_and_removed(
    own_cluster: RunningCluster,
    http: httpx.Client,
    tmp_path: Path,
):
    with running_kubelet(own_cluster, tmp_path / "kubelet.log"):
        add_pool(http, "a", 2)
        http.post(
            JOBSETS, json=jobset("train", annotated(replicated_job(), run_seconds="90000"))
        ).raise_for_status()
        wait_until(lambda: phases(http) == ["Running"] * 2)
        http.delete(f"{JOBSETS}/train").raise_for_status()

        wait_until(lambda: phases(http) == [])

    assert http.get("/apis/batch/v1/jobs").json()["items"] == []


def test_a_pod_whose_node_has_gone_does_not_report_success(
    own_cluster: RunningCluster,
    http: httpx.Client,
    tmp_path: Path,
):
    log = tmp_path / "kubelet.log"
    with running_kubelet(own_cluster, log):
        add_pool(http, "a", 2)
        http.post(JOBSETS, json=jobset("train", annotated(replicated_job(), run_seconds="300"))).raise_for_status()
        wait_until(lambda: phases(http) == ["Running"] * 2)
        for index in range(2):
            http.delete(f"/api/v1/nodes/a-{index}").raise_for_status()

        wait_until(lambda: terminal_state(http) == "Failed")

    assert '"phase": "Succeeded"' not in log.read_text()


def test_the_cluster_ends_quickly_although_a_watch_is_open(tmp_path: Path):
    with (
        running_cluster(tmp_path) as cluster,
        httpx.Client(base_url=cluster.url, trust_env=False) as http,
        http.stream("GET", PODS, params={"watch": "true"}) as answer,
    ):
        answer.raise_for_status()
        begun = time.monotonic()
        cluster.process.send_signal(signal.SIGTERM)
        assert cluster.process.wait(timeout=5) == 0
        assert time.monotonic() - begun < 2
        assert list(answer.iter_lines()) == []


def test_thousands_of_pods_are_listed_quickly_and_in_pages(http: httpx.Client):
    total = 2_000
    http.post("/apis/batch/v1/namespaces/default/jobs", json=big_job(total)).raise_for_status()
    wait_until(
        lambda: http.get(PODS, params={"limit": 1}).json()["metadata"].get("remainingItemCount") == total - 1,
        seconds=60,
    )

    begun = time.monotonic()
    assert len(http.get(PODS).json()["items"]) == total
    seconds = time.monotonic() - begun
    names: list[str] = []
    query: dict[str, Any] = {"limit": 500}
    while True:
        page = http.get(PODS, params=query).json()
        names += [item["metadata"]["name"] for item in page["items"]]
        if "continue" not in page["metadata"]:
            break
        query["continue"] = page["metadata"]["continue"]

    assert len(set(names)) == total
    assert seconds < 5


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
