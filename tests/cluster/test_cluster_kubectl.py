"""kubectl, the real one, against the embedded cluster."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from bounded_polling import wait_until
from cluster_objects import jobset, node, pod, replicated_job

if TYPE_CHECKING:
    from pathlib import Path

    from cluster_processes import RunningCluster

Json = dict[str, Any]

pytestmark = pytest.mark.tool


class Kubectl:
    def __init__(self, kubeconfig: Path) -> None:
        found = shutil.which("kubectl")
        assert found, (
            "kubectl is not installed: https://kubernetes.io/docs/tasks/tools/, or deselect with -m 'not tool'"
        )
        self._command = [found, "--kubeconfig", str(kubeconfig), "--cache-dir", str(kubeconfig.parent / "cache")]

    def __call__(self, *arguments: str, stdin: Json | str | None = None, fails: bool = False) -> str:
        text = stdin if isinstance(stdin, str) or stdin is None else json.dumps(stdin)
        done = subprocess.run(
            [*self._command, *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert (done.returncode != 0) == fails, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr


@pytest.fixture
def kubectl(own_cluster: RunningCluster) -> Kubectl:
    return Kubectl(own_cluster.kubeconfig)


GATED = {"schedulingGates": [{"name": "hold"}]}


def test_apply_again_changes_nothing_that_counts(kubectl: Kubectl):
    body = jobset("train")

    assert kubectl("apply", "-f", "-", stdin=body) == "jobset.jobset.x-k8s.io/train created\n"
    body["metadata"]["labels"] = {"team": "x"}
    assert kubectl("apply", "-f", "-", stdin=body) == "jobset.jobset.x-k8s.io/train configured\n"
    version = kubectl("get", "jobset", "train", "-o", "jsonpath={.metadata.generation}")
    # kubectl compares lists whole, so that the defaults in replicatedJobs always look like a difference to it.
    assert "train" in kubectl("apply", "-f", "-", stdin=body)
    assert kubectl("get", "jobset", "train", "-o", "jsonpath={.metadata.generation}") == version == "1"


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
    wait_until(lambda: "train-slice-0-0" in kubectl("get", "pods"))

    wide = kubectl("get", "pods", "-o", "wide")
    assert wide.split()[:5] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert "NOMINATED NODE" in wide
    assert "Pending" in wide
    assert kubectl("get", "jobset").split()[:5] == ["NAME", "TERMINALSTATE", "RESTARTS", "SUSPENDED", "AGE"]
    assert yaml.safe_load(kubectl("get", "jobset", "train", "-o", "yaml"))["kind"] == "JobSet"
    assert json.loads(kubectl("get", "pods", "-o", "json"))["items"][0]["kind"] == "Pod"
    assert "job.batch/train-slice-0" in kubectl("get", "all", "-o", "name")
    assert kubectl("get", "jobset", "-o", "jsonpath={.items[*].metadata.name}") == "train"
    assert "FailedScheduling" in kubectl("get", "events")
    assert "no nodes available" in kubectl("events", "--for", "jobset/train", "--all-namespaces") + kubectl(
        "events"
    )


def test_get_watch_prints_changes_as_they_come(kubectl: Kubectl):
    kubectl("create", "-f", "-", stdin=pod("a", **GATED))
    command = [*kubectl._command, "get", "pods", "-w", "--output-watch-events"]
    watching = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert watching.stdout is not None
    try:
        watching.stdout.readline()
        assert watching.stdout.readline().split()[:2] == ["ADDED", "a"]
        kubectl("label", "pod", "a", "team=x")
        assert watching.stdout.readline().split()[:2] == ["MODIFIED", "a"]
        kubectl("delete", "pod", "a")
        assert watching.stdout.readline().split()[:2] == ["DELETED", "a"]
    finally:
        watching.terminate()
        watching.communicate(timeout=5)


def test_describe_tells_conditions_and_events(kubectl: Kubectl):
    kubectl("apply", "-f", "-", stdin=jobset("train"))
    wait_until(lambda: "FailedScheduling" in kubectl("get", "events"))

    told = kubectl("describe", "pods")

    assert "PodScheduled" in told
    assert "no nodes available to schedule pods" in told
    assert "follower pod node selector for topology domain not found" in kubectl("describe", "job")
    assert "Exclusive-Topology" in kubectl("describe", "jobset", "train").title()
    kubectl("create", "-f", "-", stdin=node("a", 0))
    assert "google.com/tpu" in kubectl("describe", "node", "a-0")


def test_wait_follows_conditions_and_deletion(kubectl: Kubectl):
    kubectl("create", "-f", "-", stdin=node("n", 0))
    kubectl("create", "-f", "-", stdin=pod("a", nodeName="n-0"))
    ready = json.dumps({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    kubectl("patch", "pod", "a", "--subresource", "status", "-p", ready)

    assert "condition met" in kubectl("wait", "pod/a", "--for", "condition=Ready", "--timeout", "5s")
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
    wait_until(lambda: "train-slice-0-0" in kubectl("get", "pods"))

    assert "deleted" in kubectl("delete", "jobset", "train", f"--cascade={cascade}", "--timeout", "5s")

    assert kubectl("get", "jobset") == "No resources found in default namespace.\n"
    if cascade == "orphan":
        assert "train-slice-0" in kubectl("get", "jobs")
    else:
        wait_until(lambda: kubectl("get", "jobs,pods") == "No resources found in default namespace.\n")


def test_logs_answer_with_a_text(kubectl: Kubectl):
    kubectl("create", "-f", "-", stdin=node("n", 0))
    kubectl("create", "-f", "-", stdin=pod("a", nodeName="n-0"))

    assert "simulated container" in kubectl("logs", "a")


def test_nodes_are_cordoned_tainted_and_drained(kubectl: Kubectl):
    kubectl("create", "-f", "-", stdin=node("a", 0))
    kubectl("cordon", "a-0")
    assert "SchedulingDisabled" in kubectl("get", "nodes")
    kubectl("uncordon", "a-0")
    kubectl("taint", "node", "a-0", "hold=yes:NoSchedule")
    taints = json.loads(kubectl("get", "node", "a-0", "-o", "json"))["spec"]["taints"]
    assert {"key": "hold", "value": "yes", "effect": "NoSchedule"} in taints
    kubectl("drain", "a-0", "--ignore-daemonsets", "--timeout", "5s")
    assert "deleted" in kubectl("delete", "node", "a-0")


def test_namespaces_and_service_accounts_are_created_by_name(kubectl: Kubectl):
    assert "created" in kubectl("create", "namespace", "team")
    assert "created" in kubectl("create", "serviceaccount", "me", "-n", "team")
    assert "Active" in kubectl("get", "namespace", "team")
    assert "yes" in kubectl("auth", "can-i", "create", "pods")
    assert "pods" in kubectl("api-resources")
    assert "Server Version: v1.34" in kubectl("version")
    assert "deleted" in kubectl("delete", "namespace", "team", "--timeout", "5s")


def test_a_definition_is_established(kubectl: Kubectl):
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
    }
    kubectl("apply", "-f", "-", stdin=body)

    assert "condition met" in kubectl(
        "wait", "crd/things.example.com", "--for", "condition=Established", "--timeout", "5s"
    )
