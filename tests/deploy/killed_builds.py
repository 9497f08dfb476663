"""Kills the build while Terraform creates, as Cloud Build does, and makes the mock ready for the
next one.

Each kill is SIGKILL to all of its processes: Terraform keeps its lock, and its state lacks what it
has just made.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from tests.deploy.created_objects import CreatedObjects
from tests.infra.build_project import Project
from tests.infra.mock_google_cloud import PROJECT

LOCK = f"gs://{PROJECT}-tpu-provisioner-state/tpu-provisioner/default.tflock"
_DASHBOARDS = f"https://monitoring.googleapis.com/v1/projects/{PROJECT}/dashboards"
"""A program that was built from older handlers has no list of them."""
_NO_409 = ("metrics", "repositories", "services", "serviceLevelObjectives")
"""Where a program that was built from older fillers answers a second create with 500. Terraform's
provider repeats such a call for twenty minutes, so what the state lacks is deleted first."""


def kill_when(project: Project, reached: Callable[[], bool], log: Path) -> bool:
    """Run Terraform's script and kill it when a point is reached; return whether it was."""
    with log.open("ab") as file:
        process = project.start("provision-07-terraform.sh", file)
        while process.poll() is None:
            if reached():
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return True
            time.sleep(0.1)
    assert process.returncode == 0, log.read_text()[-6000:]
    return False


def clear_up(project: Project, created: CreatedObjects) -> None:
    """Do what a person does after a killed build, and what an older program of the mock needs."""
    _unlock(project)
    if not _refuses_doubles(created):
        _forget(project, created, _NO_409)
    if not created.client.get(_DASHBOARDS).is_success:  # so no build can find one by its title
        _forget(project, created, ("dashboards",))


def _unlock(project: Project) -> None:
    """Do what docs/deploy.md says about the state's lock of a killed build."""
    command = ["gcloud", "storage", "objects", "describe", LOCK, "--format=value(generation)"]
    lock = subprocess.run(command, env=project.environ, capture_output=True, text=True, check=False)
    if lock.returncode == 0:  # Terraform names a lock in a bucket by its generation
        project.terraform("force-unlock", "-force", lock.stdout.strip())


def _refuses_doubles(created: CreatedObjects) -> bool:
    """Return whether the program answers a second create of a metric with 409, as Google does."""
    metrics = f"https://logging.googleapis.com/v2/projects/{PROJECT}/metrics"
    probe = {"name": "probe", "filter": "a"}
    codes = [created.client.post(metrics, json=probe).status_code for _ in range(2)]
    created.client.delete(f"{metrics}/probe")
    assert codes[0] == httpx.codes.OK
    return codes[1] == httpx.codes.CONFLICT


def _forget(project: Project, created: CreatedObjects, collections: tuple[str, ...]) -> None:
    """Delete what the mock can neither refuse nor list, if the state lacks it."""
    kept = json.dumps(json.loads(project.terraform("state", "pull")).get("resources", []))
    for each in created.list_created():
        is_kept = f'"{each.name}"' in kept or f'dashboards/{each.name}"' in kept or each.name.endswith("-images")
        if each.collection in collections and not is_kept:
            created.client.delete(each.address)
