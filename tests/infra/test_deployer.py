"""The rights of the builds' account: what the script grants, who needs it, and `LIMIT_GRANTS`."""

import json
import re
from pathlib import Path

import pytest

from infra.build.limit_grants import BUILDS, CUSTOM, OF_VARIABLES, TENSORBOARD, Condition, decide, write_condition
from tests.infra.build_scripts import Bench
from tests.infra.terraform_cli import MODULES, TERRAFORM
from tests.infra.terraform_text import Block, Configuration, read_configuration

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


HOME, CLUSTERS = "home-project", "clusters-project"
INPUTS = {
    "PROJECT_ID": HOME,
    "CLUSTER_PROJECT": HOME,
    "NAME": "tpu-provisioner",
    "CREATE_ENVIRONMENT": "true",
    "TERRAFORM_VARIABLES": "",
}
BESIDE = {"CLUSTER_PROJECT": CLUSTERS, "CREATE_ENVIRONMENT": "false"}
TIME = "20261124050607"
OF_ENVIRONMENT = {*BUILDS, TENSORBOARD, *(role for roles in OF_VARIABLES.values() for role in roles)}


def functions_roles(project: str, time: str = TIME) -> set[str]:
    return {f"projects/{project}/roles/tpu_provisioner_{each}_{time}" for each in CUSTOM}


def a_role(project: str, time: str = TIME, home: str = HOME, name: str = "tpu_provisioner") -> dict[str, str]:
    """Return the one role that tells the time, as gcloud lists it."""
    return {
        "name": f"projects/{project}/roles/{name}_node_pools_{time}",
        "description": f"What the functions of {name.replace('_', '-')} in project {home} need: node pools.",
    }


def limit(folder: Path, roles: list[dict[str, str]], project: str = HOME, **inputs: str) -> set[str]:
    """Return the roles that the account may grant in a project with these custom roles."""
    (folder / "custom-roles.json").write_text(json.dumps(roles))
    changes, _ = decide(project, [], INPUTS | {"LIMIT_GRANTS": "true"} | inputs, folder)
    ((verb, condition),) = changes
    assert verb == "add"
    assert condition is not None
    assert condition["title"] == "only-roles-of-tpu-provisioner"
    return read_roles(condition["expression"])


def read_roles(expression: str) -> set[str]:
    """Return the roles of an expression, whose form must be IAM's."""
    one = r"api\.getAttribute\('iam\.googleapis\.com/modifiedGrantsByRole', \[\]\)\.hasOnly\(\[([^]]*)\]\)"
    assert re.fullmatch(rf"{one}(?: \|\| {one})*", expression)
    lists = [found[1].split(", ") for found in re.finditer(one, expression)]
    assert all(len(each) <= 10 for each in lists)
    return {role.strip("'") for each in lists for role in each}


def test_each_project_has_a_condition_with_its_own_roles(tmp_path: Path) -> None:
    others = [a_role(HOME, "2", home="other-project"), a_role(HOME, "3", name="tpu_provisioner_two")]

    assert limit(tmp_path, [*others, a_role(HOME)]) == functions_roles(HOME) | OF_ENVIRONMENT
    assert limit(tmp_path, [], HOME, **BESIDE) == set(BUILDS)
    assert limit(tmp_path, [a_role(CLUSTERS)], CLUSTERS, **BESIDE) == functions_roles(CLUSTERS)
    with pytest.raises(ValueError, match=f"LIMIT_GRANTS: {HOME} has no custom role of tpu-provisioner yet"):
        limit(tmp_path, others)


def test_roles_of_the_variables_file_are_in_the_condition(tmp_path: Path) -> None:
    path = tmp_path / "variables.json"
    for wrong in ("roles/x", ["a'b"], [3], {"a": "b"}):
        path.write_text(json.dumps({"gke_sa_roles": wrong}))
        with pytest.raises(ValueError, match="gke_sa_roles: is not a list of roles"):
            limit(tmp_path, [a_role(HOME)], TERRAFORM_VARIABLES=str(path))
    path.write_text(json.dumps({"gke_sa_roles": ["container.nodes"], "tpu_sa_roles": ["projects/p/roles/x"]}))
    more = {*BUILDS, TENSORBOARD, "roles/container.nodes", "projects/p/roles/x"}
    assert limit(tmp_path, [a_role(HOME)], TERRAFORM_VARIABLES=str(path)) == functions_roles(HOME) | more


A = Condition(title="a", expression="true")


def test_a_condition_takes_the_place_of_what_was_there_and_is_added_first(tmp_path: Path) -> None:
    (tmp_path / "custom-roles.json").write_text(json.dumps([a_role(HOME)]))
    asked = INPUTS | {"LIMIT_GRANTS": "true"}
    ((_, wanted), *removed), _ = decide(HOME, [None, A], asked, tmp_path)

    assert removed == [("remove", None), ("remove", A)]
    assert decide(HOME, [wanted], asked, tmp_path)[0] == []


def test_a_condition_has_at_most_thirteen_lists_of_ten_roles() -> None:
    roles = [f"roles/a.b{number}" for number in range(130)]
    assert read_roles(write_condition("x", roles)["expression"]) == set(roles)
    with pytest.raises(ValueError, match=r"can have 130 roles \(got: 131\)"):
        write_condition("x", [*roles, "roles/one.more"])


def test_the_condition_has_every_role_that_terraform_grants_on_a_project_and_no_other_one() -> None:
    granted: dict[str, set[str]] = {"var.project_id": set(), "each": set()}
    for folder in MODULES:
        configuration = read_configuration(TERRAFORM / folder)
        for each in configuration.of("resource"):
            if each.type == "google_project_iam_member":
                project = str(each.body["project"]).strip("${}")
                granted[project.partition(".value")[0].partition(".key")[0]] |= list_granted(configuration, each)
            else:
                assert not re.match(r"google_(project|folder|organization)_iam_(?!custom_role)", each.type)

    of_variables = {role for roles in OF_VARIABLES.values() for role in roles}
    assert granted == {"var.project_id": {*BUILDS, TENSORBOARD} | of_variables, "each": set(CUSTOM)}


def list_granted(configuration: Configuration, grant: Block) -> set[str]:
    """Return the roles of a grant; of custom ones the part of the id after the name."""
    role = str(grant.body["role"])
    if role.startswith("roles/"):
        return {role}
    if found := re.match(r"\$\{google_project_iam_custom_role\.(\w+)\[", role):
        (made,) = (
            each for each in configuration.of("resource") if each.name == found[1] and "role_id" in each.body
        )
        parts = re.fullmatch(
            r'\$\{replace\(var\.name, "-", "_"\)\}_(.+)_\$\{terraform_data\.deployed_at\.output\}',
            made.body["role_id"],
        )
        assert parts, made.body["role_id"]
        assert " in project ${var.project_id} need" in made.body["description"]  # by which the script knows them
        return {parts[1]}
    (source,) = re.findall(r"local\.(\w+_roles)", str(grant.body["for_each"]))
    (variable,) = re.findall(r"var\.(\w+)", str(configuration.locals[source]))
    (declared,) = (each for each in configuration.of("variable") if each.name == variable)
    assert tuple(declared.body["default"]) == OF_VARIABLES[variable]
    return set(OF_VARIABLES[variable])
