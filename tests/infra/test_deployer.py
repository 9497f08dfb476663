"""The rights of the builds' account: what the script grants, and who needs it."""

import re
from pathlib import Path

import pytest

from tests.infra.build_scripts import Bench
from tests.infra.terraform_cli import MODULES, TERRAFORM
from tests.infra.terraform_text import read_configuration

NEEDED = {
    "google_artifact_registry_repository": "artifactregistry.admin",
    "google_cloud_run_v2_service": "run.admin",
    "google_cloud_scheduler_job": "cloudscheduler.admin",
    "google_cloudfunctions2_function": "cloudfunctions.admin",
    "google_compute_network": "compute.networkAdmin",
    "google_compute_resource_policy": "NAME_deployer",
    "google_compute_router": "compute.networkAdmin",
    "google_compute_router_nat": "compute.networkAdmin",
    "google_compute_subnetwork": "compute.networkAdmin",
    "google_container_cluster": "container.admin",
    "google_container_node_pool": "container.admin",
    "google_logging_metric": "logging.configWriter",
    "google_logging_project_sink": "logging.configWriter",
    "google_monitoring_alert_policy": "monitoring.editor",
    "google_monitoring_custom_service": "monitoring.editor",
    "google_monitoring_dashboard": "monitoring.editor",
    "google_monitoring_monitored_project": "monitoring.metricsScopesAdmin",
    "google_monitoring_notification_channel": "monitoring.editor",
    "google_monitoring_slo": "monitoring.editor",
    "google_project": "resourcemanager.projectIamAdmin",
    "google_project_iam_custom_role": "iam.roleAdmin",
    "google_pubsub_subscription": "pubsub.admin",
    "google_pubsub_topic": "pubsub.admin",
    "google_service_account": "iam.serviceAccountAdmin",
    "google_storage_bucket": "storage.admin",
    "google_storage_bucket_object": "storage.admin",
    "google_vertex_ai_tensorboard": "aiplatform.admin",
}
"""The role that creates each kind of resource; grants on a resource need that of the resource."""
OF_DATA = {
    "google_compute_subnetwork": "compute.networkViewer",
    "google_container_cluster": "NAME_deployer_groups",
}
"""What is only read, and which role that needs."""
OF_SCRIPTS = {"iam.serviceAccountUser", "logging.logWriter", "logging.viewer", "serviceusage.serviceUsageAdmin"}
"""What no resource needs, but the scripts, or Google's check of who may act as an account."""
NODES = "nodes@clusters-project.iam.gserviceaccount.com"
ACROSS = {
    "PROJECT_ID": "home-project",
    "CLUSTER_PROJECT": "clusters-project",
    "CREATE_ENVIRONMENT": "false",
    "NODE_SERVICE_ACCOUNTS": f"{NODES},more@home-project.iam.gserviceaccount.com",
    "FUNCTIONS_EGRESS": "all",
    "FUNCTIONS_SUBNET": "projects/host-project/regions/us-east5/subnetworks/functions",
}


def grant(folder: Path, **inputs: str) -> set[tuple[str, str]]:
    """Run the script on a pretended cloud; return role and object of each grant."""
    bench = Bench.make(folder)
    bench.run("deployer.sh", inputs)
    return {(role.removeprefix("roles/"), where) for _, role, where in bench.grants}


@pytest.fixture(scope="module")
def of_environment(tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, str]]:
    return grant(tmp_path_factory.mktemp("e"), PROJECT_ID="home-project", CREATE_TENSORBOARD="true")


@pytest.fixture(scope="module")
def across(tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, str]]:
    return grant(tmp_path_factory.mktemp("a"), **ACROSS)


def test_every_kind_of_resource_has_its_role_and_no_role_is_for_nothing(
    of_environment: set[tuple[str, str]], across: set[tuple[str, str]]
) -> None:
    kinds = {
        re.sub(r"_iam_(member|binding)$", "", each.type)
        for folder in MODULES
        for each in read_configuration(TERRAFORM / folder).of("resource")
    } - {"terraform_data", "google_billing_budget"}  # a person grants what a budget needs, on the billing account
    granted = {
        re.sub(r"^projects/[a-z]+-project/roles/tpu_provisioner_deployer", "NAME_deployer", role)
        for role, _ in of_environment | across
    }

    assert kinds == NEEDED.keys()
    assert granted == set(NEEDED.values()) | set(OF_DATA.values()) | OF_SCRIPTS
