"""The real gcloud against the APIs that only their discovery documents describe.

Tier `tool`: needs gcloud, and the documents of the package `google-api-python-client`.
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

pytestmark = [pytest.mark.tool, pytest.mark.slow]
VARIABLE = "DISCOVERY_DOCUMENTS"
REMEDY = f"pip install --no-deps google-api-python-client, or set {VARIABLE} to a folder of them"
APIS = (
    *("artifactregistry", "cloudresourcemanager", "cloudscheduler", "iam", "logging", "pubsub"),
    "serviceusage",
)
EMAIL = "deployer@demo.iam.gserviceaccount.com"
MEMBER = "--member=user:a@example.com"
AT = "--location=us-east5"
COMMANDS = (
    ("services enable run.googleapis.com pubsub.googleapis.com", ""),
    ("services list --enabled --format=value(config.name)", "run.googleapis.com"),
    ("iam service-accounts create deployer --display-name=x", "Created service account"),
    (f"iam service-accounts describe {EMAIL}", "email: deployer@demo"),
    (f"iam service-accounts add-iam-policy-binding {EMAIL} {MEMBER} --role=roles/viewer", "user:a@example.com"),
    (f"projects add-iam-policy-binding demo {MEMBER} --role=roles/viewer --condition=None", "roles/viewer"),
    ("projects describe demo", "projectNumber"),
    ("iam roles create poolOperator --project=demo --permissions=container.clusters.get", "poolOperator"),
    ("iam roles describe poolOperator --project=demo", "container.clusters.get"),
    (f"artifacts repositories create images {AT} --repository-format=docker", ""),
    (f"artifacts repositories describe images {AT}", "format: DOCKER"),
    (f"artifacts repositories delete images {AT}", ""),
    (f"scheduler jobs create http tick --schedule=*/5&*&*&*&* --uri=http://x {AT}", "projects/demo"),
    (f"scheduler jobs pause tick {AT}", "Job has been paused"),
    (f"storage buckets create gs://state-bucket {AT}", "Creating"),
    ("storage cp pyproject.toml gs://state-bucket/a/text", "Copying"),
    ("storage ls gs://state-bucket/a/", "gs://state-bucket/a/text"),
    ("storage cat gs://state-bucket/a/text", "[project]"),
    ("storage rm gs://state-bucket/a/text", "Removing"),
    ("storage buckets delete gs://state-bucket", ""),
    ("compute networks create net --subnet-mode=custom", "Created"),
    ("pubsub topics create events", "Created topic"),
    ("logging sinks create s1 pubsub.googleapis.com/projects/demo/topics/events --log-filter=x", "Created"),
)


def find_documents() -> Path:
    """Return the folder of the documents; without one the test fails, and says how to go on."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    package = importlib.util.find_spec("googleapiclient")
    if package is None or package.origin is None:
        pytest.fail(f"no discovery documents: {REMEDY}")
    return Path(package.origin).parent / "discovery_cache" / "documents"


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("google")
    with running_stand_in(folder, "standins.google", f"--apis={find_documents()}") as started:
        yield started.addresses["rest"]


def run(rest: str, folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("gcloud")
    if program is None:
        pytest.fail("gcloud is not on the PATH: install the Google Cloud CLI, or leave the tier `tool` out")
    overrides = {name: f"{rest}/apis/{name}/" for name in APIS}
    overrides |= {"storage": f"{rest}/apis/storage/storage/v1/", "compute": f"{rest}/apis/compute/compute/v1/"}
    environment = {
        **os.environ,
        **{f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{name.upper()}": url for name, url in overrides.items()},
        "CLOUDSDK_CONFIG": str(folder / "gcloud"),
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CORE_PROJECT": "demo",
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
    }
    words = [word.replace("&", " ") for word in command.split(" ")]
    return subprocess.run(
        [program, *words], env=environment, capture_output=True, text=True, timeout=90, check=False
    )


def test_gcloud_makes_reads_and_deletes_as_the_builds_scripts_do(rest: str, tmp_path: Path) -> None:
    for command, words in COMMANDS:
        answer = run(rest, tmp_path, command)
        assert answer.returncode == 0, (command, answer.stderr)
        assert words in answer.stdout + answer.stderr, (command, answer.stdout, answer.stderr)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("pubsub topics describe absent", "was not found"),
        ("iam service-accounts describe absent@demo.iam.gserviceaccount.com", "was not found"),
        ("storage buckets describe gs://absent", "not found"),
    ],
)
def test_what_was_not_made_is_not_there(rest: str, tmp_path: Path, command: str, words: str) -> None:
    answer = run(rest, tmp_path, command)

    assert answer.returncode == 1
    assert words in answer.stderr


def test_what_was_made_is_refused_a_second_time_and_a_wrong_field_names_itself(rest: str) -> None:
    topic = f"{rest}/apis/pubsub/v1/projects/demo/topics/twice"

    assert [httpx.put(topic, json={}).status_code for _ in range(2)] == [200, 409]
    refused = httpx.put(f"{topic}-more", json={"label": {}})
    assert refused.status_code == 400
    assert 'Unknown name "label": Cannot find field.' in refused.json()["error"]["message"]
    assert httpx.get(f"{rest}/apis/pubsub/v1/nowhere").status_code == 404
