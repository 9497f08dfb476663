"""One deployment, from an empty project to nothing: build scripts with real gcloud and terraform.

The cloud is a mock of Google's APIs (docs/proof.md says what it shows). The tests follow each other
on one of its projects.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from infra.build.limit_grants import TENSORBOARD, list_roles
from tests.infra.build_project import serve_project
from tests.infra.mock_google_cloud import PROJECT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.infra.build_project import Project

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(900)]

KEPT = (
    "module.environment.google_storage_bucket.artifacts",
    "module.environment.google_artifact_registry_repository.images[0]",
)
NOT_LOST = (
    "google_artifact_registry_repository",
    "google_logging_metric",
    "google_monitoring_custom_service",
    "google_monitoring_slo",
)
"""A second create of these is no 409 in the mock, as it is at Google."""
IDENTITIES = ("_iam_member", "_iam_binding", "google_monitoring_dashboard", "terraform_data")
"""What can be created twice, and dashboards, which the mock cannot list."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with serve_project(tmp_path_factory.mktemp("cloud")) as made:
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


def test_the_builds_can_be_limited_to_the_roles_that_were_granted(project: Project) -> None:
    policy = json.loads(project.gcloud("projects", "get-iam-policy", PROJECT, "--format=json"))
    granted = {each["role"] for each in policy["bindings"]}
    # As gcloud lists them, which the mock cannot.
    custom = [{"name": role, "description": f" in project {PROJECT} need"} for role in granted]
    inputs = project.environ | {"NAME": "tpu-provisioner", "CREATE_ENVIRONMENT": "true"}

    assert granted | {TENSORBOARD} == set(list_roles(PROJECT, inputs, {}, custom))


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

    assert "A killed build created these resources, so this build imports them" in said
    assert "tpu-provisioner: dead letters exists already (" in said
    assert project.list_addresses() == before
    assert "No changes" in project.run("provision-07-terraform.sh")


def test_destroy_keeps_checkpoints_and_images_and_another_deployment_takes_them_over(project: Project) -> None:
    project.run("terraform-init.sh")
    said = project.run("destroy-05-terraform.sh")
    assert "Lifting the cluster's deletion protection" in said
    assert "Kept: gs://training-artifacts" in said
    assert "Kept: the repository of the users' images" in said
    assert project.list_addresses() == []
    assert "training-artifacts" in project.list_buckets()

    said = project.run("provision-07-terraform.sh")
    assert "gs://training-artifacts exists already, so it is taken over" in said
    assert "the repository training-images exists already, so it is taken over" in said
    assert "2 to import" in said
    assert {*KEPT} <= {*project.list_addresses()}


def test_a_cluster_whose_creation_failed_is_not_replaced_and_destroy_deletes_it(project: Project) -> None:
    project.terraform("taint", "module.environment.google_container_cluster.this")
    before = project.list_addresses()
    allowed = "cluster/training pool/cpu-node-pool"
    said = project.run("provision-07-terraform.sh", fails=True, ALLOW_DELETE=allowed)
    assert "cluster/training is replaced, because its creation failed" in said
    assert project.list_addresses() == before

    # A plan for the cluster alone would now also make this grant, which the cluster depends on.
    nodes = f"serviceAccount:gke-sa@{PROJECT}.iam.gserviceaccount.com"
    role = "--role=roles/artifactregistry.reader"
    project.gcloud("projects", "remove-iam-policy-binding", PROJECT, f"--member={nodes}", role, "--condition=None")
    project.run("terraform-init.sh")
    said = project.run("destroy-05-terraform.sh", DELETE_ARTIFACTS="true")
    assert "Lifting the cluster's deletion protection" in said
    assert "Kept: " not in said
    assert project.list_addresses() == []
    assert "training-artifacts" not in project.list_buckets()
