"""One deployment, from an empty project to nothing: build scripts with real gcloud and terraform.

The cloud is a mock of Google's APIs (docs/proof.md says what it shows). The tests follow each other
on one of its projects.
"""

import json

import pytest

from infra.build.check_state import find_difference
from infra.build.limit_grants import TENSORBOARD, list_roles
from tests.deploy.created_objects import CreatedObjects
from tests.infra.build_project import TERRAFORM_SCRIPT, Project
from tests.infra.changed_inputs import APPLIED, REFUSED, make_subnet
from tests.infra.mock_google_cloud import HOST_PROJECT, PROJECT

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(1800)]

STATE_BUCKET = f"{PROJECT}-tpu-provisioner-state"


@pytest.fixture(scope="module")
def project(environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Project:
    """With elastic pools, so that every role of the functions is there."""
    more = {"ALERT_EMAIL": "team@example.com", "TERRAFORM_VARIABLES": "elastic.json"}
    project = Project.make(tmp_path_factory.mktemp("project"), environ, **more)
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
    answer = project.run(TERRAFORM_SCRIPT, fails=True, PLAN_ONLY="true")
    assert "does not exist, so nothing is deployed" in answer
    assert "these exist already, and nothing shows that tpu-provisioner made them" in answer
    assert f"(projects/{PROJECT}/sinks/{name})" in answer
    created.client.delete(f"{sinks}/{name}").raise_for_status()


def test_an_empty_project_gets_everything(project: Project) -> None:
    for script in ("provision-02-state-bucket.sh", "provision-04-image-repository.sh", TERRAFORM_SCRIPT):
        project.run(script)
    outputs = json.loads((project.build / "outputs.json").read_text())
    path = f"projects/{PROJECT}/locations/us-east5/clusters/training"
    assert outputs["clusters"]["value"]["environment"]["path"] == path
    job = f"projects/{PROJECT}/locations/us-central1/jobs/tpu-provisioner-sweep"
    assert outputs["scheduler_job"]["value"] == job
    assert len(project.list_addresses()) > 70


def test_a_plan_of_a_second_run_has_nothing_to_change(project: Project) -> None:
    planned = project.run(TERRAFORM_SCRIPT, PLAN_ONLY="true")
    assert "No changes" in planned
    assert "Only planned: applying this plan" in planned


def test_the_builds_can_be_limited_to_the_roles_that_were_granted(project: Project) -> None:
    policy = json.loads(project.gcloud("projects", "get-iam-policy", PROJECT, "--format=json"))
    granted = {each["role"] for each in policy["bindings"]}
    # As gcloud lists them, which the mock cannot.
    custom = [{"name": role, "description": f" in project {PROJECT} need"} for role in granted]
    inputs = project.environ | {"NAME": "tpu-provisioner", "CREATE_ENVIRONMENT": "true"}

    assert granted | {TENSORBOARD} == set(list_roles(PROJECT, inputs, {}, custom))


def test_a_change_that_loses_something_is_refused_and_nothing_is_lost(
    project: Project, created: CreatedObjects
) -> None:
    before = project.list_addresses()
    state = json.loads((project.build / "state.json").read_text())
    inputs = project.environ | {"NAME": "tpu-provisioner"}
    lost = ("NETWORK_NAME", "SUBNET_NAME", "ARTIFACT_REPOSITORY_BUCKET_NAME", "IMAGE_REPOSITORY")
    assert find_difference(state, inputs) == ""
    for name in REFUSED.keys() - {*lost, "NETWORK_PROJECT"}:
        assert " is the state of " in find_difference(state, inputs | {name: REFUSED[name]}), name
    names = {name: (REFUSED | APPLIED)[name] for name in lost}
    answer = project.run(TERRAFORM_SCRIPT, fails=True, **names)
    kept = ("network/training", "subnet/training", "bucket/training-artifacts", "repository/training-images")
    for each in (*kept, "cluster/training"):
        assert f"  {each} is replaced" in answer

    project.gcloud("services", "enable", "compute.googleapis.com", f"--project={HOST_PROJECT}")
    make_subnet(created, "training", HOST_PROJECT, "us-east5")
    answer = project.run(TERRAFORM_SCRIPT, fails=True, NETWORK_PROJECT=REFUSED["NETWORK_PROJECT"])
    for each in ("network/training is deleted", "subnet/training is deleted", "cluster/training is replaced"):
        assert f"  {each}" in answer

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

    answer = project.destroy()
    assert "Lifting the cluster's deletion protection" in answer
    assert "Kept: gs://training-artifacts" in answer
    assert "Kept: the repository of the users' images" in answer
    hosted = ["training", "training"]  # the network and the subnet of the host project
    kept = ["tpu-provisioner-images", *hosted, "training-artifacts", "training-images", STATE_BUCKET]
    assert created.list_left() == kept
    assert created.list_grants() == []
