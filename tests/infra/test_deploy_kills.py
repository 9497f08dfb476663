"""A build that is killed after every tenth creation, and the run that mends it.

Each kill is SIGKILL to all of its processes, as Cloud Build does: Terraform keeps its lock, and its
state lacks what it has just made.
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.infra.build_project import Project, copy_source, enable_first_apis
from tests.infra.mock_google_cloud import PROJECT, describe_programs, serve_mock

if TYPE_CHECKING:
    from pathlib import Path

    from standins.googlecloud.mock_program import MockCloud

pytestmark = [pytest.mark.deploy, pytest.mark.by_hand, pytest.mark.timeout(1800)]

EVERY = 10
KILLS = 6
"""A deployment has about sixty creations."""
LOCK = f"gs://{PROJECT}-tpu-provisioner-state/tpu-provisioner/default.tflock"
_NO_409: dict[str, tuple[str, ...]] = {
    "logging.googleapis.com": ("metrics",),
    "artifactregistry.googleapis.com": ("repositories",),
    "monitoring.googleapis.com": ("services", "serviceLevelObjectives"),
}
"""Where a program that was built from older fillers answers a second create with 500. Terraform's
provider repeats such a call for twenty minutes, so what the state lacks is deleted first."""
_NAMES = ("repository_id", "serviceId", "serviceLevelObjectiveId")
"""What a query calls the name of a new object, where the body does not have it."""


class Journal:
    """What the mock was asked, from its file."""

    def __init__(self, mock: MockCloud) -> None:
        self._file = mock.folder / f"{mock.name}.jsonl"

    def list_created(self) -> list[dict[str, Any]]:
        """Return the answered calls that create something; grants, uploads and queries do not."""
        lines = self._file.read_text().splitlines(keepends=True)
        calls = [json.loads(each) for each in lines if each.endswith("\n")]
        return [each for each in calls if _creates(each)]


def _creates(call: dict[str, Any]) -> bool:
    path = str(call["path"]).partition("?")[0]
    if call["code"] >= 300 or ":" in path or "/upload/" in path or path.endswith("/iam"):
        return False
    method, host = str(call["method"]), str(call["host"])
    return method == "POST" or (method == "PUT" and host.startswith("pubsub."))


def kill_after(project: Project, journal: Journal, creations: int, log: Path) -> bool:
    """Run Terraform's script and kill it after so many creations; return whether it was."""
    before = len(journal.list_created())
    with log.open("ab") as file:
        process = project.start("provision-07-terraform.sh", file)
        while process.poll() is None:
            if len(journal.list_created()) - before >= creations:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return True
            time.sleep(0.1)
    assert process.returncode == 0, log.read_text()[-6000:]
    return False


def unlock(project: Project) -> None:
    """Do what docs/deploy.md says about the state's lock of a killed build."""
    command = ["gcloud", "storage", "objects", "describe", LOCK, "--format=value(generation)"]
    lock = subprocess.run(command, env=project.environ, capture_output=True, text=True, check=False)
    if lock.returncode == 0:  # Terraform names a lock in a bucket by its generation
        project.terraform("force-unlock", "-force", lock.stdout.strip())


def forget(project: Project, journal: Journal, mock: MockCloud) -> None:
    """Delete what an older program of the mock cannot refuse, if the state lacks it."""
    kept = json.dumps(json.loads(project.terraform("state", "pull")).get("resources", []))
    trust = ssl.create_default_context(cafile=str(mock.authority))
    with httpx.Client(proxy=mock.url, verify=trust, timeout=30, trust_env=False) as client:
        for call in journal.list_created():
            place, _, query = call["path"].partition("?")
            if not place.endswith(_NO_409.get(call["host"], ())):
                continue
            given = httpx.QueryParams(query)
            name = call["request"].get("name") or next((given[key] for key in _NAMES if key in given), "-images")
            if f'"{name}"' not in kept and not name.endswith("-images"):
                client.delete(f"https://{call['host']}{place}/{name}")


def refuses_doubles(mock: MockCloud) -> bool:
    """Return whether the program answers a second create of a metric with 409, as Google does."""
    trust = ssl.create_default_context(cafile=str(mock.authority))
    metrics = f"https://logging.googleapis.com/v2/projects/{PROJECT}/metrics"
    with httpx.Client(proxy=mock.url, verify=trust, timeout=30, trust_env=False) as client:
        codes = [client.post(metrics, json={"name": "probe", "filter": "a"}).status_code for _ in range(2)]
        client.delete(f"{metrics}/probe")
    assert codes[0] == 200
    return codes[1] == 409


def test_a_build_that_is_killed_after_every_tenth_creation_is_mended(tmp_path: Path) -> None:
    with serve_mock(tmp_path, require_enabled=True) as mock:
        environ = describe_programs(tmp_path, mock)
        enable_first_apis(environ)
        project = Project(copy_source(tmp_path / "source"), tmp_path / "build", environ)
        for script in ("check-inputs.sh", "provision-01-apis.sh", "provision-02-state-bucket.sh"):
            project.run(script)
        for script in ("provision-03-functions.sh", "provision-04-image-repository.sh"):
            project.run(script)
        journal, exact = Journal(mock), refuses_doubles(mock)
        kills = 0
        while kills < KILLS and kill_after(project, journal, EVERY, tmp_path / "killed.log"):
            kills += 1
            unlock(project)
            if not exact:
                forget(project, journal, mock)

        assert kills == KILLS
        project.run("provision-07-terraform.sh")
        assert len(project.list_addresses()) > 70
        assert "No changes" in project.run("provision-07-terraform.sh")

        project.run("terraform-init.sh")
        project.run("destroy-05-terraform.sh", DELETE_ARTIFACTS="true")
        assert project.list_addresses() == []
