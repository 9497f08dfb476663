"""kubectl with each of the two clusters."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from bounded_polling import wait_until
from cluster_objects import jobset, node, pod, replicated_job

if TYPE_CHECKING:
    from cluster_processes import RunningCluster

Json = dict[str, Any]

pytestmark = pytest.mark.tool

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
GATED = {"schedulingGates": [{"name": "hold"}]}
TIMEOUT_SECONDS = 90
WAIT_SECONDS = 60.0
PATIENCE = "--timeout=60s"


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

    @property
    def pool(self) -> str:
        """A pool whose nodes are removed with the namespace."""
        return f"{self.namespace}-n"

    @property
    def node(self) -> str:
        """The name of the first node of the pool."""
        return f"{self.pool}-0"

    @property
    def nothing(self) -> str:
        """What `kubectl get` prints of an empty namespace."""
        return f"No resources found in {self.namespace} namespace.\n"


@pytest.fixture
def kubectl(kubeconfig: Path, namespace: str, tmp_path: Path) -> Kubectl:
    return Kubectl(kubeconfig, tmp_path, namespace)


def test_apply_again_changes_nothing_that_counts(kubectl: Kubectl):
    body = jobset("train", replicated_job())
    body["spec"]["replicatedJobs"][0]["template"]["spec"]["completionMode"] = "Indexed"

    assert kubectl("apply", "-f", "-", stdin=body) == "jobset.jobset.x-k8s.io/train created\n"
    body["metadata"]["labels"] = {"team": "x"}
    assert kubectl("apply", "-f", "-", stdin=body) == "jobset.jobset.x-k8s.io/train configured\n"
    # The webhook, which is asked about new JobSets only, writes the quantity 4 as "4"; now it is a number again.
    generation = ("get", "jobset", "train", "-o", "jsonpath={.metadata.generation}")
    assert kubectl(*generation) == "2"
    # kubectl compares lists whole, so that the defaults in replicatedJobs always look like a difference to it.
    assert "train" in kubectl("apply", "-f", "-", stdin=body)
    assert kubectl(*generation) == "2"


def test_apply_again_is_refused_where_the_webhook_completed_the_manifest(kubectl: Kubectl):
    body = jobset("train")
    kubectl("apply", "-f", "-", stdin=body)

    # It completes new JobSets only; the same manifest again takes the completion mode away, as the server sees it.
    refusal = kubectl("apply", "-f", "-", stdin=body, fails=True)

    assert "vjobset.kb.io" in refusal
    assert "spec.replicatedJobs: Invalid value" in refusal
    assert "field is immutable" in refusal


def test_every_example_can_be_applied_again(kubectl: Kubectl):
    documents = [one for path in sorted(EXAMPLES.glob("*.yaml")) for one in yaml.safe_load_all(path.read_text())]
    # kubectl applies what has a name; the namespaces are left out to stay in this test's own.
    jobsets = [one for one in documents if one["kind"] == "JobSet" and "name" in one["metadata"]]
    for one in jobsets:
        one["metadata"].pop("namespace", None)
    everything = yaml.safe_dump_all(jobsets)

    kubectl("apply", "-f", "-", stdin=everything)
    again = kubectl("apply", "-f", "-", stdin=everything)

    assert again.count("jobset.jobset.x-k8s.io/") == len(jobsets) > 10


def test_apply_works_for_built_in_kinds_and_on_the_server_side(kubectl: Kubectl):
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}
    assert "created" in kubectl("apply", "-f", "-", stdin=body)
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=body)
    body["data"] = {"y": "2"}
    assert "configured" in kubectl("apply", "-f", "-", stdin=body)
    assert json.loads(kubectl("get", "cm", "a", "-o", "json"))["data"] == {"y": "2"}
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", stdin=body)
    assert "diff" not in kubectl("diff", "-f", "-", stdin=body)


def test_create_refuses_what_the_server_refuses(kubectl: Kubectl):
    body = jobset("train")
    assert "created" in kubectl("create", "-f", "-", stdin=body)
    assert "AlreadyExists" in kubectl("create", "-f", "-", stdin=body, fails=True)
    broken = jobset("broken", replicated_job("Bad"))
    assert "vjobset.kb.io" in kubectl("create", "-f", "-", stdin=broken, fails=True)


def test_get_prints_tables_yaml_and_json(kubectl: Kubectl):
    kubectl("apply", "-f", "-", stdin=jobset("train"))
    wait_until(lambda: "train-slice-0-0" in kubectl("get", "pods"), seconds=WAIT_SECONDS)

    wide = kubectl("get", "pods", "-o", "wide")
    assert wide.split()[:5] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert "NOMINATED NODE" in wide
    assert "Pending" in wide
    assert kubectl("get", "jobset").split()[:5] == ["NAME", "TERMINALSTATE", "RESTARTS", "COMPLETED", "SUSPENDED"]
    assert yaml.safe_load(kubectl("get", "jobset", "train", "-o", "yaml"))["kind"] == "JobSet"
    assert json.loads(kubectl("get", "pods", "-o", "json"))["items"][0]["kind"] == "Pod"
    assert "job.batch/train-slice-0" in kubectl("get", "all", "-o", "name")
    assert kubectl("get", "jobset", "-o", "jsonpath={.items[*].metadata.name}") == "train"
    wait_until(lambda: "FailedScheduling" in kubectl("get", "events"), seconds=WAIT_SECONDS)
    assert "no nodes available" in kubectl("events", "--for", "jobset/train", "--all-namespaces") + kubectl(
        "events"
    )


def test_get_watch_prints_changes_as_they_come(kubectl: Kubectl):
    kubectl("create", "-f", "-", stdin=pod("a", **GATED))
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


def test_describe_tells_conditions_and_events(kubectl: Kubectl):
    kubectl("apply", "-f", "-", stdin=jobset("train"))
    wait_until(lambda: "FailedScheduling" in kubectl("get", "events"), seconds=WAIT_SECONDS)

    told = kubectl("describe", "pods")

    assert "PodScheduled" in told
    assert "no nodes available to schedule pods" in told
    refusal = "follower pod node selector for topology domain not found"
    wait_until(lambda: refusal in kubectl("describe", "job"), seconds=WAIT_SECONDS)
    assert "Exclusive-Topology" in kubectl("describe", "jobset", "train").title()
    kubectl("create", "-f", "-", stdin=node(kubectl.pool, 0))
    assert "google.com/tpu" in kubectl("describe", "node", kubectl.node)


def test_wait_follows_conditions_and_deletion(kubectl: Kubectl):
    kubectl("create", "-f", "-", stdin=node(kubectl.pool, 0))
    kubectl("create", "-f", "-", stdin=pod("a", nodeName=kubectl.node))
    ready = json.dumps({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    kubectl("patch", "pod", "a", "--subresource", "status", "-p", ready)

    assert "condition met" in kubectl("wait", "pod/a", "--for", "condition=Ready", PATIENCE)
    assert "timed out" in kubectl("wait", "pod/a", "--for", "delete", "--timeout", "1s", fails=True)
    kubectl("delete", "pod", "a", "--force", "--grace-period", "0")
    assert "NotFound" in kubectl("get", "pod", "a", fails=True)


def test_patch_label_and_annotate_change_metadata(kubectl: Kubectl):
    kubectl("create", "-f", "-", stdin=pod("a", **GATED))
    kubectl("label", "pod", "a", "team=x")
    kubectl("annotate", "pod", "a", "note=hello")
    kubectl("patch", "pod", "a", "--type", "merge", "-p", '{"metadata": {"labels": {"size": "big"}}}')
    kubectl("patch", "pod", "a", "--type", "json", "-p", '[{"op": "remove", "path": "/spec/schedulingGates"}]')

    found = json.loads(kubectl("get", "pod", "a", "-o", "json"))

    assert found["metadata"]["labels"] == {"team": "x", "size": "big"}
    assert found["metadata"]["annotations"] == {"note": "hello"}
    assert not found["spec"].get("schedulingGates")
    kubectl("label", "pod", "a", "team-")
    assert "team" not in json.loads(kubectl("get", "pod", "a", "-o", "json"))["metadata"]["labels"]


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_delete_cascades_as_asked(kubectl: Kubectl, cascade: str):
    kubectl("apply", "-f", "-", stdin=jobset("train"))
    wait_until(lambda: "train-slice-0-0" in kubectl("get", "pods"), seconds=WAIT_SECONDS)

    assert "deleted" in kubectl("delete", "jobset", "train", f"--cascade={cascade}", PATIENCE)

    assert kubectl("get", "jobset") == kubectl.nothing
    if cascade == "orphan":
        assert "train-slice-0" in kubectl("get", "jobs")
    else:
        wait_until(lambda: kubectl("get", "jobs,pods") == kubectl.nothing, seconds=WAIT_SECONDS)


def test_logs_answer_with_a_text(own_cluster: RunningCluster, tmp_path: Path):
    kubectl = Kubectl(own_cluster.kubeconfig, tmp_path, "default")
    kubectl("create", "-f", "-", stdin=node("n", 0))
    kubectl("create", "-f", "-", stdin=pod("a", nodeName="n-0"))

    assert "simulated container" in kubectl("logs", "a")


def test_nodes_are_cordoned_tainted_and_drained(kubectl: Kubectl):
    kubectl("create", "-f", "-", stdin=node(kubectl.pool, 0))
    kubectl("cordon", kubectl.node)
    assert "SchedulingDisabled" in kubectl("get", "nodes")
    kubectl("uncordon", kubectl.node)
    kubectl("taint", "node", kubectl.node, "hold=yes:NoSchedule")
    taints = json.loads(kubectl("get", "node", kubectl.node, "-o", "json"))["spec"]["taints"]
    assert {"key": "hold", "value": "yes", "effect": "NoSchedule"} in taints
    kubectl("drain", kubectl.node, "--ignore-daemonsets", PATIENCE)
    assert "deleted" in kubectl("delete", "node", kubectl.node)


def test_namespaces_and_service_accounts_are_created_by_name(kubectl: Kubectl):
    team = f"{kubectl.namespace}-team"
    assert "created" in kubectl("create", "namespace", team)
    assert "created" in kubectl("create", "serviceaccount", "me", "-n", team)
    assert "Active" in kubectl("get", "namespace", team)
    assert "yes" in kubectl("auth", "can-i", "create", "pods")
    assert "pods" in kubectl("api-resources")
    assert "Server Version: v1.34" in kubectl("version")
    assert "deleted" in kubectl("delete", "namespace", team, PATIENCE)


def test_a_definition_is_established(kubectl: Kubectl):
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    kubectl("apply", "-f", "-", stdin=body)

    assert "condition met" in kubectl("wait", "crd/things.example.com", "--for", "condition=Established", PATIENCE)
    assert "deleted" in kubectl("delete", "crd", "things.example.com", PATIENCE)
