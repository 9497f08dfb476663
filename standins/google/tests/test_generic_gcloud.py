"""The real gcloud against GKE and the APIs that only their discovery documents describe, at once.

Tier `tool`: needs gcloud, and the documents of the package `google-api-python-client`. What the
build's scripts ask of gcloud is run in `tests/infra`.
"""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from standins.kit.processes import running_stand_in

pytestmark = [pytest.mark.tool, pytest.mark.slow, pytest.mark.timeout(900)]
VARIABLE = "DISCOVERY_DOCUMENTS"
REMEDY = f"pip install --no-deps google-api-python-client, or set {VARIABLE} to a folder of them"
APIS = (
    *("artifactregistry", "cloudresourcemanager", "cloudscheduler", "iam", "logging", "pubsub"),
    "serviceusage",
)
AT = "--location=us-east5"
ON_ALPHA = f"--cluster=alpha {AT}"
SLICE = "--node-locations=us-east5-b --num-nodes=4 --machine-type=ct6e-standard-4t --tpu-topology=4x4"
COMMANDS = (
    ("container clusters list", "alpha"),
    (f"container node-pools create pool-1 {ON_ALPHA} {SLICE} --spot --node-labels=a=b", "Created"),
    (f"container node-pools describe pool-1 {ON_ALPHA} --format=value(status,config.labels)", "RUNNING"),
    (f"container node-pools list {ON_ALPHA} --format=json", '"a": "b"'),
    (f"container node-pools delete pool-1 {ON_ALPHA}", "Deleted"),
    ("container operations list --region=us-east5", "DELETE_NODE_POOL"),
    ("compute networks create net --subnet-mode=custom", "Created"),
    ("logging sinks create s1 pubsub.googleapis.com/projects/demo/topics/events --log-filter=x", "Created"),
)
REFUSED = (
    ("pubsub subscriptions modify-push-config absent --push-endpoint=", "not found"),
    (f"scheduler jobs pause absent {AT}", "was not found"),
    (f"container node-pools delete absent {ON_ALPHA}", "Not found"),
    (f"container node-pools create sold-out {ON_ALPHA} {SLICE}", "GCE_STOCKOUT"),
)


def find_documents() -> Path:
    """Return the folder of the documents; without one the test fails, and says how to go on."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    package = importlib.util.find_spec("googleapiclient")
    if package is None or package.origin is None:
        pytest.fail(f"no discovery documents: {REMEDY}")
    return Path(package.origin).parent / "discovery_cache" / "documents"


def gcloud_environment(rest: str, folder: Path) -> dict[str, str]:
    """Return the environment in which gcloud asks a stand-in, with no other configuration."""
    overrides = {name: f"{rest}/apis/{name}/" for name in APIS}
    overrides |= {"storage": f"{rest}/apis/storage/storage/v1/", "compute": f"{rest}/apis/compute/compute/v1/"}
    overrides |= dict.fromkeys(("container", "pubsub"), f"{rest}/")  # these are played
    return {
        **os.environ,
        **{f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{name.upper()}": url for name, url in overrides.items()},
        "CLOUDSDK_CONFIG": str(folder / "gcloud"),
        "KUBECONFIG": str(folder / "kubeconfig"),
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CORE_PROJECT": "demo",
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
    }


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("google")
    place = (
        "--project=demo",
        "--location=us-east5",
        "--cluster=alpha",
        "--speed=600",
        "--pubsub",
        "--machines-everywhere",
    )
    with running_stand_in(folder, "standins.google", *place, f"--apis={find_documents()}") as started:
        yield started.addresses["rest"]


def run(rest: str, folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("gcloud")
    if program is None:
        pytest.fail("gcloud is not on the PATH: install the Google Cloud CLI, or leave the tier `tool` out")
    environment = gcloud_environment(rest, folder)
    words = [program, *command.split(" ")]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=90, check=False)


def test_gcloud_makes_reads_and_deletes(rest: str, tmp_path: Path) -> None:
    for command, words in COMMANDS:
        answer = run(rest, tmp_path, command)
        assert answer.returncode == 0, (command, answer.stderr)
        assert words in answer.stdout + answer.stderr, (command, answer.stdout, answer.stderr)


def test_what_was_not_made_is_not_there_and_a_stockout_is_told(rest: str, tmp_path: Path) -> None:
    httpx.post(f"{rest}/admin/faults", json={"switch": "outcome"}).raise_for_status()
    for command, words in REFUSED:
        answer = run(rest, tmp_path, command)
        assert (answer.returncode, words in answer.stderr) == (1, True), (command, answer.stderr)


def test_what_was_made_is_refused_a_second_time_and_a_wrong_field_names_itself(rest: str) -> None:
    topic = f"{rest}/apis/pubsub/v1/projects/demo/topics/twice"

    assert [httpx.put(topic, json={}).status_code for _ in range(2)] == [200, 409]
    refused = httpx.put(f"{topic}-more", json={"label": {}})
    assert refused.status_code == 400
    assert 'Unknown name "label": Cannot find field.' in refused.json()["error"]["message"]
    assert httpx.get(f"{rest}/apis/pubsub/v1/nowhere").status_code == 404
