"""What deployed processes start with, and what `make demo-deploy` says without its programs."""

import json
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from demo.deploy.deployed_commands import function_command, list_endpoint_hosts, read_exporter
from demo.deploy.deployments import Caller, Function
from demo.deploy.exporter_image import main as become_exporter
from demo.deploy.exporter_image import make_image
from demo.deploy.google_tokens import GoogleTokens
from demo.deploy.metadata_server import serve_metadata
from demo.deploy.real_cluster import list_refusals
from demo.deploy.scheduler import Scheduler
from demo.stack.layout import PROJECT_ROOT
from demo.stack.readiness import read_ports
from shared.edges.google_account import SCOPES
from standins.kubelet.container_command import TOKEN_FOLDER
from standins.kubelet.images import Images
from standins.processes.local_answers import Answer, Asked, LocalAnswers

ACCOUNT = "collect@a-project.iam.gserviceaccount.com"
CLUSTERS = json.dumps({"a-cluster": {"endpoint": "https://gke-1-${projectNumber}.us-east5.gke.goog"}})
COLLECT = Function(
    name="tpu-provisioner-collect",
    entry_point="collect",
    address="https://collect-1.us-east5.run.app",
    service="a-service",
    account=ACCOUNT,
    environment={"TPU_PROVISIONER_CLUSTERS": CLUSTERS, "TPU_PROVISIONER_MODE": "report-only"},
    bucket="b",
    archive="o.zip",
)


def test_a_function_starts_with_what_was_deployed(tmp_path: Path) -> None:
    command = function_command(
        COLLECT,
        tmp_path,
        port=1,
        number="7",
        metadata="127.0.0.1:2",
        clients={"HTTPS_PROXY": "http://127.0.0.1:3"},
    )

    assert "--target=collect" in command.arguments
    assert command.environment["TPU_PROVISIONER_MODE"] == "report-only"
    assert "gke-1-7.us-east5" in command.environment["TPU_PROVISIONER_CLUSTERS"]
    assert command.environment["HTTPS_PROXY"] == "http://127.0.0.1:3"
    ours = {key for key in command.environment if key.startswith("TPU_PROVISIONER_")}
    assert ours == COLLECT.environment.keys()  # and no variable that Terraform has not set


def test_the_endpoints_of_its_clusters_are_known() -> None:
    assert list_endpoint_hosts(COLLECT, "7") == ["gke-1-7.us-east5.gke.goog"]


def test_the_exporter_starts_with_its_rendered_manifest(tmp_path: Path) -> None:
    outputs = {
        "exporter_principals": {"value": {"p": "principal://x/subject/ns/tpu-provisioner/sa/y"}},
        "clusters": {"value": {"demo": {"exporter_environment": {"TPU_PROVISIONER_TOPIC": "a-topic"}}}},
        "accounts": {"value": dict.fromkeys(("provision", "collect", "settle", "sweep"), ACCOUNT)},
    }
    path = tmp_path / "outputs.json"
    path.write_text(json.dumps(outputs))
    folder = tmp_path / "out"
    words = ("--outputs", str(path), "--cluster", "demo", "--image", "x@sha256:0", "--folder", str(folder))
    script = PROJECT_ROOT / "infra" / "build" / "render_exporter.py"
    subprocess.run([sys.executable, str(script), *words], check=True, timeout=60)

    account, variables = read_exporter(folder)
    assert account == "ns/tpu-provisioner/sa/tpu-provisioner-exporter"
    assert variables["TPU_PROVISIONER_TOPIC"] == "a-topic"
    assert variables["TPU_PROVISIONER_DRAIN_SECONDS"] == "10"


@pytest.mark.parametrize(("scopes", "user"), [(SCOPES, ACCOUNT), ((), "77")], ids=["ours", "the default"])
def test_google_s_library_gets_a_token_by_which_the_account_is_known(scopes: tuple[str, ...], user: str) -> None:
    """Without the scope of its address it is known by its number, as on GKE."""
    program = (
        "import google.auth, google.auth.transport.requests as transport\n"
        f"found, project = google.auth.default(scopes={scopes!r})\n"
        "found.refresh(transport.Request())\n"
        "print(found.token, found.service_account_email, project)\n"
    )
    tokens = GoogleTokens()
    with serve_metadata(ACCOUNT, "a-project", partial(tokens.issue, ACCOUNT, "77")) as metadata:
        told = dict.fromkeys(("GCE_METADATA_HOST", "GCE_METADATA_IP"), metadata.address)
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=told | {"CLOUDSDK_CONFIG": "/nonexistent", "HOME": "/nonexistent"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert done.stdout.split()[1:] == [ACCOUNT, "a-project"], done.stderr
    assert review(tokens, done.stdout.split()[0]) == {"authenticated": True, "user": {"username": user}}
    assert review(tokens, "made up") == {"authenticated": False}


def review(tokens: GoogleTokens, token: str) -> object:
    question = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    answer = tokens.review(Asked("/", {}, json.dumps(question).encode()))
    return json.loads(answer.body)["status"]


def test_what_the_cluster_refuses_is_told_once(tmp_path: Path) -> None:
    forbidden = 'pods "p" is forbidden: User "collect@a" cannot get resource "pods"'
    calls = [
        {"host": "gke-1", "method": "GET", "code": 200, "answer": {"items": []}},
        {"host": "gke-1", "method": "GET", "code": 404, "answer": {"message": 'pods "code":403 not found'}},
        {"host": "gke-1", "method": "GET", "code": 403, "answer": {"code": 403, "message": forbidden}},
        {"host": "gke-1", "method": "GET", "code": 403, "answer": {"code": 403, "message": forbidden}},
        {"host": "gke-1", "method": "POST", "code": 401, "answer": {"message": "Unauthorized"}},
        {"host": "container.googleapis.com", "method": "GET", "code": 403, "answer": {"message": "other"}},
    ]
    journal = tmp_path / "edge.jsonl"
    lines = [json.dumps(each, separators=(",", ":")) for each in calls]
    journal.write_text("\n".join([*lines, lines[2][:40]]))  # the last one is being written

    assert list_refusals(journal, {"gke-1"}) == [
        f"GET is refused with 403: {forbidden}",
        "POST is refused with 401: Unauthorized",
    ]
    assert list_refusals(tmp_path / "absent", {"gke-1"}) == []


def test_the_exporter_s_image_starts_it_with_the_variables_and_the_token_of_its_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = make_image(tmp_path / "image", ports=tmp_path / "ports", pubsub_grpc="127.0.0.1:4")
    assert Images.from_options([f"exporter@sha256:0={image}"])
    account = tmp_path / "pod" / TOKEN_FOLDER
    account.mkdir(parents=True)
    for name in ("token", "ca.crt", "namespace"):
        (account / name).write_text(f"the {name}")
    pod = {"POD_FOLDER": str(tmp_path / "pod"), "HOSTNAME": "a-pod", "TPU_PROVISIONER_TOPIC": "a-topic"}
    pod |= {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "6"}
    started: list[tuple[tuple[str, ...], dict[str, str]]] = []
    monkeypatch.setattr(os, "environ", pod)
    monkeypatch.setattr(os, "execve", lambda _path, words, variables: started.append((words, variables)))

    become_exporter(str(tmp_path / "ports"), "127.0.0.1:4")

    ((words, variables),) = started
    assert words[1:] == ("-m", "exporter")
    assert variables["TPU_PROVISIONER_TOPIC"] == "a-topic"
    assert variables["PUBSUB_EMULATOR_HOST"] == "127.0.0.1:4"
    url = read_ports(tmp_path / "ports" / "a-pod.json")["url"]
    assert url.endswith(f":{variables['TPU_PROVISIONER_HTTP_PORT']}")
    config = json.loads(Path(variables["TPU_PROVISIONER_KUBECONFIG"]).read_text())
    assert config["users"][0]["user"] == {"token": "the token"}
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6"


def test_the_job_calls_as_its_account_and_notes_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demo.deploy.scheduler.EVERY_SECONDS", 0.01)
    heard: list[Asked] = []
    again = threading.Event()

    def answer(asked: Asked) -> Answer:
        if heard:
            again.set()
        heard.append(asked)
        return Answer(403, b"no", "text/plain")

    job = Caller("a-job", "https://sweep-1.run.app", "an-audience", "scheduler@a-project.iam.gserviceaccount.com")
    with LocalAnswers(answer) as door, Scheduler(job, {job.address: door.url}) as scheduler:
        assert again.wait(30)

    assert heard[0].headers["Authorization"].startswith("Bearer ")
    assert scheduler.failures[0] == "403 no"


def run_demo(path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the demo where no program is found."""
    return subprocess.run(
        [sys.executable, "-m", "demo.deploy"],
        cwd=PROJECT_ROOT,
        env={"PATH": str(path), "HOME": str(path), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_what_is_missing_is_said_with_how_to_get_it(tmp_path: Path) -> None:
    done = run_demo(tmp_path)

    assert done.returncode == 2
    assert "https://developer.hashicorp.com/terraform/install" in done.stderr
    assert "- a mock of Google Cloud: " in done.stderr
    assert "export MOCK_GOOGLE_CLOUD=" in done.stderr


def test_a_mock_that_is_not_there_is_named(tmp_path: Path) -> None:
    absent = str(tmp_path / "mock")

    done = run_demo(tmp_path, MOCK_GOOGLE_CLOUD=absent)

    assert done.returncode == 2
    assert f"- MOCK_GOOGLE_CLOUD: is not an executable file (got '{absent}'); valid: " in done.stderr
