"""What the embedded cluster alone refuses, and the commands of kubectl that the manuals show.

What both clusters answer alike is asked of both in `answers.yaml`.
"""

import copy
import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen
from typing import Any

import httpx
import pytest
import yaml

from standins.cluster.refusals import PLAYED_OF_JOBS, PLAYED_OF_JOBSETS
from standins.kit import addresses
from standins.kit.kubernetes import open_client
from standins.kit.processes import running_stand_in, wait_until

Json = dict[str, Any]

TIMEOUT_SECONDS = 90
_numbers = itertools.count()


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cluster")
    arguments = ("--kubeconfig-file", str(folder / "kubeconfig"), "--speed", "300")
    with running_stand_in(folder, "standins.cluster", *arguments, environment={"PYTHONWARNINGS": "error"}):
        yield folder / "kubeconfig"


@pytest.fixture(scope="module")
def http(kubeconfig: Path) -> Iterator[httpx.Client]:
    with open_client(kubeconfig) as client:
        yield client


@pytest.fixture
def namespace(http: httpx.Client) -> Iterator[str]:
    name = f"api-{next(_numbers)}"
    http.post("/api/v1/namespaces", json={"metadata": {"name": name}}).raise_for_status()
    yield name
    http.delete(f"/api/v1/namespaces/{name}")


def jobset(name: str = "train", **spec: Any) -> Json:
    """Return a JobSet with one slice of two hosts, exclusive on its pool."""
    container = {"name": "worker", "image": "worker", "resources": {"limits": {"google.com/tpu": 4}}}
    pod = {"restartPolicy": "Never", "nodeSelector": {"slot": "never"}, "containers": [container]}
    job = {"parallelism": 2, "completions": 2, "backoffLimit": 0, "template": {"spec": pod}}
    placement = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": placement},
        "spec": {"replicatedJobs": [{"name": "slice", "replicas": 1, "template": {"spec": job}}]} | spec,
    }


REPLICATED_JOB = "spec/replicatedJobs/0"
KINDS: dict[str, tuple[str, Json]] = {
    "jobset": ("/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets", jobset()),
    "job": (
        "/apis/batch/v1/namespaces/{}/jobs",
        {"metadata": {"name": "asked"}} | jobset()["spec"]["replicatedJobs"][0]["template"],
    ),
    "pod": (
        "/api/v1/namespaces/{}/pods",
        {"metadata": {"name": "asked"}, "spec": {"containers": [{"name": "main", "image": "main"}]}},
    ),
}
NOT_PLAYED = "422 CLUSTER=real"
BODIES: list[tuple[str, str, Any, str]] = [
    *(("jobset", f"spec/{field.replace('.', '/')}", "x", NOT_PLAYED) for field in PLAYED_OF_JOBSETS),
    *(("job", f"spec/{field}", "x", NOT_PLAYED) for field in PLAYED_OF_JOBS),
    *(("jobset", f"{REPLICATED_JOB}/template/spec/{field}", "x", NOT_PLAYED) for field in PLAYED_OF_JOBS),
    ("jobset", f"{REPLICATED_JOB}/dependsOn", [{"name": "x"}], NOT_PLAYED),
    ("jobset", f"{REPLICATED_JOB}/replicas", "two", "400 cannot be handled as a JobSet"),
    ("job", "spec/backoffLimit", -1, "422 greater than or equal to 0"),
    ("job", "spec/template/spec/restartPolicy", "Always", '422 "OnFailure", "Never"'),
    ("job", "kind", "Pod", "400 do not match those expected"),
    ("pod", "metadata/resourceVersion", "1", "400 should not be set"),
    ("pod", "metadata/annotations", {"a": 1}, "422 object of text to text"),
    ("pod", "spec/tolerations", "all", "400 cannot be handled as a Pod"),
]
REQUESTS = [
    ("GET", "colours", 404),
    ("GET", "pods/asked/log", 404),
    ("GET", "pods?watch=1&sendInitialEvents=true", 400),
    ("PATCH", "pods/asked?dryRun=All", 400),
    ("POST", "pods/asked", 405),
    ("PUT", "pods", 405),
    ("DELETE", "pods/asked?propagationPolicy=Orphan", 400),
]


@pytest.mark.parametrize(("kind", "path", "value", "answer"), BODIES)
def test_a_body_is_refused_with_what_would_be_valid(
    http: httpx.Client, namespace: str, kind: str, path: str, value: Any, answer: str
) -> None:
    url, base = KINDS[kind]
    body = copy.deepcopy(base)
    target: Any = body
    *steps, last = path.split("/")
    for step in steps:
        target = target[int(step)] if isinstance(target, list) else target.setdefault(step, {})
    target[last] = value
    said = http.post(url.format(namespace), json=body)
    code, _, words = answer.partition(" ")
    assert (str(said.status_code), said.json()["code"]) == (code, said.status_code), said.text
    assert words in said.json()["message"]


@pytest.mark.parametrize(("method", "path", "code"), REQUESTS)
def test_a_request_is_refused(http: httpx.Client, namespace: str, method: str, path: str, code: int) -> None:
    answer = http.request(method, f"/api/v1/namespaces/{namespace}/{path}")
    assert answer.json()["code"] == answer.status_code == code, answer.text


class Kubectl:
    """kubectl in a namespace of its own."""

    def __init__(self, kubeconfig: Path, cache: Path, namespace: str) -> None:
        self.namespace = namespace
        found = shutil.which("kubectl")
        assert found, (
            "kubectl is not installed: https://kubernetes.io/docs/tasks/tools/, or deselect with -m 'not tool'"
        )
        files = ("--kubeconfig", str(kubeconfig), "--cache-dir", str(cache))
        self._command = [found, *files, "--namespace", namespace]

    def __call__(self, *arguments: str, stdin: Json | None = None) -> str:
        command, text = [*self._command, *arguments], json.dumps(stdin)
        process = Popen(command, stdin=PIPE, stdout=PIPE, stderr=STDOUT, text=True)
        said, _ = process.communicate(text, timeout=TIMEOUT_SECONDS)
        assert process.returncode == 0, f"kubectl {' '.join(arguments)}: {said}"
        return said


@pytest.fixture
def kubectl(kubeconfig: Path, namespace: str, tmp_path: Path) -> Kubectl:
    return Kubectl(kubeconfig, tmp_path, namespace)


@pytest.mark.tool
def test_apply_again_changes_nothing_that_counts(kubectl: Kubectl) -> None:
    body = jobset()
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


@pytest.mark.tool
def test_get_prints_tables_yaml_and_json(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=jobset())
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


@pytest.mark.tool
def test_describe_shows_conditions_and_events_and_delete_removes_everything(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=jobset())
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


def test_a_process_draws_no_port_of_a_block_that_another_one_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "_BLOCKS", range(14_000, 14_100, 100))
    monkeypatch.setattr(addresses, "_PORTS", addresses._yield_ports())
    draws = "import standins.kit.addresses as a; a._BLOCKS = range(14_000, 14_100, 100); print(a.draw_ports(1))"
    child = [sys.executable, "-c", draws]
    alone = subprocess.run(child, capture_output=True, text=True, check=True)
    (mine,) = addresses.draw_ports(1)

    beside = subprocess.run(child, capture_output=True, text=True, check=False)

    assert alone.stdout.split() == [f"[{mine}]"]
    assert "PortTaken: no free ports" in beside.stderr
