"""bootstrap.sh with the real gcloud on Google's APIs as their discovery documents describe them.

Tier `tool`: see `standins/google/tests/test_generic_gcloud.py`, which says where the documents are
from. A flag that gcloud does not have, a field that an API does not have, and a condition that
gcloud cannot read end a run. What is made is found again by the second one.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from standins.google.tests.test_generic_gcloud import APIS, find_documents
from standins.kit.processes import running_stand_in
from tests.infra.bench import ROOT

pytestmark = [pytest.mark.tool, pytest.mark.slow, pytest.mark.timeout(1200)]
PROJECT = "demo-project"
DEPLOYER = f"serviceAccount:tpu-provisioner-deployer@{PROJECT}.iam.gserviceaccount.com"


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("google")
    with running_stand_in(
        folder, "standins.google", f"--project={PROJECT}", f"--apis={find_documents()}"
    ) as started:
        yield started.addresses["rest"]


def bootstrap(rest: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    overrides = {name: f"{rest}/apis/{name}/" for name in APIS}
    overrides |= {"storage": f"{rest}/apis/storage/storage/v1/", "compute": f"{rest}/apis/compute/compute/v1/"}
    environment = {
        **os.environ,
        **{f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{name.upper()}": url for name, url in overrides.items()},
        "CLOUDSDK_CONFIG": str(folder / "gcloud"),
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
        "PAUSE_SECONDS": "0",
    }
    command = ["bash", str(ROOT / "infra/bootstrap.sh"), "us-central1", f"--project={PROJECT}", "--yes", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)


def read_policy(rest: str) -> set[tuple[str, str, str]]:
    answer = httpx.post(f"{rest}/apis/cloudresourcemanager/v1/projects/{PROJECT}:getIamPolicy", json={})
    return {
        (member, binding["role"], binding.get("condition", {}).get("expression", ""))
        for binding in answer.json()["bindings"]
        for member in binding["members"]
    }


def test_an_owner_runs_it_twice_and_the_builds_can_grant_nothing(rest: str, tmp_path: Path) -> None:
    first = bootstrap(rest, tmp_path)
    assert first.returncode == 0, first.stdout + first.stderr
    granted = read_policy(rest)
    second = bootstrap(rest, tmp_path)
    assert second.returncode == 0, second.stdout + second.stderr

    assert read_policy(rest) == granted
    roles = {role: expression for member, role, expression in granted if member == DEPLOYER}
    training = f"projects/{PROJECT}/locations/us-central1/clusters/training"
    assert f'resource.name == "{training}"' in roles["roles/container.admin"]
    assert not {each for each in roles if "projectIamAdmin" in each or "roleAdmin" in each or "owner" in each}
