"""The preflight as the build runs it, on the mock of Google Cloud: it refuses, and makes nothing.

The mock knows no quotas, so a server with those of a new project answers for Compute Engine. It
knows no policies either: what cannot be read is only mentioned.
"""

import json
import sys
from collections.abc import Iterator

import pytest

from standins.googlecloud.mock_program import MockCloud
from tests.deploy.created_objects import CreatedObjects
from tests.infra.answering_apis import AnsweringApis
from tests.infra.build_project import Project
from tests.infra.mock_google_cloud import PROJECT, serve_mock
from tests.infra.pretended_deployment import CLUSTER, a_resource

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(600)]

SCRIPT = "provision-01-preflight.sh"
LIMITS = {"SSD_TOTAL_GB": 500, "IN_USE_ADDRESSES": 8, "CPUS": 8}
STATE = {"version": 4, "resources": [a_resource(CLUSTER, project=PROJECT, location="us-east5", name="training")]}
FOREIGN = {"version": 4, "resources": [{"mode": "managed", "type": "google_storage_bucket", "name": "b"}]}
MISTAKES = [
    (
        "another `_CLUSTER_NAME` with the same `_NAME`",
        "refused in the step `preflight`, with both clusters",
        "all as it was",
        "succeeds with the first cluster, or with another `_NAME`",
    ),
    (
        "the state of another configuration, such as the public environment",
        "refused in the step `preflight`, with what it has",
        "all as it was",
        "succeeds with another `_TF_STATE_PREFIX`",
    ),
]


@pytest.fixture(scope="module")
def compute() -> Iterator[AnsweringApis]:
    with AnsweringApis() as server:
        quotas = [{"metric": name, "limit": limit, "usage": 0} for name, limit in LIMITS.items()]
        for region in ("us-east5", "us-central1"):
            server.answers[f"/compute/v1/projects/{PROJECT}/regions/{region}"] = {"quotas": quotas}
        yield server


@pytest.fixture(scope="module")
def mock(compute: AnsweringApis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MockCloud]:
    more = {"compute.googleapis.com": compute.url}
    with serve_mock(tmp_path_factory.mktemp("cloud"), require_enabled=True, more=more) as made:
        yield made


@pytest.fixture(scope="module")
def project(environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Project:
    """An empty project, after the first two steps of a build."""
    environ = environ | {"TPU_PROVISIONER_CREDENTIALS": "anonymous"}
    project = Project.make(tmp_path_factory.mktemp("project"), environ)
    python = project.build / "python/bin/python"  # with the functions' packages, and pip has nothing to do
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\n[ "$1" = -m ] || exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    for script in ("check-inputs.sh", "provision-01-apis.sh"):
        project.run(script)
    return project


def count_changes(mock: MockCloud) -> int:
    """Return how many calls to the mock did more than read; a question about a policy is none."""
    calls = [json.loads(line) for line in mock.journal.read_text().splitlines()]
    return sum(each["method"] != "GET" and "OrgPolicy" not in each["path"] for each in calls)


def test_an_empty_project_with_small_quotas_passes_and_is_not_changed(mock: MockCloud, project: Project) -> None:
    before = count_changes(mock)
    for plan_only in ("true", "false"):
        answer = project.run(SCRIPT, fails=False, PLAN_ONLY=plan_only)
        assert "The variables, settings, state, quotas and policies fit, as far as they could be read" in answer
        assert "Not checked: the organisation's policies (roles/orgpolicy.policyViewer on the org" in answer
    assert count_changes(mock) == before


def test_all_refusals_come_at_once_and_nothing_is_made(mock: MockCloud, project: Project) -> None:
    more = {"cpu_pool_disk_siz": 50, "cpu_pool_disk_size": 200, "settings": {"grace_seconds": "soon"}}
    (project.source / "more.json").write_text(json.dumps(more))
    before = count_changes(mock)
    answer = project.run(SCRIPT, fails=True, TERRAFORM_VARIABLES="more.json", PLAN_ONLY="true")

    for refused in (
        "did you mean cpu_pool_disk_size?",
        "settings: TPU_PROVISIONER_GRACE_SECONDS: is not valid (got 'soon')",
        "quota SSD_TOTAL_GB: 500 of 500 GB are left, and 600 are needed for 3 nodes of the CPU pool",
        "error: nothing was made; correct what is named above",
    ):
        assert refused in answer
    assert count_changes(mock) == before
    assert project.list_buckets() == []


@pytest.fixture(scope="module")
def deployed(created: CreatedObjects, project: Project) -> Project:
    """The project with a state bucket, in which is the state of an environment."""
    project.run("provision-02-state-bucket.sh")
    where = f"https://storage.googleapis.com/upload/storage/v1/b/{PROJECT}-tpu-provisioner-state/o"
    for prefix, state in (("tpu-provisioner", STATE), ("foreign", FOREIGN)):
        query = {"uploadType": "media", "name": f"{prefix}/default.tfstate"}
        created.client.post(where, params=query, json=state).raise_for_status()
    return project


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"REGION": "us-central1", "ZONE": "us-central1-a"}, "us-east5/clusters/training, and the inputs name"),
        ({"CLUSTER_NAME": "second"}, "us-east5/clusters/training, and the inputs name"),
        ({"TF_STATE_PREFIX": "foreign"}, "is the state of another configuration (it has google_storage_bucket.b)"),
    ],
)
def test_a_state_of_something_else_is_refused_before_images_and_repositories(
    mock: MockCloud, deployed: Project, inputs: dict[str, str], message: str
) -> None:
    before = count_changes(mock)

    assert message in deployed.run(SCRIPT, fails=True, **inputs)
    assert count_changes(mock) == before
    assert "policies fit" in deployed.run(SCRIPT)
