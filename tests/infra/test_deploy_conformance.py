"""``conformance`` on the mock of Google Cloud, whose node pools are Config Connector's.

The mock has no operations that last, so it gives other answers than the fake GKE. The command must
tell them, touch no pool of others, and leave nothing, also after a kill.
"""

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from shared.environment import PREFIX
from standins.googlecloud.mock_program import MockCloud
from standins.processes.stand_ins import wait_until
from tests.infra.mock_google_cloud import PROJECT, serve_mock
from tests.infra.terraform_cli import ROOT

pytestmark = pytest.mark.deploy
CLUSTER = f"projects/{PROJECT}/locations/us-east5/clusters/test"
API = "https://container.googleapis.com/v1"
FOREIGN = "somebody-s"
ASKED = (
    "missing-pool",
    "missing-cluster",
    "create-existing",
    "create-while-deleting",
    "read-after-create",
    "fields",
)


@pytest.fixture(scope="module")
def mock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MockCloud]:
    with serve_mock(tmp_path_factory.mktemp("mock")) as made:
        with open_client(made) as client:
            place = CLUSTER.rpartition("/clusters/")[0]
            pool = {"name": FOREIGN, "initialNodeCount": 1}
            cluster = {"name": "test", "nodePools": [pool], "releaseChannel": {"channel": "REGULAR"}}
            client.post(f"{API}/{place}/clusters", json={"cluster": cluster}).raise_for_status()
            wait_for_the_foreign_pool_alone(made)
        yield made


def open_client(mock: MockCloud) -> httpx.Client:
    trusting = ssl.create_default_context(cafile=str(mock.authority))
    return httpx.Client(proxy=mock.url, verify=trusting, trust_env=False, timeout=30)


def list_pools(mock: MockCloud) -> list[str]:
    with open_client(mock) as client:
        answer = client.get(f"{API}/{CLUSTER}/nodePools").json()
    return [each["name"] for each in answer.get("nodePools", [])]


def wait_for_the_foreign_pool_alone(mock: MockCloud) -> None:
    wait_until(lambda: list_pools(mock) == [FOREIGN], what="a cluster with the foreign pool only")


def start(mock: MockCloud, report: Path) -> subprocess.Popen[str]:
    settings = {
        "CLUSTERS": json.dumps({CLUSTER: {"endpoint": "http://127.0.0.1:9"}}),
        "CREDENTIALS": "anonymous",
        "LOGGING_ENDPOINT": "",
        "MONITORING_ENDPOINT": "",
    }
    environ = {key: value for key, value in os.environ.items() if key.lower() != "no_proxy"}
    environ |= mock.describe_clients() | {f"{PREFIX}{name}": value for name, value in settings.items()}
    options = [f"--report={report}", "--yes", *(f"--only={name}" for name in ASKED)]
    command = [sys.executable, "-m", "cli", "conformance", *options]
    return subprocess.Popen(
        command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_the_mocks_answers_are_told_and_nothing_is_left(mock: MockCloud, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    killed = start(mock, report)
    wait_until(lambda: list_pools(mock) != [FOREIGN], what="a pool")
    killed.kill()
    killed.communicate()

    done = start(mock, report)
    answer, _ = done.communicate(timeout=240)

    answers = json.loads(report.read_text())["answers"]
    seen = {name: (each["verdict"], each["seen"]) for name, each in answers.items()}
    assert seen == {
        "missing-pool": ("as assumed", "404 NOT_FOUND, read as NotFound"),
        "missing-cluster": ("differs", "accepted"),  # the mock lists pools of any cluster
        "create-existing": ("as assumed", "409 ALREADY_EXISTS, read as AlreadyExists"),
        "create-while-deleting": ("differs", "accepted"),  # a deletion takes no time
        "read-after-create": ("as assumed", "the pool is found"),
        "fields": ("as assumed", "all come back as they were sent"),
    }, answer
    assert done.returncode == 1
    wait_for_the_foreign_pool_alone(mock)
