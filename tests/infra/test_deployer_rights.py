"""The rights of the builds' account: the script that grants them, the page, and who needs them."""

import re
from pathlib import Path

import pytest

from tests.infra.build_scripts import BUILD, Bench
from tests.infra.terraform_cli import MODULES, ROOT, TERRAFORM
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


def test_the_page_explains_each_role_with_what_it_is_on(
    of_environment: set[tuple[str, str]], across: set[tuple[str, str]]
) -> None:
    section = (ROOT / "docs/rights.md").read_text().split("## Who deploys")[1].split("\n##")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    explained = {(row[0].split("`")[1].removeprefix("roles/"), row[1].strip()) for row in rows}
    own = {role for role, where in of_environment if where == "home-project"}
    there = {role for role, where in across if where == "clusters-project"}
    here = {role for role, where in across if where == "home-project"}

    subnets = {role for role, where in across if where == "host-project"}
    holders = {  # by what the page says: who has a role on it, and who has not
        "the project": (own | {"NAME_deployer"}, there),
        "the project, and that of the cluster": (own & here & there, set()),
        "the project of the cluster": (own & there, here),
        "the project of an existing cluster": ({"NAME_deployer_groups"}, set()),
        "both projects": (here & there, own),
        "the project of the functions' subnet": (subnets, own | here | there),
    }
    of_nodes = {role for role, where in across if where == NODES}
    for role, where in explained:
        with_it, without_it = holders.get(where, (of_nodes, set()))
        assert role in with_it, role
        assert role not in without_it, role
    made = "projects/clusters-project/roles/tpu_provisioner_deployer_groups"
    assert (made, "clusters-project") in across
    named = {role for role, _ in explained}
    of_google = {role for role, _ in of_environment | across if "/" not in role}
    assert named - {"NAME_deployer", "NAME_deployer_groups"} == of_google


def test_only_node_accounts_of_other_projects_get_a_grant_of_their_own(across: set[tuple[str, str]]) -> None:
    assert {where for role, where in across if "@" in where} == {NODES}
    assert ("iam.serviceAccountAdmin", "clusters-project") not in across


POLICIES = {f"compute.resourcePolicies.{verb}" for verb in ("create", "delete", "get", "list")}
GROUPS = {f"compute.instanceGroupManagers.{verb}" for verb in ("get", "list")}
"""Terraform's provider lists them for each pool when it reads a cluster (seen with 7.45.0)."""


@pytest.mark.parametrize(
    ("inputs", "roles"),
    [
        ({}, {"home-project": POLICIES}),
        ({"CREATE_ENVIRONMENT": "false"}, {"home-project": GROUPS}),
        ({"CREATE_ENVIRONMENT": "false", "CLUSTER_PROJECT": "clusters-project"}, {"clusters-project": GROUPS}),
        ({"CLUSTER_PROJECT": "clusters-project"}, {"home-project": POLICIES, "clusters-project": GROUPS}),
    ],
)
def test_the_role_of_our_own_allows_what_no_role_of_googles_allows_alone(
    bench: Bench, inputs: dict[str, str], roles: dict[str, set[str]]
) -> None:
    bench.run("deployer.sh", {"PROJECT_ID": "home-project"} | inputs)

    calls = bench.calls
    assert list_own_roles(calls, "update") == roles  # one that exists gets what this version needs
    look = 1 + next(number for number, each in enumerate(calls) if is_look(each))
    bench.change(calls=[], policies={}, fail_at=look)
    bench.run("deployer.sh", {"PROJECT_ID": "home-project"} | inputs)
    first = next(iter(roles))
    assert list_own_roles(bench.calls, "create") == {first: roles[first]}


def test_a_deployment_of_the_same_name_elsewhere_changes_no_role_of_the_first(bench: Bench) -> None:
    ids = []
    for inputs in (
        {"PROJECT_ID": "home-project"},
        {"PROJECT_ID": "another-project", "CLUSTER_PROJECT": "home-project", "CREATE_ENVIRONMENT": "false"},
    ):
        bench.change(calls=[])
        bench.run("deployer.sh", inputs)
        calls = bench.calls
        ids.append({each[4] for each in calls if is_look(each) and "--project=home-project" in each})

    assert ids == [{"tpu_provisioner_deployer"}, {"tpu_provisioner_deployer_groups"}]


def test_a_role_that_was_deleted_is_restored_and_one_that_cannot_be_is_told_in_plain_words(bench: Bench) -> None:
    role = "tpu_provisioner_deployer"
    bench.change(deleted_roles={role: 3})
    done = bench.run("deployer.sh", {"PROJECT_ID": "home-project"})
    assert f"home-project: {role} was deleted, so it is restored" in done.stdout
    assert list_own_roles(bench.calls, "update") == {"home-project": POLICIES}

    bench.change(deleted_roles={role: 20})
    done = bench.run("deployer.sh", {"PROJECT_ID": "home-project"}, code=1)
    assert "which has been marked for deletion" in done.stderr
    assert (
        f"NAME: the role {role} of home-project was deleted, and Google restores a role only for 7" in done.stderr
    )
    assert "Its id is free again 37 days after the deletion; valid until then: another NAME" in done.stderr


def is_look(call: list[str]) -> bool:
    return call[1:4] == ["iam", "roles", "describe"]


def list_own_roles(calls: list[list[str]], verb: str) -> dict[str, set[str]]:
    """Return the permissions of the roles that were made or changed, by project."""
    found = {}
    for call in calls:
        if call[1:4] == ["iam", "roles", verb]:
            options = dict(word.removeprefix("--").partition("=")[::2] for word in call if word.startswith("--"))
            found[options["project"]] = set(options["permissions"].split(","))
    return found


def test_the_apis_that_are_called_before_the_build_enables_any_are_enabled_for_it(bench: Bench) -> None:
    bench.run("deployer.sh", {"PROJECT_ID": "a-project"})
    script = (BUILD / "provision-01-apis.sh").read_text()
    listed = re.search(r"^apis=\((.*?)\)", script, re.MULTILINE | re.DOTALL)

    assert listed
    by_hand = {each.removesuffix(".googleapis.com") for each in bench.world["apis"]}
    # The build; grants and accounts of deployer.sh; what enables the others; the build's source.
    assert by_hand == {"cloudbuild", "cloudresourcemanager", "iam", "serviceusage", "storage"}
    assert by_hand <= set(listed[1].split())
    assert "compute" in listed[1].split(), "the functions read the size of elastic pools"


def test_the_project_is_gclouds_own_if_none_is_given(bench: Bench) -> None:
    bench.change(project="a-project")
    done = bench.run("deployer.sh", {})

    assert "Run builds with: --service-account=projects/a-project/serviceAccounts/" in done.stdout
    bench.change(project="")
    assert "PROJECT_ID: is required" in bench.run("deployer.sh", {}, code=1).stderr
