"""A deployment whose inputs change, by the scripts with real gcloud and terraform on the mock.

test_deploy_lifecycle.py has the inputs whose change is refused.
"""

import json
from pathlib import Path

import pytest

from tests.deploy.created_objects import CreatedObjects
from tests.infra.build_project import TERRAFORM_SCRIPT, Project
from tests.infra.changed_inputs import APPLIED, make_subnet
from tests.infra.mock_google_cloud import PROJECT

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(1800)]

LASTING = {
    *("google_container_cluster", "google_container_node_pool", "google_compute_network"),
    *("google_compute_subnetwork", "google_pubsub_topic", "google_pubsub_subscription"),
}
"""Types of which no change of an input may delete one unasked: jobs and messages go with them."""


def test_every_input_that_can_change_is_changed_and_the_next_build_has_nothing_to_do(
    environ: dict[str, str], created: CreatedObjects, tmp_path: Path
) -> None:
    """Terraform moves the functions to another region, and their source stays where it is.

    The functions go into a network there, and the control plane is private. The CPU pool names its
    zone, so that it stays there when ZONE changes.
    """
    project = Project.make(tmp_path, environ, ALERT_EMAIL="team@example.com", TERRAFORM_VARIABLES="more.json")
    more = {"elastic_pools": True, "cpu_pool_zones": ["us-east5-b"]}
    (project.source / "more.json").write_text(json.dumps(more))
    project.provision()

    make_subnet(created, "functions", PROJECT, "us-east1")
    project.environ |= APPLIED
    project.run("provision-01-apis.sh")
    project.run(TERRAFORM_SCRIPT)
    deleted = {address.split(".")[2] for address, actions in project.read_plan().items() if "delete" in actions}
    assert deleted.isdisjoint(LASTING)
    outputs = json.loads((project.build / "outputs.json").read_text())
    job = f"projects/{PROJECT}/locations/us-east1/jobs/tpu-provisioner-sweep"
    assert outputs["scheduler_job"]["value"] == job
    assert outputs["clusters"]["value"]["environment"]["ca_data"]  # with the private address only
    assert "other-artifacts" in project.list_buckets()
    assert project.is_up_to_date()

    answer = project.destroy(DELETE_ARTIFACTS="true")
    assert "Kept: " not in answer
    left = ["functions", "functions", "tpu-provisioner-images", f"{PROJECT}-tpu-provisioner-state"]
    assert created.list_left() == left
    assert created.list_grants() == []
