"""One deployment, from an empty project to nothing: build scripts with real gcloud and terraform.

The cloud is a mock of Google's APIs (docs/proof.md says what it shows). The tests follow each other
on one of its projects.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from infra.build.check_state import find_difference
from infra.build.limit_grants import TENSORBOARD, list_roles
from tests.deploy.created_objects import look_at
from tests.deploy.killed_builds import clear_up, kill_when
from tests.infra.build_project import Project, enable_first_apis
from tests.infra.changed_inputs import APPLIED, REFUSED
from tests.infra.mock_google_cloud import PROJECT, describe_programs, serve_mock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from standins.googlecloud.mock_program import MockCloud
    from tests.deploy.created_objects import CreatedObjects

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


@pytest.fixture(scope="module")
def mock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MockCloud]:
    with serve_mock(tmp_path_factory.mktemp("cloud"), require_enabled=True) as made:
        yield made


@pytest.fixture(scope="module")
def created(mock: MockCloud) -> Iterator[CreatedObjects]:
    with look_at(mock) as found:
        yield found


@pytest.fixture(scope="module")
def project(mock: MockCloud) -> Project:
    """With elastic pools, so that every role of the functions is there."""
    environ = describe_programs(mock.folder, mock)
    enable_first_apis(environ)
    project = Project.make(
        mock.folder, environ, ALERT_EMAIL="team@example.com", TERRAFORM_VARIABLES="elastic.json"
    )
    (project.source / "elastic.json").write_text('{"elastic_pools": true}')
    return project


def test_a_log_sink_of_others_is_not_taken_over(project: Project, created: CreatedObjects) -> None:
    """Terraform's provider updates an existing one without a word."""
    for script in ("check-inputs.sh", "provision-01-apis.sh", "provision-03-functions.sh"):
        project.run(script)
    sinks, name = (
        f"https://logging.googleapis.com/v2/projects/{PROJECT}/sinks",
        "tpu-provisioner-node-pool-operations",
    )
    theirs = {"name": name, "destination": "storage.googleapis.com/theirs", "filter": "severity>=ERROR"}
    created.client.post(sinks, json=theirs).raise_for_status()
    said = project.run("provision-07-terraform.sh", fails=True, PLAN_ONLY="true")
    assert "these exist already, and nothing shows that tpu-provisioner made them" in said
    assert f"(projects/{PROJECT}/sinks/{name})" in said
    created.client.delete(f"{sinks}/{name}").raise_for_status()


def test_an_empty_project_gets_everything(project: Project) -> None:
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
    assert project.is_up_to_date()


def test_the_builds_can_be_limited_to_the_roles_that_were_granted(project: Project) -> None:
    policy = json.loads(project.gcloud("projects", "get-iam-policy", PROJECT, "--format=json"))
    granted = {each["role"] for each in policy["bindings"]}
    # As gcloud lists them, which the mock cannot.
    custom = [{"name": role, "description": f" in project {PROJECT} need"} for role in granted]
    inputs = project.environ | {"NAME": "tpu-provisioner", "CREATE_ENVIRONMENT": "true"}

    assert granted | {TENSORBOARD} == set(list_roles(PROJECT, inputs, {}, custom))


def test_a_change_that_loses_something_is_refused_and_nothing_is_lost(project: Project) -> None:
    before = project.list_addresses()
    state = json.loads((project.build / "state.json").read_text())
    inputs = project.environ | {"NAME": "tpu-provisioner"}
    lost = ("NETWORK_NAME", "SUBNET_NAME", "ARTIFACT_REPOSITORY_BUCKET_NAME", "IMAGE_REPOSITORY")
    assert find_difference(state, inputs) == ""
    for name in REFUSED.keys() - {*lost}:
        assert " is the state of " in find_difference(state, inputs | {name: REFUSED[name]}), name
    names = {name: (REFUSED | APPLIED)[name] for name in lost}
    said = project.run("provision-07-terraform.sh", fails=True, **names)
    kept = ("network/training", "subnet/training", "bucket/training-artifacts", "repository/training-images")
    for each in (*kept, "cluster/training"):
        assert f"  {each} is replaced" in said

    assert project.list_addresses() == before
    assert project.is_up_to_date()


def test_what_could_create_pools_is_stopped_and_a_second_run_changes_nothing(project: Project) -> None:
    outputs = json.loads((project.build / "outputs.json").read_text())
    job = outputs["scheduler_job"]["value"]
    for _ in range(2):
        project.run("destroy-03-makers.sh")
        assert project.gcloud("scheduler", "jobs", "describe", job, "--format=value(state)").strip() == "PAUSED"
        endpoints = project.gcloud(
            "pubsub", "subscriptions", "list", "--format=csv[no-heading](name,pushConfig.pushEndpoint)"
        )
        pushing = [
            each.partition(",")[0].rpartition("/")[2] for each in endpoints.split() if not each.endswith(",")
        ]
        assert pushing == ["tpu-provisioner-collect"]


def test_destroy_keeps_checkpoints_and_images_and_nothing_else(project: Project, created: CreatedObjects) -> None:
    # The check below looks at everything: all that was created is seen while it is there.
    assert {*created.list_present()} == {each.address for each in created.list_created()}

    said = project.destroy()
    assert "Lifting the cluster's deletion protection" in said
    assert "Kept: gs://training-artifacts" in said
    assert "Kept: the repository of the users' images" in said
    left = [each.name for each in created.list_created() if each.address in created.list_present()]
    assert sorted(left) == ["tpu-provisioner-images", "training-artifacts", "training-images", STATE_BUCKET]
    assert created.list_grants() == []


def delete_routes(created: CreatedObjects) -> None:
    """Delete what the mock keeps of a deleted network, and Google does not."""
    routes = f"https://compute.googleapis.com/compute/v1/projects/{PROJECT}/global/routes"
    for each in created.client.get(routes).raise_for_status().json().get("items", ()):
        created.client.delete(f"{routes}/{each['name']}").raise_for_status()


def test_a_deployment_that_takes_over_what_was_kept_is_killed_and_the_next_run_mends_it(
    project: Project, created: CreatedObjects, tmp_path: Path
) -> None:
    """Terraform writes its state every 20 s; here it does not, so the kill leaves an empty one."""
    killed = Project(project.source, project.build, project.environ | {"TF_STATE_PERSIST_INTERVAL": "900"})
    before, log = len(created.list_created()), tmp_path / "killed.log"

    def is_in_the_middle() -> bool:
        new = {each.collection for each in created.list_created()[before:]}
        return {"alertPolicies", "clusters", "dashboards", "notificationChannels"} <= new

    delete_routes(created)
    assert kill_when(killed, is_in_the_middle, log)
    for said in (
        "gs://training-artifacts exists already, so it is taken over",
        "the repository training-images exists already, so it is taken over",
        "2 to import",
    ):
        assert said in log.read_text()
    assert len(created.list_created()) - before > 35
    clear_up(project, created)
    assert project.list_addresses() == []

    said = project.run("provision-07-terraform.sh")
    assert "A killed build created these resources, so this build imports them" in said
    assert {*KEPT} <= {*project.list_addresses()}
    assert len(project.list_addresses()) > 70
    assert project.is_up_to_date()


def test_nothing_exists_twice_after_that(created: CreatedObjects) -> None:
    assert created.list_doubles() == []


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
    said = project.destroy(DELETE_ARTIFACTS="true")
    assert "Lifting the cluster's deletion protection" in said
    assert "Kept: " not in said
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
