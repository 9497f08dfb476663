"""Deployments that share a project of the mock of Google Cloud, and what is not theirs.

The tests follow each other: an API that is not enabled, a state of something else, a second
deployment, an update.
"""

from pathlib import Path

import pytest

from tests.infra.build_project import Project
from tests.infra.mock_google_cloud import PROJECT

pytestmark = [pytest.mark.deploy, pytest.mark.by_hand, pytest.mark.timeout(1800)]

BESIDE = {
    "NAME": "beside",
    "CREATE_ENVIRONMENT": "false",
    "NODE_SERVICE_ACCOUNTS": f"gke-sa@{PROJECT}.iam.gserviceaccount.com",
    "NETWORK_NAME": "",
    "SUBNET_NAME": "",
    "ARTIFACT_REPOSITORY_BUCKET_NAME": "",
    "IMAGE_REPOSITORY": "",
}
FOREIGN = """
terraform {
  backend "gcs" {}
}
resource "google_storage_bucket" "checkpoints" {
  project  = "%s"
  name     = "another-bucket"
  location = "us-east5"
}
"""


@pytest.fixture(scope="module")
def first(environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project.make(tmp_path_factory.mktemp("first"), environ)


def test_an_api_that_is_not_enabled_is_named_and_the_next_build_goes_on(first: Project) -> None:
    first.prepare()
    first.gcloud("services", "disable", "cloudscheduler.googleapis.com")
    answer = first.run("provision-07-terraform.sh", fails=True, RETRY_PAUSE_SECONDS="0", TERRAFORM_WAITS="2")
    assert "cloudscheduler.googleapis.com" in answer
    assert "wait 2 of 2" in answer
    assert "Terraform failed; correct what it says above, then run this build again" in answer

    for script in ("provision-01-apis.sh", "provision-07-terraform.sh"):
        first.run(script)
    assert first.is_up_to_date()


def test_a_state_of_something_else_is_refused_and_stays_as_it_is(
    first: Project, environ: dict[str, str], tmp_path: Path
) -> None:
    root = tmp_path / "foreign"
    root.mkdir()
    (root / "main.tf").write_text(FOREIGN % PROJECT)
    backend = (f"-backend-config=bucket={PROJECT}-tpu-provisioner-state", "-backend-config=prefix=foreign")
    foreign = Project(root, tmp_path / "data", environ)
    foreign.terraform("init", *backend, root=root)
    foreign.terraform("apply", "-auto-approve", root=root)

    for script in ("provision-07-terraform.sh", "terraform-init.sh"):
        answer = first.run(script, fails=True, TF_STATE_PREFIX="foreign")
        assert "is the state of another configuration (it has google_storage_bucket.checkpoints)" in answer
    assert foreign.terraform("state", "list", root=root).split() == ["google_storage_bucket.checkpoints"]
    assert "another-bucket" in first.list_buckets()


def test_a_second_deployment_comes_and_goes_and_the_first_is_as_it_was(
    first: Project, environ: dict[str, str], tmp_path: Path
) -> None:
    """The second one is of the other root, beside the first one's cluster."""
    second = Project.make(tmp_path, environ, **BESIDE)
    second.provision()
    assert len(second.list_addresses()) > 50
    assert second.is_up_to_date()
    assert first.is_up_to_date()

    second.destroy(DELETE_ARTIFACTS="true")
    assert first.is_up_to_date()


def test_an_update_of_the_settings_replaces_nothing(first: Project) -> None:
    changed = {"MODE": "report-only", "LIMIT_CHIPS": "16"}
    first.run("provision-07-terraform.sh", fails=False, **changed)
    actions = first.read_plan()
    updated = {address for address, each in actions.items() if each == ["update"]}
    assert {each.partition("[")[0] for each in updated} == {
        "module.provisioner.google_cloudfunctions2_function.this"
    }
    assert not any({"delete", "create"} & {*each} for each in actions.values())
    assert first.is_up_to_date(**changed)
