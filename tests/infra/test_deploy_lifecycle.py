"""One deployment, from an empty project to nothing: build scripts with real gcloud and terraform.

The cloud is a mock of Google's APIs (docs/proof.md says what it shows). The tests follow each other
on one of its projects.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.infra.build_scripts import BUILD, ROOT
from tests.infra.mock_google_cloud import PROJECT, serve_google_cloud
from tests.infra.terraform_cli import TERRAFORM

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(900)]

INPUTS = {
    "PROJECT_ID": PROJECT,
    "REGION": "us-east5",
    "SERVICES_REGION": "us-central1",
    "ZONE": "us-east5-b",
    "CLUSTER_NAME": "training",
    "NETWORK_NAME": "training",
    "SUBNET_NAME": "training",
    "ARTIFACT_REPOSITORY_BUCKET_NAME": "training-artifacts",
}
NOT_LOST = ("google_logging_metric", "google_artifact_registry_repository")
"""A second create of these is no 409 in the mock, as it is at Google."""
IDENTITIES = ("google_project_iam", "_iam_member", "_iam_binding", "google_monitoring", "terraform_data")
"""What can be created twice, or has a new name each time."""


class Project:
    """A project of the mock, with a copy of the source that scripts run in.

    The lock files stay out: a mirror's provider may be built from source, and then has
    another checksum.
    """

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.source, self.build = folder / "source", folder / "build"
        self._environ = environ
        self.source.mkdir()
        for name in (
            "infra",
            "shared",
            "functions",
            "exporter",
            "requirements",
            "requirements.txt",
            "pyproject.toml",
        ):
            path = ROOT / name
            if path.is_dir():
                shutil.copytree(path, self.source / name, ignore=shutil.ignore_patterns(".terraform*"))
            else:
                shutil.copy(path, self.source / name)

    def run(self, script: str, *, fails: bool = False, **inputs: str) -> str:
        """Run one script and return what it said."""
        environ = self._environ | INPUTS | {"BUILD_FOLDER": str(self.build)} | inputs
        command = ["bash", str(self.source / BUILD.relative_to(ROOT) / script)]
        done = subprocess.run(
            command, cwd=self.source, env=environ, capture_output=True, text=True, timeout=600, check=False
        )
        assert (done.returncode != 0) == fails, f"{script}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout + done.stderr

    def terraform(self, *words: str) -> str:
        """Run terraform on the state that the last script prepared."""
        root = self.source / TERRAFORM.relative_to(ROOT) / "complete"
        environ = self._environ | {"TF_DATA_DIR": str(self.build / "terraform")}
        command = ["terraform", f"-chdir={root}", *words]
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300, check=True).stdout

    def list_buckets(self) -> str:
        """Return the names of the project's buckets, as gcloud lists them."""
        command = ["gcloud", "storage", "buckets", "list", "--format=value(name)"]
        return subprocess.run(
            command, env=self._environ, capture_output=True, text=True, timeout=120, check=True
        ).stdout

    def list_addresses(self) -> list[str]:
        """Return the resources in the state, without those that are only read."""
        return [each for each in self.terraform("state", "list").splitlines() if ".data." not in each]


def enable_first_apis(environ: dict[str, str]) -> None:
    """Enable what a person enables by hand, before the first build."""
    apis = [f"{each}.googleapis.com" for each in ("cloudbuild", "iam", "cloudresourcemanager")]
    subprocess.run(
        ["gcloud", "services", "enable", *apis], env=environ, check=True, capture_output=True, timeout=120
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("cloud")
    with serve_google_cloud(folder) as environ:
        made = Project(folder, environ)
        enable_first_apis(environ)
        yield made


def test_an_empty_project_gets_everything(project: Project) -> None:
    for script in ("check-inputs.sh", "provision-01-apis.sh", "provision-03-functions.sh"):
        project.run(script)
    planned = project.run("provision-07-terraform.sh", PLAN_ONLY="true")
    assert "does not exist, so nothing is deployed" in planned
    assert "Only planned: applying this plan" in planned

    for script in (
        "provision-02-state-bucket.sh",
        "provision-04-image-repository.sh",
        "provision-07-terraform.sh",
    ):
        project.run(script)
    outputs = json.loads((project.build / "outputs.json").read_text())
    path = f"projects/{PROJECT}/locations/us-east5/clusters/training"
    assert outputs["clusters"]["value"]["environment"]["path"] == path
    job = f"projects/{PROJECT}/locations/us-central1/jobs/tpu-provisioner-sweep"
    assert outputs["scheduler_job"]["value"] == job
    assert len(project.list_addresses()) > 70


def test_a_second_run_changes_nothing(project: Project) -> None:
    assert "No changes" in project.run("provision-07-terraform.sh")


def test_another_cluster_or_bucket_is_refused_and_nothing_is_lost(project: Project) -> None:
    before = project.list_addresses()
    said = project.run("provision-07-terraform.sh", fails=True, CLUSTER_NAME="second")
    assert "clusters/training, and the inputs name" in said
    said = project.run("provision-07-terraform.sh", fails=True, ARTIFACT_REPOSITORY_BUCKET_NAME="other-artifacts")
    assert "ALLOW_DELETE='bucket/training-artifacts'" in said

    assert project.list_addresses() == before
    assert "No changes" in project.run("provision-07-terraform.sh")


def test_a_run_after_a_killed_one_takes_over_what_that_one_made(project: Project) -> None:
    before = project.list_addresses()
    lost = [
        each
        for each in before
        if not any(word in each for word in NOT_LOST) and not any(word in each for word in IDENTITIES)
    ]
    assert len(lost) > 25
    project.terraform("state", "rm", *lost)
    said = project.run("provision-07-terraform.sh")

    assert "is of a build that was killed, so it is taken over" in said
    assert project.list_addresses() == before
    assert "No changes" in project.run("provision-07-terraform.sh")


def test_destroy_leaves_nothing_but_the_checkpoints_and_another_deployment_takes_them_over(
    project: Project,
) -> None:
    project.run("terraform-init.sh")
    said = project.run("destroy-05-terraform.sh")
    assert "Lifting the cluster's deletion protection" in said
    assert "Kept: gs://training-artifacts" in said
    assert project.list_addresses() == []
    assert "training-artifacts" in project.list_buckets()

    said = project.run("provision-07-terraform.sh")
    assert "is of a build that was killed, so it is taken over" in said
    assert "module.environment.google_storage_bucket.artifacts" in project.list_addresses()

    project.run("terraform-init.sh")
    said = project.run("destroy-05-terraform.sh", DELETE_ARTIFACTS="true")
    assert "Kept: gs://training-artifacts" not in said
    assert project.list_addresses() == []
    assert "training-artifacts" not in project.list_buckets()
