"""What deployed processes start with, and what `make demo-deploy` says without its programs."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from demo.deploy.deployed_commands import function_command, list_endpoint_hosts, read_exporter
from demo.deploy.deployments import Caller, Function
from demo.deploy.local_answers import Answer, Asked, LocalAnswers
from demo.deploy.metadata_server import serve_metadata
from demo.deploy.scheduler import Scheduler
from demo.stack.layout import PROJECT_ROOT

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

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


def test_google_s_library_gets_a_token_of_the_account() -> None:
    program = (
        "import google.auth, google.auth.transport.requests as transport\n"
        "found, project = google.auth.default()\n"
        "found.refresh(transport.Request())\n"
        "print(found.token, found.service_account_email, project)\n"
    )
    with serve_metadata(ACCOUNT, "a-project") as metadata:
        told = dict.fromkeys(("GCE_METADATA_HOST", "GCE_METADATA_IP"), metadata.address)
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=told | {"CLOUDSDK_CONFIG": "/nonexistent", "HOME": "/nonexistent"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert done.stdout.split() == [f"token-of-{ACCOUNT}", ACCOUNT, "a-project"], done.stderr


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


def test_what_is_missing_is_said_with_how_to_get_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "demo.deploy"],
        cwd=PROJECT_ROOT,
        env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 2
    assert "https://developer.hashicorp.com/terraform/install" in done.stderr
    assert "export MOCK_GOOGLE_CLOUD=" in done.stderr
