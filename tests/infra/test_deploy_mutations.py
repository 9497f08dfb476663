"""Errors in Terraform that no plan shows and no API refuses in time: the tests find each one.

`terraform validate` and `terraform test` accept all of them.
"""

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.deploy.cloud_project import CloudProject, root_inputs
from demo.deploy.terraform_root import TerraformFailed, TerraformRoot
from standins.googlecloud.mock_program import MockCloud
from tests.infra.build_scripts import BUILD
from tests.infra.mock_google_cloud import PROJECT, serve_mock
from tests.infra.terraform_cli import TERRAFORM
from tests.program_runs import run_python

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(600)]

REGION, ZONE, CLUSTER = "us-east5", "us-east5-b", "training"
TOPICS, FUNCTIONS = "modules/provisioner/topics.tf", "modules/provisioner/main.tf"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("archive") / "functions.zip"
    run_python(BUILD / "stage_functions.py", "--zip", path, succeeds=True)
    return path


@pytest.fixture(scope="module")
def mock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MockCloud]:
    with serve_mock(tmp_path_factory.mktemp("cloud")) as mock:
        yield mock


@pytest.fixture(scope="module")
def project(mock: MockCloud) -> Iterator[CloudProject]:
    with CloudProject(mock, REGION, CLUSTER) as project:
        project.create_cluster()
        yield project


@pytest.fixture(scope="module")
def beside(
    mock: MockCloud, project: CloudProject, archive: Path, tmp_path_factory: pytest.TempPathFactory
) -> TerraformRoot:
    """The provisioner beside a cluster, applied as it is."""
    folder = tmp_path_factory.mktemp("beside") / "root"
    inputs = root_inputs(PROJECT, REGION, ZONE, CLUSTER, str(archive))
    root = TerraformRoot(TERRAFORM, "provisioner", folder, clients=mock.describe_clients(), inputs=inputs)
    root.apply()
    assert project.read_deployment().find_problems() == []
    return root


def mutate(roots: Path, file: str, old: str, new: str) -> None:
    text = (roots / file).read_text()
    assert text.count(old) == 1, f"{file} has changed: {old!r} is there {text.count(old)} times"
    (roots / file).write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("file", "old", "new", "found"),
    [
        pytest.param(
            TOPICS,
            "audience              = google_cloudfunctions2_function.this[each.key].service_config[0].uri",
            "audience              = google_cloudfunctions2_function.this[each.key].url",
            [
                f"projects/{PROJECT}/subscriptions/tpu-provisioner-{name}: the audience "
                f"'https://{REGION}-{PROJECT}.cloudfunctions.net/tpu-provisioner-{name}' is not the address"
                for name in ("collect", "provision", "settle")
            ],
            id="the audience is the function's other address",
        ),
        pytest.param(
            FUNCTIONS,
            'resource "google_cloud_run_v2_service_iam_binding" "invokers" {\n  for_each = local.functions\n',
            'resource "google_cloud_run_v2_service_iam_binding" "invokers" {\n'
            '  for_each = { for key, each in local.functions : key => each if key != "sweep" }\n',
            [f"projects/{PROJECT}/locations/{REGION}/jobs/tpu-provisioner-sweep: 'tpu-provisioner-scheduler@"],
            id="the scheduler's binding is gone",
        ),
        pytest.param(
            FUNCTIONS,
            "TPU_PROVISIONER_OWN_NAMESPACE                 = var",
            "TPU_PROVISIONER_NAMESPACE                     = var",
            [f"tpu-provisioner-{name}: its start stops" for name in ("collect", "provision", "settle", "sweep")],
            id="a variable is no setting",
        ),
    ],
)
def test_a_contradiction_that_every_api_accepts_is_found(
    project: CloudProject, beside: TerraformRoot, file: str, old: str, new: str, found: list[str]
) -> None:
    mutate(beside.roots, file, old, new)
    try:
        beside.apply()
        problems = project.read_deployment().find_problems()
    finally:
        mutate(beside.roots, file, new, old)

    assert len(problems) >= len(found)
    assert [text for text in found if not any(each.startswith(text) for each in problems)] == []


SEEN = {
    ("iam.googleapis.com/projects/*/serviceAccounts/*", "roles/iam.serviceAccountTokenCreator"),
    ("pubsub.googleapis.com/projects/*/subscriptions/*", "roles/pubsub.subscriber"),
    ("pubsub.googleapis.com/projects/*/topics/*", "roles/pubsub.publisher"),
    ("run.googleapis.com/projects/*/locations/*/services/*", "roles/run.invoker"),
}
"""The grants that parts of a deployment cannot do without, as far as what is deployed tells."""


def test_each_binding_without_which_a_call_fails_is_missed(project: CloudProject, beside: TerraformRoot) -> None:
    """Each is removed in turn from what the mock keeps; the exporter's is the only one not seen."""
    beside.apply()  # what the test before this one has changed is as it was
    deployment = project.read_deployment()
    assert deployment.find_problems() == []
    kinds: dict[tuple[str, str], list[bool]] = {}
    for resource, policy in deployment.policies.items():
        for binding in policy.get("bindings", []):
            for member in binding["members"]:
                kept = [each for each in policy["bindings"] if each is not binding]
                kept.append(binding | {"members": [each for each in binding["members"] if each != member]})
                policies = deployment.policies | {resource: policy | {"bindings": kept}}
                found = dataclasses.replace(deployment, policies=policies).find_problems()
                kind = re.sub(
                    r"/(projects|locations|serviceAccounts|subscriptions|topics|services)/[^/]+",
                    r"/\1/*",
                    resource,
                )
                kinds.setdefault((kind, binding["role"]), []).append(bool(found))

    assert {kind for kind, seen in kinds.items() if any(seen)} == SEEN


def test_a_grant_that_does_not_wait_for_the_cluster_fails_in_an_empty_project(
    archive: Path, tmp_path: Path
) -> None:
    """Only this grant is applied: without its `depends_on` nothing brings the cluster first."""
    inputs = {
        "project_id": PROJECT,
        "region": REGION,
        "zone": ZONE,
        "functions_archive": str(archive),
        "cluster_name": CLUSTER,
        "network_name": CLUSTER,
        "subnet_name": CLUSTER,
        "artifact_repository_bucket_name": "training-artifacts",
    }
    with serve_mock(tmp_path) as mock:
        root = TerraformRoot(
            TERRAFORM, "complete", tmp_path / "root", clients=mock.describe_clients(), inputs=inputs
        )
        mutate(
            root.roots,
            "modules/environment/accounts.tf",
            "local.workload_members[each.value.identity]\n\n  depends_on = [google_container_cluster.this]\n",
            "local.workload_members[each.value.identity]\n",
        )
        with pytest.raises(TerraformFailed, match=r"Identity Pool does not exist"):
            root.apply("-target=module.environment.google_project_iam_member.workload")
