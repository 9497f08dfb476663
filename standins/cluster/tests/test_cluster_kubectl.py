"""The commands of kubectl that the manuals show."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from standins.cluster.tests.cluster_objects import jobset, pod, replicated_job
from standins.cluster.tests.conftest import RunningCluster
from standins.processes.stand_ins import ROOT, wait_until

Json = dict[str, Any]

pytestmark = pytest.mark.tool

EXAMPLES = ROOT / "examples"
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

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start what does not end by itself."""
        return subprocess.Popen([*self._command, *arguments], stdout=subprocess.PIPE, text=True)


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


def test_apply_again_is_refused_where_the_webhook_completed_the_manifest(kubectl: Kubectl) -> None:
    body = jobset("train")
    kubectl("apply", "-f", "-", stdin=body)

    # It adds defaults to new JobSets only: the same manifest again removes the completion mode.
    refusal = kubectl("apply", "-f", "-", stdin=body, fails=True)

    assert "vjobset.kb.io" in refusal
    assert "spec.replicatedJobs: Invalid value" in refusal
    assert "field is immutable" in refusal


def test_every_example_can_be_applied_again(kubectl: Kubectl) -> None:
    documents = [one for path in sorted(EXAMPLES.glob("*.yaml")) for one in yaml.safe_load_all(path.read_text())]
    # kubectl applies what has a name; the namespaces are left out to stay in this test's own.
    jobsets = [one for one in documents if one["kind"] == "JobSet" and "name" in one["metadata"]]
    for one in jobsets:
        one["metadata"].pop("namespace", None)
    everything = yaml.safe_dump_all(jobsets)

    kubectl("apply", "-f", "-", stdin=everything)
    again = kubectl("apply", "-f", "-", stdin=everything)

    assert again.count("jobset.jobset.x-k8s.io/") == len(jobsets) > 10


def test_apply_works_for_built_in_kinds(kubectl: Kubectl) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}
    assert "created" in kubectl("apply", "-f", "-", stdin=body)
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=body)
    body["data"] = {"y": "2"}
    assert "configured" in kubectl("apply", "-f", "-", stdin=body)
    assert json.loads(kubectl("get", "cm", "a", "-o", "json"))["data"] == {"y": "2"}


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


def test_get_watch_prints_changes_as_they_come(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=pod("a", schedulingGates=[{"name": "hold"}]))
    watching = kubectl.start("get", "pods", "-w", "--output-watch-events")
    assert watching.stdout is not None
    try:
        watching.stdout.readline()
        assert watching.stdout.readline().split()[:2] == ["ADDED", "a"]
        kubectl("label", "pod", "a", "team=x")
        assert watching.stdout.readline().split()[:2] == ["MODIFIED", "a"]
        kubectl("delete", "pod", "a")
        assert watching.stdout.readline().split()[:2] == ["MODIFIED", "a"], "marked first"
        assert watching.stdout.readline().split()[:2] == ["DELETED", "a"]
    finally:
        watching.terminate()
        watching.communicate(timeout=60)


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
