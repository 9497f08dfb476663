"""Builds that are killed, and the next ones, which find again what the state lacks.

The gate kills one that takes over what an earlier deployment has kept. By hand, six are killed one
after another, and then the state is lost.
"""

from pathlib import Path

import pytest

from tests.deploy.created_objects import CreatedObjects
from tests.deploy.killed_builds import clear_up, kill_when
from tests.infra.build_project import TERRAFORM_SCRIPT, Project
from tests.infra.mock_google_cloud import PROJECT

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(1800)]

MISTAKES = [
    (
        "a provision build that is killed in the middle",
        "the next one says so",
        "what was made, in part unknown to Terraform's state",
        "imports what the state lacks, and nothing exists twice",
    ),
    (
        "a cluster whose creation failed",
        "refused: `cluster/… is replaced, because its creation failed`",
        "the failed cluster",
        "succeeds after the destroy build",
    ),
]
KEPT = (
    "module.environment.google_storage_bucket.artifacts",
    "module.environment.google_artifact_registry_repository.images[0]",
)
STATE_BUCKET = f"{PROJECT}-tpu-provisioner-state"
EVERY, KILLS = 6, 6
"""A deployment has about sixty creations, and some more are made until a kill has its effect."""


@pytest.fixture(scope="module")
def project(environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with what a destroyed deployment has kept: the buckets and the users' images."""
    made = Project.make(tmp_path_factory.mktemp("project"), environ, ALERT_EMAIL="team@example.com")
    made.prepare()
    made.run("terraform-init.sh")
    variables = f"-var-file={made.build / 'variables.tfvars.json'}"
    made.terraform("apply", "-auto-approve", variables, *(f"-target={each}" for each in KEPT))
    assert made.destroy().count("Kept: ") == len(KEPT)
    return made


def test_a_deployment_that_takes_over_what_was_kept_is_killed_and_the_next_run_mends_it(
    project: Project, created: CreatedObjects, tmp_path: Path
) -> None:
    """Terraform writes its state every 20 s; here it does not, so the kill leaves an empty one."""
    killed = Project(project.source, project.build, project.environ | {"TF_STATE_PERSIST_INTERVAL": "900"})
    before, log = len(created.list_created()), tmp_path / "killed.log"

    def is_in_the_middle() -> bool:
        new = {each.collection for each in created.list_created()[before:]}
        return {"alertPolicies", "clusters", "dashboards", "notificationChannels"} <= new

    assert kill_when(killed, is_in_the_middle, log)
    for text in (
        "gs://training-artifacts exists already, so it is taken over",
        "the repository training-images exists already, so it is taken over",
        "2 to import",
    ):
        assert text in log.read_text()
    assert len(created.list_created()) - before > 35
    clear_up(project, created)
    assert project.list_addresses() == []

    text = project.run(TERRAFORM_SCRIPT)
    assert "A killed build created these resources, so this build imports them" in text
    assert {*KEPT} <= {*project.list_addresses()}
    assert len(project.list_addresses()) > 70
    assert project.is_up_to_date()


def test_nothing_exists_twice_after_that(created: CreatedObjects) -> None:
    assert created.list_doubles() == []


def test_a_cluster_whose_creation_failed_is_not_replaced_and_destroy_deletes_it(project: Project) -> None:
    project.terraform("taint", "module.environment.google_container_cluster.this")
    before = project.list_addresses()
    allowed = "cluster/training pool/cpu-node-pool"
    answer = project.run(TERRAFORM_SCRIPT, fails=True, ALLOW_DELETE=allowed)
    assert "cluster/training is replaced, because its creation failed" in answer
    assert project.list_addresses() == before

    # A plan for the cluster alone would now also make this grant, which the cluster depends on.
    nodes = f"serviceAccount:gke-sa@{PROJECT}.iam.gserviceaccount.com"
    role = "--role=roles/artifactregistry.reader"
    project.gcloud("projects", "remove-iam-policy-binding", PROJECT, f"--member={nodes}", role, "--condition=None")
    answer = project.destroy(DELETE_ARTIFACTS="true")
    assert "Lifting the cluster's deletion protection" in answer
    assert "Kept: " not in answer
    assert "training-artifacts" not in project.list_buckets()


def test_images_and_state_are_deleted_last_and_then_nothing_is_left(
    project: Project, created: CreatedObjects
) -> None:
    assert "Kept: " in project.run("destroy-07-state-bucket.sh")
    assert project.list_buckets() == [STATE_BUCKET]
    for _ in range(2):  # a second run changes nothing
        project.run("destroy-06-images.sh")
        project.run("destroy-07-state-bucket.sh", DELETE_STATE="true")
        assert project.list_buckets() == []
    assert created.list_grants() == []
    assert created.list_present() == {}


@pytest.mark.by_hand
@pytest.mark.timeout(3000)
def test_six_killed_builds_and_a_lost_state_leave_nothing_that_the_next_builds_do_not_find(
    environ: dict[str, str], created: CreatedObjects, tmp_path: Path
) -> None:
    """Each build is killed after six more creations, of which Terraform makes two at a time."""
    project = Project.make(tmp_path, environ | {"TF_CLI_ARGS_apply": "-parallelism=2"})
    project.prepare()
    kills = 0
    while kills < KILLS:
        enough = len(created.list_created()) + EVERY
        if not kill_when(project, lambda: len(created.list_created()) >= enough, tmp_path / "killed.log"):  # noqa: B023
            break
        kills += 1
        clear_up(project, created)

    assert kills == KILLS
    project.run(TERRAFORM_SCRIPT)
    addresses = project.list_addresses()
    assert len(addresses) > 70
    assert project.is_up_to_date()

    project.gcloud("storage", "rm", "--recursive", f"gs://{STATE_BUCKET}")
    project.run("provision-02-state-bucket.sh")
    assert "so this build takes them over: tpu_provisioner_node_pools_" in project.run(TERRAFORM_SCRIPT)
    assert project.list_addresses() == addresses
    assert project.is_up_to_date()
    assert created.list_doubles() == []
    project.destroy(DELETE_ARTIFACTS="true")
    assert created.list_grants() == []
