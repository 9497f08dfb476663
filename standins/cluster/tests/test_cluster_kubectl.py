"""The commands of kubectl that the manuals show."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from standins.cluster.tests.cluster_objects import jobset, replicated_job
from standins.cluster.tests.conftest import RunningCluster
from standins.kit.processes import wait_until

Json = dict[str, Any]

pytestmark = pytest.mark.tool

TIMEOUT_SECONDS = 90


class Kubectl:
    """kubectl in a namespace of its own."""

    def __init__(self, kubeconfig: Path, cache: Path, namespace: str) -> None:
        self.namespace = namespace
        found = shutil.which("kubectl")
        assert found, (
            "kubectl is not installed: https://kubernetes.io/docs/tasks/tools/, or deselect with -m 'not tool'"
        )
        self._command = [
            found,
            "--kubeconfig",
            str(kubeconfig),
            "--cache-dir",
            str(cache),
            "--namespace",
            namespace,
        ]

    def __call__(self, *arguments: str, stdin: Json | str | None = None, fails: bool = False) -> str:
        text = stdin if isinstance(stdin, str) or stdin is None else json.dumps(stdin)
        done = subprocess.run(
            [*self._command, *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        assert (done.returncode != 0) == fails, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr


@pytest.fixture
def kubectl(cluster: RunningCluster, namespace: str, tmp_path: Path) -> Kubectl:
    return Kubectl(cluster.kubeconfig, tmp_path, namespace)


def test_apply_again_changes_nothing_that_counts(kubectl: Kubectl) -> None:
    body = jobset("train", replicated_job())
    body["spec"]["replicatedJobs"][0]["template"]["spec"]["completionMode"] = "Indexed"

    assert kubectl("apply", "-f", "-", stdin=body) == "jobset.jobset.x-k8s.io/train created\n"
    body["metadata"]["labels"] = {"team": "x"}
    assert kubectl("apply", "-f", "-", stdin=body) == "jobset.jobset.x-k8s.io/train configured\n"
    # The webhook, called for new JobSets only, writes the quantity 4 as "4". Now it is a number.
    generation = ("get", "jobset", "train", "-o", "jsonpath={.metadata.generation}")
    assert kubectl(*generation) == "2"
    # kubectl compares whole lists, so the defaults in replicatedJobs always are a difference.
    assert "train" in kubectl("apply", "-f", "-", stdin=body)
    assert kubectl(*generation) == "2"


def test_get_prints_tables_yaml_and_json(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=jobset("train"))
    wait_until(lambda: "train-slice-0-0" in kubectl("get", "pods"))

    pods = kubectl("get", "pods")
    assert pods.split()[:3] == ["NAME", "READY", "STATUS"]
    assert "Pending" in pods
    assert kubectl("get", "jobset").split()[:3] == ["NAME", "TERMINALSTATE", "RESTARTS"]
    assert yaml.safe_load(kubectl("get", "jobset", "train", "-o", "yaml"))["kind"] == "JobSet"
    assert json.loads(kubectl("get", "pods", "-o", "json"))["items"][0]["kind"] == "Pod"
    assert "job.batch/train-slice-0" in kubectl("get", "all", "-o", "name")
    assert kubectl("get", "jobset", "-o", "jsonpath={.items[*].metadata.name}") == "train"
    wait_until(lambda: "FailedScheduling" in kubectl("get", "events"))


def test_describe_shows_conditions_and_events_and_delete_removes_everything(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=jobset("train"))
    wait_until(lambda: "FailedScheduling" in kubectl("get", "events"))

    text = kubectl("describe", "pods")

    assert "PodScheduled" in text
    assert "no nodes available to schedule pods" in text
    refusal = "follower pod node selector for topology domain not found"
    wait_until(lambda: refusal in kubectl("describe", "job"))
    assert "Exclusive-Topology" in kubectl("describe", "jobset", "train").title()
    assert "deleted" in kubectl("delete", "jobset", "train", "--timeout=60s")
    nothing = f"No resources found in {kubectl.namespace} namespace.\n"
    wait_until(lambda: kubectl("get", "jobs,pods") == nothing)
